"""UDP and multicast sockets, the driver of the distributor, and a node in a system.

group_driver      the driver of a distributor connection: its socket and its machine
multicast         a socket in a multicast group
system_runtime    a node in a system: its machine, its sockets and its driver
system_sockets    all sockets of such a node, and the datagrams that wait for the machine
channel_sockets   the sockets of one of its channels
group_membership  how they join groups, and send to them
system_addresses  its interfaces and its ports
segmentation      several datagrams per system call
datagrams         kernel options: buffer sizes, filters, segmentation
interfaces        network interfaces of this computer
"""
