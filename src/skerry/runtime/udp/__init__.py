"""UDP and multicast sockets, and the driver of the distributor.

group_driver  the driver of a distributor connection: its socket and its machine
multicast     a socket in a multicast group
segmentation  several datagrams per system call
datagrams     kernel options: buffer sizes, filters, segmentation
interfaces    network interfaces of this computer
"""
