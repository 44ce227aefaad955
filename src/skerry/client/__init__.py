"""The client library: spaces of a node, and connections to multicast groups.

core         a space without I/O: connection, subscriptions, stores, requests and claims
io           the driver of a space: streams, the event loop and its thread
api          what applications use: asyncio and blocking spaces, subscriptions, containers, services
distributor  publishers and subscribers of multicast groups, without a node
"""
