"""The node as pure machines: clients, the cache of current objects, and delivery to subscribers.

node             `NodeCore`, which creates the parts below and connects them
node_statistics  the counters of all parts
clients          the state of one client, and the tasks on its agenda
events           events that the program which runs the node logs
connections      the streams of clients: handshake, turns, output, memory bounds, disconnection
dispatch         the path of an update: checked, cached, and queued for each subscriber
delivery         subscribers that need more than a frame: filtered, replayed, conflated, slow
admission        which clients may connect, what they may do, and how much
services         messages of clients to the node: joins, requests, claims, status
types            the types that a node knows, and the definitions that it serves
persistence      the journal of changes that are not yet stored
carriage         the exchange of updates with other nodes
system           this node as one of many: the picture that all of them share
"""
