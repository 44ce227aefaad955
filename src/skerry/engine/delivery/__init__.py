"""Delivery to subscribers that need more than a frame in their queue.

group_members          members of groups that conflate, or have a cache replay in progress
cache_replay           sends the cached objects to a client that has joined, in slices
replay_parts           the objects of one topic in a cache replay
replay_selection       which objects are replayed to a client that joined a pattern
filtered_subscription  subscriptions with a condition or with selected fields
query                  checks and compiles a condition
predicate              tests a compiled condition on an encoded object
conflation             the last states of objects for a slow client
backpressure           publishers wait for subscribers that read slowly
bulk_removal           removes the objects of a type or of a client, in slices
"""
