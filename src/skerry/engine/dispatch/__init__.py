"""The path of an update through a node: checked, cached, and queued for each subscriber.

frame_intake      processes the input of clients, frame by frame
frame_forwarding  forwards frames with a known header without decoding them
dispatcher        checks each other update, caches it and delivers it
topics            topics, their routes, and the update that is being delivered
routing           finds the subscribers of a topic and subject
pattern_reach     which types a subject pattern selects objects of
group_quotas      how many groups and memberships clients may have
cache             the current objects by type and key
cache_quotas      how much of the cache clients and addresses may use
client_queue      the frames that wait to be sent to one client
node_publisher    publishes objects of the node itself
ledger            what became of every update that was due to a subscriber
"""
