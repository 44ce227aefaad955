"""Byte streams between nodes and clients: TCP, TLS, Unix sockets and WebSockets.

endpoints         parses endpoints such as `tcp://127.0.0.1:11235`
sockets           binds listening sockets and sets socket options
node_server       carries bytes between the core of a node and the streams of its clients
listeners         the listeners of a node, one per endpoint
accepting         accepts connections at a listening socket
tls               TLS contexts, and connections in the TLS handshake
websocket         the WebSocket listener of a node
websocket_base    messages and closing handshake, for both ends of a WebSocket
websocket_client  the client end of a WebSocket
web_origins       which web pages may connect to a node
read_slices       processes input in slices, so that one stream does not delay the others
socket_stream     the socket of a client, without an asyncio transport
orderly_close     closes a stream so that the last message reaches the peer
dead_peer_watch   detects peers whose computer is gone
"""
