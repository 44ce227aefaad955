"""The client library: spaces of a node, and connections to multicast groups.

core
    A space without I/O: the connection machine, subscriptions, stores, requests and claims.
io
    The driver of a space: streams, the event loop and its thread.
api
    What applications use: asyncio and blocking spaces, subscriptions, containers, services.
distributor
    Publishers and subscribers of multicast groups, without a node.
"""
