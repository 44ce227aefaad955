"""The protocols between programs, as machines without I/O.

    machine       the contract of all machines: inputs, events, transmits, deadlines
    transitions   the states of a machine as a table
    outbox        the events and transmits of a machine until they are taken
    deadlines     timers as data
    backoff       delays before the next attempt
    patterns      subjects, and the patterns that select them
    node_types    the types of nodes in a system, and what is required of them
    exclusion     the reasons for which a node is excluded
    protobuf_tables  message classes of Protocol Buffers from tables of their fields
    access/       between an application and its node: the DOTS protocol
    distributor/  multicast from one sender to many receivers, with repair of losses
    discovery/    how nodes find each other
    link/         messages between nodes, acknowledged or not
    picture/      the picture of the system, which all nodes agree on
    portal/       Goby programs and their broker, by ZeroMQ
    rtps/         the datagrams of discovery and link
    sealing/      encryption and authentication of datagrams, for all protocols

The first six packages do not import each other. The others and the modules are shared.
"""
