"""The mapping between the publications of a portal and the objects of a space, without I/O.

protobuf_types    messages of Protocol Buffers, from descriptors of their files
message_structs   structs for messages, and objects from messages and back
rules             which publications and which objects correspond to each other
contents          payloads by scheme: objects and bytes of a space from them, and back
portal_mapping    applies the rules in both directions, and breaks loops
"""
