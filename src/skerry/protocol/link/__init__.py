"""Reliable messages between nodes, acknowledged, in order and without gaps.

    config           the parameters of a link
    events           what a link reports
    packets          samples, and the packets in which they are sent
    message_packing  messages to samples
    reader_progress  what one receiver of a stream has acknowledged
    sample_buffer    the samples of a stream that a receiver still needs
    outgoing_stream  a reliable stream at its sender: window, queue, retransmission
    conflation       what a receiver that lags behind no longer needs
    assembly         fragments to samples
    incoming_stream  a reliable stream at its receiver: order, and acknowledgement
    best_effort      streams without acknowledgement, at both ends
    output           packets and answers to datagrams
    peers            what a link knows about another node
    stream_places    where forgotten streams continue
    input            the receiving half of a link
    link             the machine of one channel of one node
    direct_link      the machine of a program that is not a member of a system

A node has one link for each channel. Who takes part is decided elsewhere: nodes are included and
excluded by the system picture.
"""
