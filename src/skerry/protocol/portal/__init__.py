"""The portal: the ZeroMQ protocol of Goby programs, as machines without sockets.

identifiers    `/group/scheme/type/process/thread/`, its prefixes, and frames
messages       requests to the manager, and its answers
hold           whether clients may publish, as a transition table
manager        answers requests for sockets and about the hold
config         parameters of a portal and its clients
session        a client: the hold, publications, subscriptions, reconnection
session_states    the states of a client, as a transition table
session_messages  what the machine of a client asks of its driver, and what it reports
subscriptions  which subscriptions a frame matches
publication_buffer  publications that wait, bounded
"""
