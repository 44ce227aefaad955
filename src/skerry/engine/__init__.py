"""The node as pure machines: clients, the cache of current objects, and delivery to subscribers.

node
: `NodeCore`, which creates the parts below and connects them.
node_statistics
: The counters of all parts.
clients
: The state of one client, and the tasks on its agenda.
events
: Events that the program which runs the node logs.
connections
: The streams of clients: handshake, turns, output, memory bounds, disconnection.
dispatch
: The path of an update: checked, cached, and queued for each subscriber.
delivery
: Subscribers that need more than a frame: filtered, replayed, conflated, slow.
admission
: Which clients may connect, what they may do, and how much.
services
: Messages of clients to the node: joins, requests, claims, status.
types
: The types that a node knows, and the definitions that it serves.
persistence
: The journal of changes that are not yet stored.
system
: This node as one of many: discovery, the picture, and the channels between nodes.
carriage
: The exchange of updates with other nodes.
"""
