"""Example machines, and the scenarios of `skerry sim`.

echo                  an echo by datagrams: the example of a machine
stream_echo           the echo over streams
heartbeat             a failure detector for a multicast group
checkers              checkers of these three
scenarios             their scenarios
distributor           the scenario of a multicast group
distributor_checkers  its checkers
carrier_host          a node with a group carriage and programs, in one machine
carrier               the scenario of messages between nodes of a group
node_history          what simulated programs publish
node_host             a node with a simulated disk
program               a client program
node_checkers         checkers of a node and its clients
node_scenarios        the scenarios of a node and its clients
request_history       the requests of simulated programs
request_host          a node with an observer client in its process
request_program       a client program that sends and answers requests, and claims objects
request_state         the state of claims and requests inside a node
request_checkers      checkers of requests and claims
request_scenarios     the scenario of requests and claims
"""
