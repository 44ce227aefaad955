"""The driver of a space: streams, the event loop and its thread.

session          moves bytes between a space and a stream, and lets callers wait
unknown_types    warnings about subscriptions to types that the node does not know
endpoint_opener  opens streams to the endpoint of a node
loop_thread      an event loop in its own thread, for blocking spaces
at_exit          the open blocking spaces of a process, at a fork and at its end
"""
