"""The portal: the ZeroMQ protocol of Goby programs, as machines without sockets.

identifiers         `/group/scheme/type/process/thread/`, its prefixes, and frames
messages            requests to the manager, and its answers
config              parameters of a portal and its clients
goby_config         the same from the configuration of Goby programs
hold                whether clients may publish, as a transition table
manager             answers requests for sockets and about the hold
router_checks       what a checking router lets pass
statistics          the counters of a portal
session             a client: the hold, publications, subscriptions, reconnection
session_states      the states of a client, as a transition table
session_messages    what the machine of a client asks of its driver, and what it reports
subscriptions       which subscriptions a frame matches
publication_buffer  publications that wait, bounded
mapping/            publications as objects of a space, and back
programs/           health of programs, and requests to terminate them
"""
