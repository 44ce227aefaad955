"""Example machines, the node and its clients as machines, and the scenarios of `skerry sim`.

echo            an echo by datagrams: the example of machines and of a scenario
node_host       a node with a simulated disk
program         a client program, and the record of what programs publish
node_checkers   checkers of a node and its clients
node_scenarios  the scenario of a node and its clients, and its parts for other scenarios
system_site     a system of nodes in one network
system_checkers checkers of a system of nodes
system_scenarios  the scenario of a system of nodes
"""
