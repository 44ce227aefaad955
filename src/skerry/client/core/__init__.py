"""A space without I/O: bytes, time and randomness are arguments, events and bytes are results.

space
    SpaceCore: the operations of a space, and its parts.
node_connection
    The machine that connects to the node: stream, handshake, reconnecting.
settings, states
    Configuration and statistics; connection states and events for the program.
frame_reading
    Reads received bytes into objects and other messages.
update_intake
    Stores each received update and calls callbacks.
type_route, type_store
    The callbacks and the stored objects of one type.
received_types, events
    A type as it is received; the event of an update.
subscriptions, node_subscription
    Which groups the space joins, and the subscribers of each.
route_table, stores, local_filters
    Routes for patterns; replay and removal of stored objects; filters evaluated in the client.
known_types
    The types of the program and of the node.
node_answers
    Answers, refusals and type descriptions of the node.
send_buffer
    Encodes published objects; the frames that wait to be sent.
flushes, liveness
    Confirmations of publishes; detection of a dead node.
requests_and_claims
    Requests, answers and claims as operations of a space.
requests, received_requests, claims
    Requests that wait for answers; requests of other programs; exclusive rights.
event_queue
    Events that wait for an iterator, with conflation.
arguments, keys
    Checks of arguments; keys as programs write them.
"""
