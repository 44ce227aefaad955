"""ZeroMQ sockets: the broker of a portal, and connections of clients.

frame_reader   reads the frames of a ZeroMQ socket on an asyncio loop
router         passes publications on, in a thread, in C or checking them in Python
broker         the sockets of a portal: its router and its manager
broker_config  parameters of a broker
broker_lock    keeps a second broker from taking over the sockets of a running one
data_ports     the TCP ports of the last run
client_driver  the sockets of a client
"""
