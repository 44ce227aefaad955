"""Publishers and subscribers of multicast groups, without a node.

sync
    Connections for programs with threads.
aio
    Connections on an asyncio loop.
connection_base
    The parts that both kinds of connections, publishers and subscribers share.
config, events
    Parameters of a connection; events about slow subscribers.
group_session
    A connection, shared by its publishers and subscribers, and driven by a thread or loop.
publish_buffer
    Updates on their way from publishers to the machine.
router
    Puts received updates into the queues of their subscribers.
delivery_queue
    The queue of a publisher or subscriber, and its thread.
dispatch
    Calls callbacks with updates.
management, report, rates
    Statistics: where they are published, what they contain, how rates are computed.
"""
