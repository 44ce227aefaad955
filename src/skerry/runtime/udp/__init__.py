"""UDP and multicast sockets, and the driver of the distributor.

group_driver  the driver of a distributor connection: its socket and its machine
loop_turns    the reader, the wake-up and the timer of a socket on an asyncio loop
multicast     a socket in a multicast group
segmentation  several datagrams per system call
datagrams     kernel options: buffer sizes, filters, segmentation
interfaces    network interfaces of this computer
"""
