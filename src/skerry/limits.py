"""Every bound of the system, each with its reason. A test reaches each of them."""

from __future__ import annotations

from typing import Final

__all__ = [
    "CACHE_BYTES_MAX",
    "CACHE_OBJECT_COUNT_MAX",
    "CONFIG_BYTES_MAX",
    "CONFLICT_COUNT_MAX",
    "DATAGRAM_BYTES_MAX",
    "DOCUMENTATION_BYTES_MAX",
    "ENUM_ELEMENT_COUNT_MAX",
    "ENUM_TAG_MAX",
    "EXCERPT_CHAR_COUNT_MAX",
    "FRAME_BYTES_MAX",
    "GROUP_COUNT_MAX",
    "GUESS_WORK_MAX",
    "HEADER_BYTES_MAX",
    "NAME_BYTES_MAX",
    "NUMBER_DIGITS_MAX",
    "PAYLOAD_BYTES_MAX",
    "PROBLEM_COUNT_MAX",
    "RENAME_WORK_MAX",
    "SIM_EVENT_COUNT_MAX",
    "SIM_EVENT_KEPT_COUNT_MAX",
    "SIM_INBOX_COUNT_MAX",
    "SIM_NODE_COUNT_MAX",
    "SIM_SPIN_COUNT_MAX",
    "SIM_STREAM_BYTES_MAX",
    "SIM_STREAM_COUNT_MAX",
    "SIM_TIME_NS_MAX",
    "SKIP_DEPTH_MAX",
    "SOURCE_BYTES_MAX",
    "SOURCE_COUNT_MAX",
    "STREAM_WAITING_BYTES_MAX",
    "STRUCT_COUNT_MAX",
    "STRUCT_ENTRY_COUNT_MAX",
    "TAG_MAX",
    "TAG_MIN",
    "TYPE_COUNT_MAX",
    "TYPE_DEPTH_MAX",
    "VECTOR_COUNT_MAX",
]

# -- types

TAG_MIN: Final = 1
TAG_MAX: Final = 31
"""A property set is a mask of 32 bits in which bit n stands for tag n, and tag 0 is not used."""

NAME_BYTES_MAX: Final = 128
"""Names of types, fields and elements travel in descriptors and subjects, and stand in error
messages and metrics; no type language in use has longer ones."""

TYPE_DEPTH_MAX: Final = 16
"""Structs inside structs. Encoding and decoding recurse once a level, so this bounds the stack."""

ENUM_ELEMENT_COUNT_MAX: Final = 4096
"""Elements of one enum: a table is built for each enum a peer describes."""

ENUM_TAG_MAX: Final = 2**31 - 1
"""Tags of enum elements travel as uint32, and some languages read them into an int."""

DOCUMENTATION_BYTES_MAX: Final = 65536
"""Documentation of one item, which a peer may send in a descriptor."""

NUMBER_DIGITS_MAX: Final = 20
"""Digits of a number in a type file. No tag or value has more than ten, and Python refuses to
convert several thousand."""

SOURCE_BYTES_MAX: Final = 1024 * 1024
"""One type file. The largest in use are a few hundred kilobytes, and the worst megabyte, a word in
every byte, takes seconds to read."""

SOURCE_COUNT_MAX: Final = 1000
"""Type files of one run, imported ones included: a folder of one type a file stays well below."""

PROBLEM_COUNT_MAX: Final = 50
"""Problems reported for one run; a person mends the first ones and asks again."""

GUESS_WORK_MAX: Final = 5_000_000
"""Pairs of characters that one run compares to find what misspelt names were meant to be: enough
for every fault of a system with hundreds of types, in about a second. Past it faults come without a
guess, so that a file of thousands of wrong names does not take hours."""

EXCERPT_CHAR_COUNT_MAX: Final = 160
"""Characters of a line, and at either end of a message, that are shown of a problem: a line of a
generated file may have a megabyte, and a terminal has two rows for this many."""

RENAME_WORK_MAX: Final = 2_000_000
"""Fields and elements that one comparison of two sets of types looks at to find the renamed ones
that changed too: enough for hundreds of types under new names, in about a second. Past it they are
told as removed and added."""

# -- bytes

PAYLOAD_BYTES_MAX: Final = 10 * 1024 * 1024
"""One encoded object. The bound the DOTS hosts put on what waits for a connection."""

FRAME_BYTES_MAX: Final = PAYLOAD_BYTES_MAX + 65536
"""One frame: a payload and its header."""

HEADER_BYTES_MAX: Final = 65535
"""Header of a v1 frame: its length field has 16 bits."""

STRUCT_ENTRY_COUNT_MAX: Final = 31
"""Entries of one encoded struct: a type has no more tags than that."""

VECTOR_COUNT_MAX: Final = 1_000_000
"""Elements of one vector. An element of a few bytes on the wire can become a value of fifty; a
payload is bounded too, so all of its values stay in the range of a hundred megabytes."""

STRUCT_COUNT_MAX: Final = 1_000_000
"""Structs of one encoded object, itself included. An empty one takes a byte on the wire and close
to three hundred as an object with 31 fields: without this bound ten megabytes would become three
gigabytes."""

SKIP_DEPTH_MAX: Final = 64
"""Nesting inside a value that is skipped because its tag is unknown: deeper than any type."""

# -- simulator

SIM_TIME_NS_MAX: Final = 24 * 3600 * 1_000_000_000
"""Simulated time of one world: a day. A system that has not done its work by then never will."""

SIM_EVENT_COUNT_MAX: Final = 20_000_000
"""Events of one world: some minutes of computing. It ends what would otherwise run all night."""

SIM_SPIN_COUNT_MAX: Final = 1000
"""Times a machine may be advanced in one instant. One more means a deadline that never moves, at
which simulated time would stand still."""

SIM_NODE_COUNT_MAX: Final = 2000
"""Nodes of one world: forty times the largest group that is tested."""

SIM_INBOX_COUNT_MAX: Final = 10_000
"""Inputs waiting for a paused node. Past it datagrams are dropped, as a socket buffer does."""

SIM_STREAM_COUNT_MAX: Final = 1024
"""Streams of one node. Past it the next one is refused, as without free file descriptors."""

SIM_STREAM_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes waiting in one direction of a stream: six of the largest frames. The simulator has no
back-pressure, so a machine that writes on and on to a peer that is cut off fails here."""

SIM_EVENT_KEPT_COUNT_MAX: Final = 100_000
"""Events kept per node for tests to look at; the oldest go first."""

DATAGRAM_BYTES_MAX: Final = 65_507
"""One UDP payload over IPv4: 65535 less the two headers."""

# -- configuration

CONFIG_BYTES_MAX: Final = 1024 * 1024
"""One configuration file, which is read whole. A person writes some kilobytes; more is a mistake
about which file was named."""

# -- what peers may make us remember

TYPE_COUNT_MAX: Final = 10_000
"""Types one registry knows, each with a class and tables. The largest systems have hundreds."""

CONFLICT_COUNT_MAX: Final = 1000
"""Refused definitions kept to be shown."""

# -- current objects

CACHE_OBJECT_COUNT_MAX: Final = 10_000_000
"""Objects of one cache. Each takes some hundred bytes besides its payload, so this is what a large
computer holds; past it a publisher is refused, and nobody's objects go."""

CACHE_BYTES_MAX: Final = 8 * 1024 * 1024 * 1024
"""Payloads of one cache."""

# -- connections

STREAM_WAITING_BYTES_MAX: Final = 10 * 1024 * 1024
"""Bytes that wait for one client to take them. Past it the client is cut, as by the DOTS hosts, so
that it costs the others nothing."""

GROUP_COUNT_MAX: Final = 100_000
"""Groups that clients of one node have joined. A name of a group needs no type, so a client could
make up as many as it likes."""
