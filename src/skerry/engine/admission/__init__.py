"""Which clients may connect to a node, what they may do, and how much of it they may use.

admission            the interface for the node: combines everything below
origins              where a connection comes from, and the networks that rules name
authentication       which clients may connect: rules by network and name, some with a secret
secret_delays        the delay after a wrong secret
pending_connections  connections that have not completed their handshake, and which of them is
                     closed for a new one
permissions          what a client may do: rules by verb and subject. Whether it may publish an
                     update
permission_review    replaces the rules of admission, and checks all connected clients after that
quotas               the limits of one client and of one address, and the meter of published updates
shared_quotas        what all clients of a node use together, and the reserve for trusted clients
"""
