"""The checks of `skerry doctor`, each with its result and advice.

checks             build, folders, limits, clock, node and ports
multicast_checks   interfaces, routes, buffers and kernel settings for multicast
port_users         which program listens at a port
"""
