"""Delivery to subscribers that need more than a frame in their queue.

group_members
: Members of groups that conflate, or have a cache replay in progress.
cache_replay
: Sends the cached objects to a client that has joined, in slices.
replay_parts
: The objects of one topic in a cache replay.
replay_selection
: Which objects are replayed to a client that joined a pattern.
filtered_subscription
: Subscriptions with a condition or with selected fields.
query
: Checks and compiles a condition.
predicate
: Tests a compiled condition on an encoded object.
conflation
: The last states of objects for a slow client.
backpressure
: Publishers wait for subscribers that read slowly.
bulk_removal
: Removes the objects of a type or of a client, in slices.
"""
