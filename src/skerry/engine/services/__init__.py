"""What a node does for its clients besides delivering updates.

node_services   messages of clients to the node itself, each passed to its service: clear, echo,
                administration
joining         clients join and leave groups, and receive the cached objects
requests        forwards each request to its handler; every request gets exactly one response
request_calls   open requests, their queues, and the messages about them
ownership       claims: exclusive rights of clients, their holders and standbys
client_cleanup  cleanup after clients that disconnected, in slices
status_objects  the objects that a node publishes about itself and its clients
picture         the picture of the system, and what nodes observe of each other, as objects
node_links      the links between nodes, as objects that recordings keep
"""
