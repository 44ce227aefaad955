"""The subset of RTPS 2.2 in which nodes talk to each other, so that packet analysers decode it.

    entities          channels, guid prefixes, and the ids of writers and readers
    submessages       the parts of a datagram as values
    number_sets       sets of sequence or fragment numbers as bitmaps
    datagram_writer   values to the bytes of a datagram
    datagram_reader   bytes of a datagram to values
    samples           the records in a sample: what one sequence number carries
    parameters        parameter lists, in which nodes describe themselves
    sealed_datagrams  datagrams that only nodes with the keys of the system can read

The link, discovery and the picture of the system are built on it. Only the seal has state.
"""
