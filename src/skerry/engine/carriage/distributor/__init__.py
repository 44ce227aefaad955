"""The carriage by distributor: messages of a node to the group of its system, and back.

carriage
: The machine between a node and its group.
node_client
: The connection of the carriage to its node, as a client inside the program.
outgoing
: From the node to the group.
incoming
: From the group to the node: checks, and messages that wait for the description of their type.
types
: Types as the carriage needs them: subjects, descriptions, checks.
headers
: Reads headers, most of which differ from the one before only in their times.
events
: Events, reasons for drops, and statistics.
"""
