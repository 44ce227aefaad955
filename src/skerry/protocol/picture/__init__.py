"""The picture of the system: which nodes belong to it, equal on all of them.

    entries       nodes, raw statistics and the state of the system as values
    bodies        these values as the bytes of messages
    events        what the picture reports, and what it wants done
    liveness      which nodes are silent, deaf or slow, by their counters
    raw_table     what this node knows of the others, and they of each other
    election      which node decides
    membership    which run of the system this node belongs to
    production    the next state, made by the elected node
    state_intake  which states of the elected node are accepted
    other_half    which half leaves, when two halves of a system meet again
    output        what is to be done and sent, and sent again
    picture       the machine: joins the parts

Each node distributes what it observes: the raw statistics. The node with the highest id is elected
and makes the state of them. The others accept states of the elected node only, so all have the
same.
"""
