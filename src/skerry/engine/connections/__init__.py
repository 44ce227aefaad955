"""The connections of a node's clients: handshake, turns, output, memory bounds and disconnection.

`NodeCore` (`engine.node`) creates one object of each module and passes input to them.

- `node_clock`: the time of the current input, monotonic and wall time
- `client_table`: the connected clients, by address and by id
- `handshakes`: accepts and rejects connections
- `turn_queue`: the clients that wait for a turn
- `client_turns`: runs turns: queued input, tasks, conflated updates
- `client_output`: writes a client's queue to its transport
- `output_batches`: which queues are sent now, and which are delayed
- `memory_bounds`: disconnects the clients that use most when a memory bound is exceeded
- `disconnection`: refuses requests, and ends connections
"""
