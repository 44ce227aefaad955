"""A space without I/O: bytes, time and randomness are arguments, events and bytes are results.

space                SpaceCore: the operations of a space, and its parts
node_connection      the machine that connects to the node: stream, handshake, reconnecting
settings             configuration and statistics of a space
states               connection states, and events for the program
frame_reading        reads received bytes into objects and other messages
update_intake        stores each received update and calls callbacks
type_route           the callbacks of one type
type_store           the stored objects of one type
received_types       a type as it is received
events               the event of an update
event_queue          events that wait for an iterator, with conflation
subscriptions        which groups the space joins, and when it joins again
node_subscription    one group that the space has joined, and its subscribers
route_table          creates routes, and counts the patterns that may select each type
stores               replays, marks and drops many stored objects
local_filters        filtered subscriptions that the client evaluates
known_types          the types of the program and of the node
node_answers         answers, refusals and type descriptions of the node
send_buffer          encodes published objects; frames that wait to be sent
flushes              confirmations of publishes
liveness             detection of a dead node
requests_and_claims  requests, answers and claims as operations of a space
requests             requests that wait for answers
received_requests    requests of other programs, and the responses to them
claims               exclusive rights: their states, and sending them again
arguments            checks of the arguments of a space
keys                 keys as programs write them
"""
