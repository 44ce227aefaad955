"""The portal: the ZeroMQ protocol of Goby programs, as machines without sockets.

identifiers    `/group/scheme/type/process/thread/`, its prefixes, and frames
messages       requests to the manager, and its answers
"""
