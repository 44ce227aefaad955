"""This node as one of many: it finds the others, and all have one picture of the system.

config          the parameters of a node in a system
events          what the system reports, and its counters
channel_health  what the picture needs to know of the nodes on a channel
channel_seal    the seal of both channels
system_core     the machine: discovery, picture, and the control and data channel
"""
