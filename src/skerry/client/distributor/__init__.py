"""Publishers and subscribers of multicast groups, without a node.

sync             connections for programs with threads
aio              connections on an asyncio loop
connection_base  the parts that both kinds of connections, publishers and subscribers share
config           parameters of a connection
events           events about slow subscribers
group_session    a connection, shared by publishers and subscribers, driven by a thread or loop
publish_buffer   updates on their way from publishers to the machine
router           puts received updates into the queues of their subscribers
delivery_queue   the queue of a publisher or subscriber, and its thread
dispatch         calls callbacks with updates
management       publishes statistics: an overview by multicast, a page, a log
report           the content of the statistics, with rates over seconds and minutes
"""
