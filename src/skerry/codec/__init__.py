"""Encoding of objects and frames: how objects become bytes.

values      classes for values that Python has no class for
kinds       the kinds of field types, as constants
plans       tables that describe a type to the encoder and the decoder
compile     makes the plan of a type from its definition
heads       reads and skips CBOR items
encoder     encodes objects by walking a plan
decoder     decodes objects by walking a plan
pieces      splits, merges and checks encoded objects without decoding them
projection  converts encoded objects to another definition of their type
codec       the codec of one struct: all of the above for its plan
operation   what an update did to an object: create, update or remove
subjects    the default subject of an object
envelope    the update, the unit that all parts of the system exchange
bson        BSON, in which Goby programs exchange JSON
frame       splits a byte stream into frames
hot_loops   the loops that run for every message, in Cython or in Python
"""
