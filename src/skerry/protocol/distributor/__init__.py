"""Multicast from one sender to many receivers, with repair of losses, as machines without sockets.

config            the parameters of a connection
events            the events and the counters of a connection
connection        the machine that a runtime drives
control_intake    processing of received control messages
identity          how sender identities are made
messages          the messages as values
wire              encoding of messages in two dialects
segments          large updates in pieces
sealed_datagrams  the seal of a group
subjects          the subscriptions of a connection
overview          the message for monitoring programs
sending/          the sending half
receiving/        the receiving half
"""
