"""The receiving half of a connection.

sender_table     the senders of a group, and the requests that are due
remote_senders   the presence of one sender
receiver         the stream of one sender: order, repair and loss
receiver_states  the states of a receiver, as a transition table
stream_start     where a stream begins for a receiver that joined
gaps             missing datagrams, when they are requested, and datagrams that wait for them
stream_delivery  unpacking, reassembly and delivery of ordered datagrams
unpacking        the updates in a datagram
updates          updates for the application
deliveries       the queue of events and updates
link_quality     counts of losses and response times
nagging          the monitor of a receiver that requests too much
"""
