"""The connections of a node's clients, from the handshake to the disconnection.

connections     creates the parts below, and passes the input of streams to them
input_clock     the time of the current input
client_table    the connected clients
handshakes      accepts and rejects connections
turn_queue      the clients that wait for a turn
client_turns    runs turns: queued input, tasks, conflated updates
output_batches  which queues are sent now, and which are delayed
client_output   writes the queue of a client to its transport
memory_bounds   disconnects the clients that use most memory when a bound is exceeded
disconnection   refuses requests, and ends connections
service_host    what the services use of their node
"""
