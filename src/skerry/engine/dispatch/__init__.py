"""The path of an update through a node: checked, cached, and queued for each subscriber.

frame_intake
: Processes the input of clients, frame by frame.
frame_forwarding
: Forwards frames with a known header without decoding them.
header_templates
: What a node remembers about a header that it has received before.
dispatcher
: Checks each other update, caches it and delivers it.
topics
: Topics, their routes, and the update that is being delivered.
routing
: Finds the subscribers of a topic and subject.
pattern_reach
: Which types a subject pattern selects objects of.
group_quotas
: How many groups and memberships clients may have.
cache
: The current objects by type and key.
cache_quotas
: How much of the cache clients and addresses may use.
source
: The publisher of updates.
client_queue
: The frames that wait to be sent to one client.
node_publisher
: Publishes objects of the node itself.
ledger
: What became of every update that was due to a subscriber.
"""
