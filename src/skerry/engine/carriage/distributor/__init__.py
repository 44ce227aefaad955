"""The carriage by distributor: messages of a node to the group of its system, and back.

carriage     the machine between a node and its group
node_client  the connection of the carriage to its node, as a client inside the program
outgoing     from the node to the group
incoming     from the group to the node: checks, and messages that wait for the description of their
             type
types        types as the carriage needs them: subjects, descriptions, checks
events       events, reasons for drops, and statistics
"""
