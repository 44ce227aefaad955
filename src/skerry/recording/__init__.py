"""Recorded traffic without I/O: updates to rows, rows to bytes of segments, and back.

columns         the columns of a row
rows            collects rows in buffers, one per column
format          encodes batches of rows as blocks of a segment, and decodes them
index           the index of a segment: its batches and what they contain
scanning        builds the index by scanning the bytes of a segment
manifest_lines  the lines of a manifest
gaps            rows that state what is missing
descriptions    rows that describe types
updates         converts rows to updates
selection       selects rows by time, type and subject
seen            detects updates that several recordings have
goby            Goby logs: bytes to entries, and back
states          the state of objects after some updates
unions          the union of compatible definitions of a type
json_rows       rows as JSON, and JSON schemas of types
"""
