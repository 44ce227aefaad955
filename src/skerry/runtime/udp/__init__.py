"""UDP and multicast sockets.

multicast     a socket in a multicast group
segmentation  several datagrams per system call
datagrams     kernel options: buffer sizes, filters, segmentation
interfaces    network interfaces of this computer
"""
