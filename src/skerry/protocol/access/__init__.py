"""The DOTS protocol between applications and nodes, as machines for both ends.

handshake       the states of a connection at both ends, as transition tables
connection      the part that both ends share: framing, type descriptions, the end
client          the client's end
server          the node's end
secrets         authentication by a challenge
header          the header of a transmission: decoding and encoding
header_repeats  recognition of repeated headers
wire            the two binary framings
outgoing        the queue of frames to be sent
json/           the JSON framing of WebSockets
where/          the `where` of filtered subscriptions
"""
