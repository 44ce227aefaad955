"""Finding the other nodes of a system.

    events        what discovery reports, and its counters
    descriptions  nodes as parameter lists: the messages of discovery
    directory     the nodes and addresses that are known, and those that are excluded
    strangers     unknown nodes from which datagrams arrive
    probes        whether datagrams of each size are answered by the known nodes
    discovery     the machine: which nodes it queries when, and what it answers

A node is reported once, and only after a message was received from it. Discovery sends its own
datagrams, on the control channel.
"""
