"""What a node does, without I/O: it checks, caches and delivers updates, and serves its clients.

node
: NodeCore, the machine that combines everything below with the access protocol.
clients
: What a node knows about each client, and the tasks on its agenda.
dispatch
: The path of an update: intake, dispatcher, cache, routes, client queues.
delivery
: How subscribers receive updates: groups, filters, cache replay, conflation, backpressure.
types
: The definitions of types that clients sent, and the ones that are served.
services
: Messages of clients to the node itself: joins, requests, claims, echo, clear.
admission
: Which clients may connect, what they may do, and how much.
persistence
: The journal of changes of persistent objects.
carriage
: The exchange of updates with other nodes.
events
: Events for the program that runs the node.
"""
