"""Bounds of the wires and of the configuration, and bounds that several modules share, each with
its reason. A bound that only one module uses is defined in that module.
"""

from __future__ import annotations

from typing import Final

# -- types

TAG_MIN: Final = 1
TAG_MAX: Final = 31
"""A property set is a mask of 32 bits in which bit n stands for tag n, and tag 0 is not used."""

NAME_BYTES_MAX: Final = 128
"""Names of types, fields and elements, which are transmitted in descriptors and subjects, and
appear in error messages and metrics. No type language in use has longer names."""

TYPE_DEPTH_MAX: Final = 16
"""Structs inside structs. Encoding and decoding recurse once per level, so this bounds the
stack."""

ENUM_ELEMENT_COUNT_MAX: Final = 4096
"""Elements of one enum. A table is built for each enum that a peer describes."""

ENUM_TAG_MAX: Final = 2**31 - 1
"""Tags of enum elements are transmitted as uint32, and some languages read them into an int."""

DOCUMENTATION_BYTES_MAX: Final = 65536
"""Documentation of one item, which a peer may send in a descriptor."""

SOURCE_BYTES_MAX: Final = 1024 * 1024
"""One type file. The largest in use have a few hundred kilobytes. In the worst case, a word in
every byte, a megabyte takes seconds to parse."""

PROBLEM_COUNT_MAX: Final = 50
"""Problems reported for one run. A person fixes the first ones and runs the check again."""

EXCERPT_CHAR_COUNT_MAX: Final = 160
"""Characters of a line, and at both ends of a message, that are shown of a problem. A line of a
generated file may have a megabyte, and this many take two rows of a terminal."""

# -- bytes

PAYLOAD_BYTES_MAX: Final = 256 * 1024 * 1024
"""One encoded object: the most that a setting can permit. Settings bound what a node accepts and
what a client reads. An object is copied a few times on its way, so this takes about a gigabyte."""

UPDATE_BYTES_DEFAULT: Final = 10 * 1024 * 1024
"""One published object, by default. The DOTS hosts have the same bound for the bytes that are
queued for a connection."""

FRAME_BYTES_MAX: Final = PAYLOAD_BYTES_MAX + 65536
"""One frame: a payload and its header. Most connections have a smaller limit of their own."""

FRAME_HEADER_BYTES_MAX: Final = 65536
"""Bytes of a frame besides its object: the header of version 1 has a length of 16 bits."""

SMALL_FRAME_BYTES_MAX: Final = 64 * 1024
"""One frame of a client before its handshake, or of one that may not publish anything. The messages
of the handshake and the description of a type take some hundred bytes."""

HEADER_BYTES_MAX: Final = 65535
"""Header of a v1 frame: its length field has 16 bits."""

STRUCT_ENTRY_COUNT_MAX: Final = 31
"""Entries of one encoded struct: a type does not have more tags."""

VECTOR_COUNT_MAX: Final = 1_000_000
"""Elements of one vector. An element of a few bytes on the wire can become a value of fifty bytes.
A payload is bounded too, so all of its values take at most some hundred megabytes."""

STRUCT_COUNT_MAX: Final = 1_000_000
"""Structs of one encoded object, including itself. An empty struct takes a byte on the wire and
about three hundred as an object with 31 fields: without this bound ten megabytes would become three
gigabytes."""

SKIP_DEPTH_MAX: Final = 64
"""Nesting inside a value that is skipped because its tag is unknown: deeper than any type."""

JSON_STEP_BYTES: Final = 8192
"""Size above which a JSON message is parsed, encoded or written in steps, with the turns of other
clients between them. This many bytes in one step take some milliseconds."""

JSON_PIECE_BYTES: Final = 4096
"""Bytes of a large JSON message that are parsed in one step: a millisecond."""

JSON_DEPTH_MAX: Final = 64
"""Nesting of a JSON message: more than vectors and structs of the deepest type need."""

JSON_VALUE_COUNT_MAX: Final = 4_000_000
"""Values of one JSON message, counted by its commas and brackets: more than the largest message
that skerry writes has. A larger message of empty lists would take hundreds of megabytes of
memory."""

# -- the simulator

SIM_INBOX_COUNT_MAX: Final = 10_000
"""Inputs waiting for a paused node. Further datagrams are dropped, as by a socket buffer."""

DATAGRAM_BYTES_MAX: Final = 65_507
"""One UDP payload over IPv4: 65535 less the two headers."""

# -- configuration

CONFIG_BYTES_MAX: Final = 1024 * 1024
"""One configuration file, which is read at once. A person writes some kilobytes. A larger file was
named by mistake."""

# -- memory that peers may use

TYPE_COUNT_MAX: Final = 10_000
"""Types of one registry, each with a class and tables. The largest systems have hundreds."""

CONFLICT_COUNT_MAX: Final = 1000
"""Refused definitions that are kept to be shown."""

WEBSOCKET_WAITING_COUNT_MAX: Final = 2048
"""Connections that have not requested a WebSocket yet. They are not clients, so no limit of clients
counts them, and each uses a file descriptor and memory for a part of a request."""

TLS_HANDSHAKE_COUNT_MAX: Final = 2048
"""Connections whose TLS handshake is not complete. They are not clients, so no limit of clients
counts them, and each uses a file descriptor for as long as a handshake may take."""

# -- cached objects

CACHE_OBJECT_COUNT_MAX: Final = 10_000_000
"""Objects of one cache. Each takes some hundred bytes besides its payload, so this is what a large
computer can hold. Beyond it publishers are refused, and no cached object is removed."""

CACHE_BYTES_MAX: Final = 8 * 1024 * 1024 * 1024
"""Payload bytes of one cache, for the same reason."""

# -- connections of a node

STREAM_WAITING_BYTES_MAX: Final = 10 * 1024 * 1024
"""Bytes queued for one client. Beyond it the client is disconnected, as by the DOTS hosts, so that
it costs the others nothing."""

GROUP_COUNT_MAX: Final = 100_000
"""Groups that clients of one node have joined. The name of a group needs no type, so a client could
invent any number of them."""

CONFLATED_COUNT_MAX: Final = 1_000_000
"""Conflation slots of one client. A client that is further behind is disconnected."""

REPLAY_SLICE_BYTES: Final = 64 * 1024
"""Bytes of cached objects that are sent to a client before others have their turn: a
millisecond."""

CLAIM_COUNT_MAX: Final = 4096
"""Claims of one client to objects and requests. When it disconnects, all of them end in one turn,
for which others wait. A client that needs more can own all objects of a type."""

HANDLER_NAME_BYTES_MAX: Final = 200
"""Name under which a program answers requests. It is a level of a subject, in which each byte may
take three characters, and people read it."""

REQUEST_BYTES_MAX: Final = UPDATE_BYTES_DEFAULT - 4096
"""Encoded object of a request or of an answer: names, numbers and a reason are sent with it."""

REQUEST_REASON_CHAR_COUNT_MAX: Final = 900
"""Reason of a failed request: a sentence or a line of a log, but not a page of it."""

REQUEST_COUNT_MAX: Final = 1000
"""Unanswered requests of one client. A client that sends requests faster than they are answered is
refused before the waiting time exceeds all timeouts."""

TRACE_CONTEXT_CHAR_COUNT_MAX: Final = 128
"""Context of the trace of a request: 55 characters in version 00 of W3C Trace Context. Later
versions may have more."""

REQUEST_TIMEOUT_S_MAX: Final = 3600
"""The longest timeout of a request. The result of longer work is better published when it is
done."""

SELECT_SLICE_COUNT: Final = 2_000
"""Work units of one turn of a client, after which other clients have their turn. A work unit is the
time to examine an object or to forward a frame, a microsecond or two, so a turn takes some
milliseconds. The rest of the client's input is queued, and its socket is not read."""

DELIVERIES_PER_WORK_UNIT: Final = 8
"""Frames that can be delivered to subscribers in one work unit."""

ROUND_WORK_MAX: Final = 4_000
"""Work units of all clients that continue earlier turns, before the sockets of all other clients
are read again."""

DESCRIBE_WORK: Final = 50
"""Work units for describing one type to a client."""

REPLAY_SORTED_COUNT_MAX: Final = 10_000
"""Objects that are replayed or cleared in the order of their keys: of a type, or of all types that
a pattern selects. Sorting a million keys would block the node for a second, and clients may not
rely on the order."""

HEADER_MEMO_COUNT_MAX: Final = 256
"""Headers of one client that a node caches: types times sets of fields times subjects. The headers
of other objects are decoded each time. Each takes about 2 KB of memory."""

HEADER_MEMO_BYTES_MAX: Final = 512
"""Bytes of a frame before its object up to which its header is cached."""

STREAM_CHUNK_BYTES_MAX: Final = 64 * 1024
"""Bytes read from a client at once, after which the others have their turn: a fraction of a
millisecond of work. More would not fit the processor's cache, and cost more per byte."""

LINGER_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes that are read and dropped after the last message to a stream: what the buffers of two
systems may hold. A client that sends more does not read."""

# -- subjects

SUBJECT_CHAR_COUNT_MAX: Final = 1024
"""Characters of a subject or pattern. With multicast it has to fit one datagram, and every update
under it repeats it."""

PATTERN_MEMO_CHAR_COUNT_MAX: Final = 200
"""Characters of a subject that is cached. Default subjects contain whole keys, and keys may be as
long as a payload."""

# -- conditions

FILTER_BYTES_MAX: Final = 262_144
"""One encoded condition. A node keeps it as long as the subscription exists, and a client may have
many."""

FILTER_DEPTH_MAX: Final = 32
"""Nesting in a condition, which is read by functions that recurse once per level."""

FILTER_LIST_COUNT_MAX: Final = 10_000
"""Values of one list in a condition. A lookup takes the same time for any number of them, but they
use memory."""

# -- admission

CLIENT_NAME_CHAR_COUNT_MAX: Final = 256
"""Name that a client gives itself. Rules are compared with it, and people read it."""

AUTHENTICATION_RULE_COUNT_MAX: Final = 1000
"""Rules about which clients may connect, including those that clients publish. Each connection is
compared with all of them, in about a millisecond."""

# -- storage and recordings

STORAGE_INTERVAL_MS_MAX: Final = 60_000
"""Time between two syncs of the storage. A flush waits that long."""

RECORDING_BATCH_BYTES: Final = 16 * 1024 * 1024
"""Bytes of rows at which a batch is full even if it could have more rows: more than the largest
object, and the memory that a reader needs at a time."""

RECORDING_BATCH_ROW_COUNT_MAX: Final = 1_000_000
"""Rows of one batch. A damaged byte costs one batch, and a reader holds one at a time."""

RECORDING_BATCH_MS_MAX: Final = 60_000
"""Time that rows wait for their batch to fill. A crash can lose as much."""

RECORDING_SEGMENT_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""Bytes after which a segment is sealed. Followers see sealed segments only, and retention drops
whole segments."""

RECORDER_SUBJECT_COUNT_MAX: Final = 10_000
"""Default subjects of messages of one type that a recorder caches by key. Beyond it the cache is
cleared."""

RECORDER_QUEUE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of rows that wait for the disk: some seconds of the fastest space. Beyond it rows are left
out and replaced by a gap, since the space must not wait for a disk."""

RECORDING_FINDING_COUNT_MAX: Final = 1000
"""Faults, gaps and senders of a recording that are listed. The others are counted."""

# -- clients

SEND_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes that a space has published and the node has not read: more than one of the largest usual
objects, and some seconds of a fast publisher while its node restarts. Beyond it publishing raises
WouldBlock. A single object is accepted at any size."""

EVENT_QUEUE_COUNT_MAX: Final = 10_000
"""Events queued for an iterator over a subscription: some seconds of a busy type. Beyond it the
subscription ends or conflates, as its owner chose. Other subscriptions are not affected."""

# -- multicast

DISTRIBUTOR_SENDER_COUNT_MAX: Final = 1000
"""Senders of one group that a connection receives from, and departed ones that it recognizes. Any
datagram can claim a new one, and each has its own stream."""

DISTRIBUTOR_BATCH_BYTES: Final = 60_000
"""Bytes of held-back datagrams at which they are sent: about what one call of the kernel
accepts."""

DISTRIBUTOR_GAP_COUNT_MAX: Final = 65_536
"""Datagrams of one gap for which repair is requested: half a gigabyte of the usual size. A sequence
number further ahead is forged, or the receiver was suspended for long. In either case no sender has
all datagrams between."""

DISTRIBUTOR_MEMO_BYTES_MAX: Final = 32 * 1024 * 1024
"""Cached subjects of a connection in each direction: a hundred thousand of them. Beyond it the
cache is cleared."""

DISTRIBUTOR_INTERVAL_MS_MAX: Final = 3_600_000
"""The longest interval between two heartbeats that is accepted and can be configured: an hour."""
