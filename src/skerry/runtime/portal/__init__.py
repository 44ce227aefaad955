"""ZeroMQ sockets: the broker of a portal, and connections of clients.

frame_reader  reads the frames of a ZeroMQ socket on an asyncio loop
router        passes publications on, in a thread of C
broker        the sockets of a portal: its router and its manager
broker_config parameters of a broker
client_driver the sockets of a client
"""
