"""The protocols between programs, as machines without I/O.

    machine       the contract of all machines: inputs, events, transmits, deadlines
    transitions   the states of a machine as a table
    outbox        the events and transmits of a machine until they are taken
    deadlines     timers as data
    backoff       delays before the next attempt
    patterns      subjects, and the patterns that select them
    access/       between an application and its node: the DOTS protocol
    distributor/  multicast from one sender to many receivers, with repair of losses

The packages do not import each other; the modules beside them are shared.
"""
