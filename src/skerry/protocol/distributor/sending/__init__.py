"""The sending half of a connection.

sender            numbered datagrams, announcements and retransmissions
packing           the open datagram, into which updates are written
announcements     when announcements, heartbeats and goodbyes are sent
control_messages  the control messages of a sender
flow              the rate of updates, the bandwidth limit, and limits of retransmissions
history           sent datagrams, kept for retransmission
resending         the answers to repair requests
"""
