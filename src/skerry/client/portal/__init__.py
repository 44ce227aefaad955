"""Clients of a portal: programs that exchange publications with Goby programs.

sync          connections for programs with threads
aio           connections on an asyncio loop
publications  what a program publishes and receives
responder     answers about the health of a program, and requests to terminate it
portal_link   a connection on a loop, which both kinds share
application   base of programs: configuration, loop, health, termination
"""
