"""The carriages of a node: each exchanges updates with other nodes in one way.

distributor  messages for the site, by multicast to the group of the system
"""
