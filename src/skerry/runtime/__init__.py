"""All I/O of skerry: sockets, files, clocks and processes.

streams         TCP, TLS, Unix sockets and WebSockets
udp             UDP and multicast: the distributor, and the nodes of a system
portal          ZeroMQ: the broker of a portal, and its clients
goby_logs       Goby logs on disk
recordings      recordings in folders and at remote paths
storage         persistent objects in SQLite or PostgreSQL
health          the HTTP server for health and metrics
clock           wall time and monotonic time
loops           selects the event loop
machine_driver  drives a machine on an asyncio loop: its turns, its timer and the wall clock
request_spans   spans of OpenTelemetry for requests that cross programs
loop_turns      the readers, the wake-up and the timer of a user of sockets on an asyncio loop
collector       shortens the pauses of the garbage collector
whole_files     reads whole files, and replaces files atomically
system_folders  the folders for sockets and stored objects
secret_files    reads files with secrets
key_files       reads key files of distributor groups
type_files      reads type files
java            finds a Java for Spark
usage           resource usage of this process
"""
