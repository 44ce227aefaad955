"""The checks of `skerry doctor`, each with its result and advice.

checks             build, folders, limits, clock, node and ports with their users
multicast_checks   interfaces, routes, buffers and kernel settings for multicast
"""
