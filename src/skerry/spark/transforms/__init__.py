"""Functions from frame to frame, for queries and derived tables.

For queries:

- `asof`: states at an instant, snapshots, updates between instants, differences

For derived tables:

- `derived`: the list of derived tables
- `events`: recorded events of all types
- `rates`: updates and bytes by type, subject, node and minute
- `links`: latency, loss and repair by sender and minute
- `sessions`: sessions of clients, nodes and multicast programs
- `alarms`: unusual minutes, stalls, loss and clock jumps
"""
