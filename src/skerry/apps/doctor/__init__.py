"""The checks of `skerry doctor`, each with its result and advice.

results            the result of a check
checks             build, folders, limits, clock, node and ports with their users
system_checks      the other nodes of a system, and the ways to and from them
multicast_checks   interfaces, routes, buffers and kernel settings for multicast
"""
