"""The node as a program (`skerry node run`).

config                 section `node` of the configuration
peers                  section `node.peers`: node types, addresses and seeds
program                run_node: starts the parts of a node, and ends them in order
storage                connects the journal of the core with a storage
pages                  HTTP pages for metrics, status and health
distributor_carriage   messages between nodes by multicast
portal                 section `node.portal`: the portal inside a node
system_member          the machine of the node in its system, on its sockets
inside_space           the space of the node, for a client inside the node's process
in_process_stream      the stream of a client inside the node's process
recording              the client that records its own node
"""
