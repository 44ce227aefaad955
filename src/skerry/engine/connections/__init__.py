"""The connections of a node's clients, from the handshake to the disconnection.

connections
: Creates the parts below, and passes the input of streams to them.
input_clock
: The time of the current input.
client_table
: The connected clients.
handshakes
: Accepts and rejects connections.
turn_queue
: The clients that wait for a turn.
client_turns
: Runs turns: queued input, tasks, conflated updates.
output_batches
: Which queues are sent now, and which are delayed.
client_output
: Writes the queue of a client to its transport.
memory_bounds
: Disconnects the clients that use most memory when a bound is exceeded.
disconnection
: Refuses requests, and ends connections.
service_host
: What the services use of their node.
"""
