"""The JSON framing of WebSockets.

wire     transmissions as JSON messages
objects  objects to JSON text, and from JSON values
text     parsing of untrusted text within bounds
parser   parsing of large text in steps
reading  large received messages, encoded while they are parsed
writing  large sent messages, written in steps
"""
