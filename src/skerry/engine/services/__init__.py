"""What a node does for its clients besides delivering updates.

node_services
: Messages of clients to the node itself, each passed to its service: clear, echo, administration.
joining
: Clients join and leave groups, and receive the cached objects.
requests
: Forwards each request to its handler; every request gets exactly one response.
request_calls
: Open requests, their queues, and the messages about them.
ownership
: Claims: exclusive rights of clients, their holders and standbys.
client_cleanup
: Cleanup after clients that disconnected, in slices.
status_objects
: The objects that a node publishes about itself and its clients.
picture
: The picture of a system that consists of one node.
"""
