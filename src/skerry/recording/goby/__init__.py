"""Goby log files (`.goby`) without I/O: bytes to entries, and back.

entries      the entries of a log, and their encoding
reader       reads the bytes of a log, also a damaged one
writer       writes entries, with the names and descriptors that they need
text         entries as JSON objects and as lines of text, and back
"""
