"""Every bound of the system, each with its reason. A test reaches each of them."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ATTEMPT_ADDRESS_COUNT_MAX",
    "ATTEMPT_DELAY_S_MAX",
    "ATTEMPT_WAITING_COUNT_MAX",
    "AUTHENTICATION_RULE_COUNT_MAX",
    "BACKPRESSURE_BYTES",
    "BACKPRESSURE_PENALTY",
    "BACKPRESSURE_SHARE_BYTES",
    "BATCH_BYTES",
    "BATCH_COUNT",
    "BATCH_COUNT_MIN",
    "BATCH_GAP_NS",
    "BATCH_UNDELAYED_COUNT",
    "CACHE_BYTES_MAX",
    "CACHE_OBJECT_COUNT_MAX",
    "CARRIER_CONFLICT_COUNT_MAX",
    "CARRIER_SUBJECT_COUNT_MAX",
    "CARRIER_WAITING_BYTES_MAX",
    "CLAIM_COUNT_MAX",
    "CLIENT_NAME_CHAR_COUNT_MAX",
    "CONFIG_BYTES_MAX",
    "CONFIG_TABLE_COUNT_MAX",
    "CONFLATED_COUNT_MAX",
    "CONFLATE_BYTES",
    "CONFLICT_COUNT_MAX",
    "DATAGRAM_BYTES_MAX",
    "DEFINITION_COUNT_MAX",
    "DEFINITION_USER_COUNT_MAX",
    "DELIVERIES_PER_WORK_UNIT",
    "DESCRIBE_WORK",
    "DISTRIBUTOR_BATCH_BYTES",
    "DISTRIBUTOR_GAP_COUNT_MAX",
    "DISTRIBUTOR_INTERVAL_MS_MAX",
    "DISTRIBUTOR_MEMO_BYTES_MAX",
    "DISTRIBUTOR_NAK_COUNT_MAX",
    "DISTRIBUTOR_POSITION_COUNT_MAX",
    "DISTRIBUTOR_POSITION_INTERVAL_NS",
    "DISTRIBUTOR_REPLAY_COUNT_MAX",
    "DISTRIBUTOR_REQUESTER_COUNT_MAX",
    "DISTRIBUTOR_REQUEST_COUNT_MAX",
    "DISTRIBUTOR_RESEND_BYTES_MAX",
    "DISTRIBUTOR_RESEND_INTERVAL_NS",
    "DISTRIBUTOR_ROUTE_COUNT_MAX",
    "DISTRIBUTOR_SENDER_COUNT_MAX",
    "DISTRIBUTOR_WAITING_COUNT_MAX",
    "DOCUMENTATION_BYTES_MAX",
    "ENUM_ELEMENT_COUNT_MAX",
    "ENUM_TAG_MAX",
    "EVENT_QUEUE_COUNT_MAX",
    "EXCERPT_CHAR_COUNT_MAX",
    "FILTER_BYTES_MAX",
    "FILTER_DEPTH_MAX",
    "FILTER_LIST_COUNT_MAX",
    "FILTER_NODE_COUNT_MAX",
    "FILTER_PATTERN_CHAR_COUNT_MAX",
    "FRAME_BYTES_MAX",
    "FRAME_HEADER_BYTES_MAX",
    "FRESH_TURN_WORK_MAX",
    "GROUP_COUNT_MAX",
    "GROUP_KEY_COUNT_MAX",
    "GUESS_WORK_MAX",
    "HANDLER_NAME_BYTES_MAX",
    "HEADER_BYTES_MAX",
    "HEADER_MEMO_BYTES_MAX",
    "HEADER_MEMO_COUNT_MAX",
    "HOUSEHOLD_COUNT_MAX",
    "HTTP_CONNECTION_COUNT_MAX",
    "HTTP_REQUEST_BYTES_MAX",
    "JOURNAL_BYTES_MAX",
    "JOURNAL_CHANGE_COUNT_MAX",
    "JSON_DEPTH_MAX",
    "JSON_PIECE_BYTES",
    "JSON_STEP_BYTES",
    "JSON_VALUE_COUNT_MAX",
    "LIKE_FIND_PART_COUNT",
    "LIKE_SEARCH_PART_COUNT",
    "LIKE_TEXT_BYTES_MAX",
    "LIKE_WORK_MAX",
    "LINGER_BYTES_MAX",
    "LOG_LINES_PER_HOST_MAX",
    "LOG_LINES_PER_MESSAGE_MAX",
    "LOG_REPEAT_COUNT_MAX",
    "LOOP_TURN_NS_MAX",
    "METRIC_TYPE_COUNT_MAX",
    "NAME_BYTES_MAX",
    "NUMBER_DIGITS_MAX",
    "OWED_COUNT_MAX",
    "PATTERN_COUNT_MAX",
    "PATTERN_MEMO_CHAR_COUNT_MAX",
    "PATTERN_MEMO_COUNT_MAX",
    "PAYLOAD_BYTES_MAX",
    "PERMISSION_RULE_COUNT_MAX",
    "PIPELINE_CLOCK_COUNT_MAX",
    "PROBLEM_COUNT_MAX",
    "READING_COUNT_MAX",
    "RECORDER_OBJECT_COUNT_MAX",
    "RECORDER_QUEUE_BYTES_MAX",
    "RECORDER_SUBJECT_COUNT_MAX",
    "RECORDER_WAITING_BYTES_MAX",
    "RECORDING_BATCH_BYTES",
    "RECORDING_BATCH_COUNT_MAX",
    "RECORDING_BATCH_MS_MAX",
    "RECORDING_BATCH_ROW_COUNT_MAX",
    "RECORDING_CHANNEL_COUNT_MAX",
    "RECORDING_DROPPED_KEPT",
    "RECORDING_FILLED_COUNT_MAX",
    "RECORDING_FINDING_COUNT_MAX",
    "RECORDING_FOLLOWER_COUNT_MAX",
    "RECORDING_GAP_COUNT_MAX",
    "RECORDING_LINE_BYTES_MAX",
    "RECORDING_RESERVE_BYTES",
    "RECORDING_ROWS_BYTES_MAX",
    "RECORDING_SEEN_RANGE_COUNT_MAX",
    "RECORDING_SEGMENT_BYTES_MAX",
    "REFUSAL_COUNT_MAX",
    "RENAME_WORK_MAX",
    "REPLAY_SLICE_BYTES",
    "REPLAY_SORTED_COUNT_MAX",
    "REQUEST_BYTES_MAX",
    "REQUEST_COUNT_MAX",
    "REQUEST_REASON_CHAR_COUNT_MAX",
    "REQUEST_TIMEOUT_S_MAX",
    "REQUEST_WINDOW_COUNT",
    "RIGHTS_COUNT_MAX",
    "RIGHTS_MEMO_COUNT_MAX",
    "ROUND_WORK_MAX",
    "ROUTE_MEMO_COUNT_MAX",
    "ROUTE_MEMO_SIZE_MAX",
    "RUNNING_CHANGE_COUNT_MAX",
    "SELECT_SLICE_COUNT",
    "SEND_BYTES_MAX",
    "SEND_SUBJECT_COUNT_MAX",
    "SERVICE_BYTES_MAX",
    "SHELF_HOLE_COUNT_MAX",
    "SIM_EVENT_COUNT_MAX",
    "SIM_EVENT_KEPT_COUNT_MAX",
    "SIM_INBOX_COUNT_MAX",
    "SIM_NODE_COUNT_MAX",
    "SIM_SPIN_COUNT_MAX",
    "SIM_STREAM_BYTES_MAX",
    "SIM_STREAM_COUNT_MAX",
    "SIM_TIME_NS_MAX",
    "SKIP_DEPTH_MAX",
    "SMALL_FRAME_BYTES_MAX",
    "SOURCE_BYTES_MAX",
    "SOURCE_COUNT_MAX",
    "STORAGE_INTERVAL_MS_MAX",
    "STREAM_CHUNK_BYTES_MAX",
    "STREAM_WAITING_BYTES_MAX",
    "STRUCT_COUNT_MAX",
    "STRUCT_ENTRY_COUNT_MAX",
    "SUBJECT_CHAR_COUNT_MAX",
    "SUBJECT_LEVEL_COUNT_MAX",
    "SUBSCRIPTION_COUNT_MAX",
    "SWEEP_SLICE_COUNT",
    "TAG_MAX",
    "TAG_MIN",
    "TLS_HANDSHAKE_COUNT_MAX",
    "TLS_HANDSHAKE_PER_HOST_COUNT_MAX",
    "TURN_NS_MAX",
    "TURN_PIECE_BYTES",
    "TYPE_COUNT_MAX",
    "TYPE_DEPTH_MAX",
    "UNKNOWN_SCAN_COUNT_MAX",
    "UNUSABLE_TYPE_BYTES_MAX",
    "UPDATE_BYTES_DEFAULT",
    "VECTOR_COUNT_MAX",
    "WEBSOCKET_HEAD_BYTES_MAX",
    "WEBSOCKET_WAITING_COUNT_MAX",
    "WEBSOCKET_WAITING_PER_HOST_COUNT_MAX",
    "WHERE_CHAR_COUNT_MAX",
    "WORK_PER_MESSAGE",
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

PAYLOAD_BYTES_MAX: Final = 256 * 1024 * 1024
"""One encoded object: the most that a setting can permit. Settings bound what a node accepts and
what a client reads. An object is copied a few times on its way, so this takes about a gigabyte."""

UPDATE_BYTES_DEFAULT: Final = 10 * 1024 * 1024
"""One published object where no setting says otherwise. The DOTS hosts put the same bound on what
waits for a connection."""

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

JSON_STEP_BYTES: Final = 8192
"""A JSON message above which it is parsed and encoded, or written, in steps, with the turns of
others between them. So many bytes in one step take some milliseconds."""

JSON_PIECE_BYTES: Final = 4096
"""Bytes of a large JSON message that are parsed in one step: a millisecond."""

JSON_DEPTH_MAX: Final = 64
"""Nesting of a JSON message: more than vectors and structs of the deepest type take."""

JSON_VALUE_COUNT_MAX: Final = 4_000_000
"""Values of one JSON message, told by its commas and brackets. More than fit into the largest one
that we write; a larger message of empty lists would take hundreds of megabytes of memory."""

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
"""Bytes waiting in one direction of a stream: six of the largest frames. A machine that is told to
pause, or cannot be told, and writes on and on to a peer that is cut off, fails here."""

SIM_EVENT_KEPT_COUNT_MAX: Final = 100_000
"""Events kept per node for tests to look at; the oldest go first."""

DATAGRAM_BYTES_MAX: Final = 65_507
"""One UDP payload over IPv4: 65535 less the two headers."""

# -- configuration

CONFIG_BYTES_MAX: Final = 1024 * 1024
"""One configuration file, which is read whole. A person writes some kilobytes; more is a mistake
about which file was named."""

CONFIG_TABLE_COUNT_MAX: Final = 10_000
"""Tables in one list of a configuration: more than a file of that size has of any use."""

# -- what peers may make us remember

TYPE_COUNT_MAX: Final = 10_000
"""Types one registry knows, each with a class and tables. The largest systems have hundreds."""

DEFINITION_COUNT_MAX: Final = 64
"""Definitions of one type that a node serves together. Each new one is compared with all of them;
programs of more versions than this do not run at one time."""

DEFINITION_USER_COUNT_MAX: Final = 100
"""Clients that are named as users of a definition; the others are counted."""

READING_COUNT_MAX: Final = 256
"""Ways to give objects of one type to clients with other definitions, kept until they are needed
again. One for each version of a program that is connected."""

UNKNOWN_SCAN_COUNT_MAX: Final = 2_000
"""Objects with undescribed tags that are examined in one step when a client describes these tags:
some milliseconds."""

CONFLICT_COUNT_MAX: Final = 1000
"""Refused definitions kept to be shown."""

# -- WebSockets

WEBSOCKET_HEAD_BYTES_MAX: Final = 65536
"""Request of a client that wants a WebSocket, kept until it is whole. Cookies make the largest part
of it, and browsers stop at some kilobytes."""

WEBSOCKET_WAITING_COUNT_MAX: Final = 2048
"""Connections that have not asked for a WebSocket yet. They are no clients, so no limit of clients
counts them, and each keeps a file descriptor and part of a request."""

WEBSOCKET_WAITING_PER_HOST_COUNT_MAX: Final = 1024
"""Of these from one address, so that one computer cannot take all the places. Its clients come at
once when a node restarts, a thousand of them in one turn of the loop."""

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

BACKPRESSURE_BYTES: Final = 1024 * 1024
"""Bytes queued for a client whose transport is full, above which its publishers are not read from:
enough that a short break delays no publisher, and far from the bound at which the client is
disconnected, since all publishers may have another read under way."""

BACKPRESSURE_SHARE_BYTES: Final = 32 * 1024
"""Bytes that one publisher may add to them before it has to wait: less than one read of a publisher
at full speed, and more than one sends in a second that only reports now and then."""
BATCH_BYTES: Final = 32 * 1024
"""Queued bytes of one client that are sent at once, also while updates are delayed: a write of so
many costs little for each update."""
BATCH_COUNT: Final = 32
"""The same for queued updates."""
BATCH_COUNT_MIN: Final = 8
"""A client receives a stream of updates if so many were sent to it within `BATCH_GAP_NS`. Fewer are
sent at once, since a program that reacts to single updates must not wait."""
BATCH_GAP_NS: Final = 10_000_000
"""A stream is over after such a pause: what follows is sent at once."""
BATCH_UNDELAYED_COUNT: Final = 60
"""Writes that are not delayed after a delay in which no other update arrived. The next one is a
prime number of writes later, so that of publishers in turn another one is tried as the first."""

BACKPRESSURE_PENALTY: Final = 10
"""Publishers do not wait again for a client that did not read before so many times that wait have
passed. So a client that stops and goes on delays others for a tenth of the time at most."""

GROUP_COUNT_MAX: Final = 100_000
"""Groups that clients of one node have joined. A name of a group needs no type, so a client could
make up as many as it likes."""

CONFLATE_BYTES: Final = 64 * 1024
"""Bytes that wait for a client that does not read before its conflating subscriptions stop to add
to them: what a network takes in a breath."""

CONFLATED_COUNT_MAX: Final = 1_000_000
"""Objects that wait for one client to be told of later. One that is so far behind is cut."""

REPLAY_SLICE_BYTES: Final = 64 * 1024
"""Bytes of cached objects that a client is told before others have their turn: a millisecond."""

CLAIM_COUNT_MAX: Final = 4096
"""Claims of one client to objects and requests. When it is gone all of them go in one turn, which
others wait for; who owns more owns all objects of a type."""

HANDLER_NAME_BYTES_MAX: Final = 200
"""Name under which a program answers requests. It is a level of a subject, in which each byte may
take three characters, and people read it."""

REQUEST_BYTES_MAX: Final = UPDATE_BYTES_DEFAULT - 4096
"""Object of a request or of an answer, encoded: names, numbers and a reason travel with it."""

REQUEST_REASON_CHAR_COUNT_MAX: Final = 900
"""What is told of a request that failed: a sentence or a line of a log, but no page of one."""

REQUEST_COUNT_MAX: Final = 1000
"""Requests of one client without an answer. Who asks faster than others answer is told so, before
the waiting takes longer than anybody waits."""

REQUEST_TIMEOUT_S_MAX: Final = 3600
"""How long a client may wait for an answer. What takes longer is published when it is done."""

REQUEST_WINDOW_COUNT: Final = 10
"""Requests that are given to a program before it has answered the first of them. The rest waits at
the node, from where it can go to another when that one is gone."""

OWED_COUNT_MAX: Final = 10_000
"""Questions of one client, such as echoes, that wait for their answer behind a replay or for the
storage. An honest client waits for some answers before it asks on."""

SELECT_SLICE_COUNT: Final = 2_000
"""Work units of one turn of a client, after which other clients have their turn. A work unit is the
time to examine an object or to forward a frame, a microsecond or two, so a turn takes some
milliseconds. The rest of the client's input is queued, and its socket is not read."""

WORK_PER_MESSAGE: Final = 10
"""Work units for a message that the node has to decode, such as a join."""

DELIVERIES_PER_WORK_UNIT: Final = 8
"""Frames that can be delivered to subscribers in one work unit."""

ROUND_WORK_MAX: Final = 4_000
"""Work units of all clients that continue earlier turns, before the sockets of all other clients
are read again."""

FRESH_TURN_WORK_MAX: Final = 200
"""Work units of a client whose first input arrived when an iteration of the driver's loop had
lasted too long. A client that sends little has its turn before those that send much."""

DESCRIBE_WORK: Final = 50
"""Work units for describing one type to a client."""

SERVICE_BYTES_MAX: Final = 512 * 1024
"""A request of a client to the node, such as a list of types to be described or cleared. It is
decoded in one step, for which all other clients wait: some tens of milliseconds. A list of all
types that a node can have takes less."""

UNUSABLE_TYPE_BYTES_MAX: Final = 1024 * 1024
"""Descriptions of a client up to which types are kept that it may not use, since they may be parts
of others. All types of a large program are described in less."""

SWEEP_SLICE_COUNT: Final = 500
"""Objects of a type that is cleared which are removed before others have their turn: some
milliseconds."""

REPLAY_SORTED_COUNT_MAX: Final = 10_000
"""Objects that are told or cleared in the order of their keys: of a type, or of all types that
a pattern selects. Sorting a million keys would hold everybody up for a second, and nobody may rely
on the order."""

RUNNING_CHANGE_COUNT_MAX: Final = 1000
"""How often a client may change `running` in its DotsClient. Clients without any permission may
publish it, and each change is sent to all that joined DotsClient."""

SHELF_HOLE_COUNT_MAX: Final = 1024
"""Places of objects that are gone, besides as many as there are objects, before the others move up:
seldom enough that it costs nothing for each, and places take no more memory than objects."""

ROUTE_MEMO_COUNT_MAX: Final = 65_536
"""Subjects of one type for which it is remembered who hears of them. Past it all are forgotten and
found again as they come."""

HEADER_MEMO_COUNT_MAX: Final = 256
"""Headers of one client that a node caches: types times sets of fields times subjects. The headers
of other objects are decoded each time. Each takes about 2 KB of memory."""

HEADER_MEMO_BYTES_MAX: Final = 512
"""Bytes of a frame before its object up to which its header is cached."""

ROUTE_MEMO_SIZE_MAX: Final = 4_000_000
"""Cached subjects of all types, and receivers in their routes: some hundred megabytes. Past it the
cache is cleared, and routes are resolved again on demand."""

# -- subjects

SUBJECT_CHAR_COUNT_MAX: Final = 1024
"""Characters of a subject or pattern. By multicast the whole of it has to fit one datagram, and the
updates under it repeat it each time."""

SUBJECT_LEVEL_COUNT_MAX: Final = 64
"""Levels of a subject or pattern. A tree of patterns is walked one call a level, and has a node for
each; paths that people make have under ten."""

PATTERN_COUNT_MAX: Final = 200_000
"""Patterns of one tree, each with up to a node a level: more than a thousand clients use."""

PATTERN_MEMO_COUNT_MAX: Final = 65_536
"""Subjects, and values found for them, that a tree of patterns remembers: some megabytes. Past it
all are forgotten and found again as they come, which costs a microsecond each."""

PATTERN_MEMO_CHAR_COUNT_MAX: Final = 200
"""Characters of a subject that a tree remembers. Default subjects have whole keys in them, and keys
may be as long as a payload."""

# -- doors of a node

STREAM_CHUNK_BYTES_MAX: Final = 64 * 1024
"""Bytes read from a client at once, after which the others have their turn: a fraction of a
millisecond's work. More would leave the fast part of the memory, and cost more for each byte."""

LOOP_TURN_NS_MAX: Final = 10_000_000
"""Time that one turn of the loop spends on the input of its sockets. The rest of the input waits
for the next turn, in which clients that send little go first."""

TURN_NS_MAX: Final = 2_000_000
"""Time that is spent on what one WebSocket brought before the others have their turn. Text costs
fifty times what frames of bytes do, so the bytes read at once are no measure of it."""

TURN_PIECE_BYTES: Final = 2048
"""Bytes after which the clock is looked at: some ten messages, or a millisecond of tiny frames."""

TLS_HANDSHAKE_COUNT_MAX: Final = 2048
"""Connections that have not agreed on keys yet. They are no clients, so no limit of clients counts
them, and each keeps a file descriptor for as long as a handshake may take."""

TLS_HANDSHAKE_PER_HOST_COUNT_MAX: Final = 1024
"""Of these from one address, so that one computer cannot take all the places. Its clients come at
once when a node restarts."""

# -- what is told about a node

HTTP_CONNECTION_COUNT_MAX: Final = 32
"""Connections to the page of metrics and health: some scrapers and a person."""

HTTP_REQUEST_BYTES_MAX: Final = 8192
"""Request line and headers of a request for such a page; browsers send about one kilobyte."""

METRIC_TYPE_COUNT_MAX: Final = 50
"""Types with metrics of their own; those with less traffic are summed up as `other`. A time series
per type of a large system would cost its monitoring more than it tells."""

LINGER_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes that are read and dropped after the last message to a stream: what may be under way in the
buffers of two systems. A client that sends more does not read."""

LOG_REPEAT_COUNT_MAX: Final = 1000
"""Messages, addresses and sources of warnings that are watched for repeats; past it the oldest is
forgotten, and shown again when it repeats."""
LOG_LINES_PER_HOST_MAX: Final = 20
"""Warnings of one message about one address in ten seconds. Clients of one address may be many
programs, and each that is cut is worth a line; but a stranger may connect again and again."""
LOG_LINES_PER_MESSAGE_MAX: Final = 200
"""Warnings of one message in ten seconds, for a stranger may have many addresses."""

# -- filters

WHERE_CHAR_COUNT_MAX: Final = 262_144
"""Characters of one `where`: the longest list that is allowed fits, written as numbers."""

FILTER_BYTES_MAX: Final = 262_144
"""One encoded condition. A node keeps it as long as the subscription lives, and a client may have
many."""

FILTER_NODE_COUNT_MAX: Final = 256
"""Comparisons and words between them in one condition. They are tried for each update of the type,
tens of microseconds for so many; what only looks for one of many values takes a list."""

FILTER_DEPTH_MAX: Final = 32
"""Nesting in a condition: it is read by functions that call themselves once a level."""

FILTER_LIST_COUNT_MAX: Final = 10_000
"""Values of one list in a condition. Looking one up takes the same time for any number of them; the
bound is one of memory."""

FILTER_PATTERN_CHAR_COUNT_MAX: Final = 1024
"""Characters of all patterns in a condition, each of which is kept and tried on each update."""

LIKE_TEXT_BYTES_MAX: Final = 32_768
"""The longest text that can match a pattern: a search takes less than a tenth of a millisecond at
the worst. Names and lines are shorter; conditions are not meant for searching documents."""

LIKE_WORK_MAX: Final = 262_144
"""Characters of a text, times those from the first plain character to the last one of a run that
has `_` between them, with which a text can still fit: `%M_ria%` up to texts of 52 000 characters. A
search for such a run may take as many comparisons, a millisecond."""

LIKE_FIND_PART_COUNT: Final = 100
"""Comparisons of a client's conditions (`view_part_count_max`) for which a pattern counts that is
searched for in a text, such as `%ri%`. All patterns of a client are tried on each update."""

LIKE_SEARCH_PART_COUNT: Final = 200
"""The same for one with `_` inside, such as `%r_a%`."""

# -- who may do what

CLIENT_NAME_CHAR_COUNT_MAX: Final = 256
"""Name a client gives itself, which rules are held against and people read."""

ATTEMPT_ADDRESS_COUNT_MAX: Final = 10_000
"""Addresses with wrong secrets that are remembered; past it the oldest is forgotten."""
ATTEMPT_DELAY_S_MAX: Final = 8
"""How long a secret waits at most before it is tried, after wrong ones from its address: some
ten thousand guesses a day, and a client with the right secret does not time out."""
ATTEMPT_WAITING_COUNT_MAX: Final = 100
"""Clients of one address that wait for that; others are rejected at once."""

AUTHENTICATION_RULE_COUNT_MAX: Final = 1000
"""Rules about who may connect, those of clients included. Each connection is held against them one
by one, in about a millisecond."""

HOUSEHOLD_COUNT_MAX: Final = 1_000
"""Addresses whose clients are gone, and of which a node remembers how much they published: who cuts
its connection and comes back must not begin anew. More than come and go within a burst."""

PERMISSION_RULE_COUNT_MAX: Final = 1000
"""Rules about what clients may do. Each client that comes is held against them one by one."""

RIGHTS_COUNT_MAX: Final = 1000
"""Different sets of rules that hold for clients, kept to be shared. Past it they are made anew."""

RIGHTS_MEMO_COUNT_MAX: Final = 16_384
"""Answers that one set of rules remembers: about four megabytes of subjects."""

# -- stored objects

JOURNAL_CHANGE_COUNT_MAX: Final = 200_000
"""Changes of persistent objects that wait to be stored. A disk takes that many in some seconds; if
it takes longer or fails, publishers of such objects are refused, and nothing is lost in silence."""

JOURNAL_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes of these changes: a dozen of the largest objects, or all of the above if they are small."""

STORAGE_INTERVAL_MS_MAX: Final = 60_000
"""Time from one sync of the storage to the next. Whoever flushes waits that long."""

# -- recordings

RECORDING_BATCH_BYTES: Final = 16 * 1024 * 1024
"""Bytes of rows that make a batch full before it has all its rows: more than the largest object,
and what a reader has to hold at a time."""

RECORDING_BATCH_ROW_COUNT_MAX: Final = 1_000_000
"""Rows of one batch, which is what a damaged byte costs and what a reader holds at a time."""

RECORDING_BATCH_MS_MAX: Final = 60_000
"""Time that rows wait for their batch to fill up. It is what a crash can take."""

RECORDING_BATCH_COUNT_MAX: Final = 16_384
"""Batches of one segment, all of which stand in one line of the manifest. Past it the segment is
sealed, however small it is."""

RECORDING_SEGMENT_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""Bytes after which a segment is sealed. Whoever follows sees sealed ones only, and retention drops
whole ones."""

RECORDING_ROWS_BYTES_MAX: Final = 512 * 1024 * 1024
"""Bytes of rows that wait to be written. Only who appends and never flushes comes there, and a
batch of two gigabytes could not be written any more: its columns have offsets of 31 bits."""

RECORDING_RESERVE_BYTES: Final = 64 * 1024
"""Room on the disk that a recorder reserves, and frees when it ends: enough for gap rows, the end
of a segment and most manifest lines, so a recording that ends on a full disk has its gap row."""

RECORDING_LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""One line of a manifest: more than the index of the largest number of batches takes."""

RECORDING_DROPPED_KEPT: Final = 1000
"""Dropped segments, and repairs, that a manifest still tells one by one after it was shortened,
which happens at twice as many. Who follows and fell behind learns from them what is missing: half
an hour of segments that are sealed each two seconds."""

RECORDING_FOLLOWER_COUNT_MAX: Final = 1000
"""Files that are looked at to find one who follows. Each is someone who was there once."""

RECORDING_FILLED_COUNT_MAX: Final = 100_000_000
"""Updates of one gap of which it is looked up whether another recording has each: a byte for each
at a time. No recorder was away for longer and missed nothing that others did not miss, too."""

RECORDING_GAP_COUNT_MAX: Final = 1000
"""Gaps that wait to be told, each of a node or a sender. A group may have any number of senders;
past it the rest is one gap."""

RECORDER_OBJECT_COUNT_MAX: Final = CACHE_OBJECT_COUNT_MAX
"""Objects that a recorder remembers to tell a create from an update: as many as the node can have.
Past it an object that is not remembered is recorded as updated."""

RECORDER_SUBJECT_COUNT_MAX: Final = 10_000
"""Default subjects of messages of one type that a recorder remembers by the key. Past it all are
forgotten, and made anew as they come."""

RECORDER_QUEUE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of rows that wait for the disk: some seconds of the fastest space. Past it rows are left
out and a gap stands in their place, since the space must not wait for a disk."""

RECORDER_WAITING_BYTES_MAX: Final = 4 * 1024 * 1024
"""Objects of a group that wait in a recorder for the description of their type, which comes within
one configuration interval. Past it the oldest are recorded without it."""

RECORDING_SEEN_RANGE_COUNT_MAX: Final = 1_000_000
"""Ranges of numbers by which updates of several recordings are known to be the same: some hundred
megabytes. Past it the oldest are forgotten, and what is doubled with them stays."""

RECORDING_FINDING_COUNT_MAX: Final = 1000
"""Faults, gaps and senders of a recording that are told one by one; the rest is counted."""

RECORDING_CHANNEL_COUNT_MAX: Final = 65_535
"""Channels of one MCAP file, which numbers them with 16 bits."""

# -- a client and its node

SEND_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes that a space has published and the node has not taken: more than one of the largest objects
that are usual, and some seconds of a fast publisher while its node restarts. Past it publishing
raises WouldBlock; a single object is taken however large it is."""

SEND_SUBJECT_COUNT_MAX: Final = 10_000
"""Subjects of which a space remembers that bytes may be published under them."""

EVENT_QUEUE_COUNT_MAX: Final = 10_000
"""Events that wait for who iterates over a subscription: some seconds of a busy type. Past it the
subscription ends or conflates, as its owner chose; the others go on."""

SUBSCRIPTION_COUNT_MAX: Final = 10_000
"""Types, patterns and conditions that one space asks for. All of them are asked for anew after each
lost connection."""

REFUSAL_COUNT_MAX: Final = 100
"""Refusals of the node that a space keeps for the next flush; the first ones tell what is wrong."""

# -- multicast

DISTRIBUTOR_SENDER_COUNT_MAX: Final = 1000
"""Senders of one group that a connection listens to, and departed ones that it would know again.
Any datagram can claim a new one, and each has a stream of its own."""

DISTRIBUTOR_BATCH_BYTES: Final = 60_000
"""Datagrams that are held back are sent when they have so many bytes: about what one call of the
kernel takes."""

DISTRIBUTOR_GAP_COUNT_MAX: Final = 65_536
"""Datagrams that one gap may have and still be asked for: half a gigabyte of the usual ones. A
number further ahead is a receiver that slept for long, or a forgery; either way nobody has all of
what is between."""

DISTRIBUTOR_REQUEST_COUNT_MAX: Final = 100
"""Requests of one stream in one moment, for as many holes in it. The rest is asked for a moment
later, so that repair does not take the group's bandwidth from data."""

DISTRIBUTOR_POSITION_COUNT_MAX: Final = 100
"""Position requests that a connection sends, or answers, in one interval. Forged datagrams of new
senders cause them, and so do forged requests. Requests beyond are repeated later."""

DISTRIBUTOR_POSITION_INTERVAL_NS: Final = 200_000_000
"""That interval: 500 requests a second of about 40 bytes."""

DISTRIBUTOR_NAK_COUNT_MAX: Final = 16_384
"""Numbers that one answer tells as gone. A request may name billions of them."""

DISTRIBUTOR_REQUESTER_COUNT_MAX: Final = 64
"""Receivers whose requests a sender counts, each by itself; the one that has not requested anything
for the longest time is forgotten first."""

DISTRIBUTOR_RESEND_BYTES_MAX: Final = 65_536
"""Bytes sent again in one go: a part of the receive buffer that systems have without being asked
for more. What would overflow it would be lost again at once."""

DISTRIBUTOR_RESEND_INTERVAL_NS: Final = 1_000_000
"""Time between two of them, which makes half a gigabit a second."""

DISTRIBUTOR_MEMO_BYTES_MAX: Final = 32 * 1024 * 1024
"""What a connection remembers of subjects in each direction: a hundred thousand of them. Past it
all are forgotten and found again as they come."""

DISTRIBUTOR_ROUTE_COUNT_MAX: Final = 65_536
"""Subjects for which it is remembered who hears of them, and with which tags. Past it all are
forgotten and found again as they come."""

DISTRIBUTOR_WAITING_COUNT_MAX: Final = 10_000
"""Updates that wait for bandwidth where publishing may not wait itself. Past it it raises
WouldBlock."""

DISTRIBUTOR_INTERVAL_MS_MAX: Final = 3_600_000
"""The longest time between two signs of life that is believed, and can be configured: an hour."""

DISTRIBUTOR_REPLAY_COUNT_MAX: Final = 1024
"""Counters of sealed datagrams that are remembered of each sender, once or twice over: those that
could have been overtaken. A network that mixes up more than that loses more than this."""

GROUP_KEY_COUNT_MAX: Final = 16
"""Keys of one group. Two are in use while one takes the place of the other."""

CARRIER_WAITING_BYTES_MAX: Final = 4 * 1024 * 1024
"""Objects from a group that wait in a node for the description of their type, which comes within
one configuration interval. Past it the oldest are dropped, and counted."""

CARRIER_SUBJECT_COUNT_MAX: Final = 1000
"""Default subjects of one type that a node remembers by the key, as messages of few keys come again
and again. Past it all are forgotten, and made anew as they come."""

CARRIER_CONFLICT_COUNT_MAX: Final = 1000
"""Types of senders that define them otherwise, as a node remembers them. Past it the oldest is
forgotten, and found out again."""

PIPELINE_CLOCK_COUNT_MAX: Final = 10_000
"""Nodes whose clock the pipeline remembers for each type: a node has a new number with each start.
What comes from one that was forgotten is ordered by its own times."""
