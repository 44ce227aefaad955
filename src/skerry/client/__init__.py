"""The client library: spaces of a node, connections to multicast groups and to portals.

core         a space without I/O: connection, subscriptions, stores, requests and claims
io           the driver of a space: streams, the event loop and its thread
api          what applications use: asyncio and blocking spaces, subscriptions, containers, services
distributor  publishers and subscribers of multicast groups, without a node
portal       clients of a portal, without a node
"""
