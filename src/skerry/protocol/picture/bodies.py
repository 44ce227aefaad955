"""The values of the picture as the bytes of messages, in the wire format of Protocol Buffers.

| message  | fields                                                                             |
|----------|------------------------------------------------------------------------------------|
| Election | 1 action, 2 election                                                               |
| Node     | 1 id, 2 name, 3 type, 4 control, 5 data, 6 dead, 7 generation, 8 resurrecting,     |
|          | 9 reason of death; 10 to 12 packets received, duplicates and retransmissions of    |
|          | the control channel, 13 to 15 of the data channel; 16 round trip in microseconds,  |
|          | 17 lag in milliseconds, 18 bytes that wait                                         |
| Raw      | 1 self (Node), 2 election, 3 incarnation, 4 nodes (Node), 5 ids of more dead nodes |
| State    | 1 elected node, 2 election, 3 sequence, 4 detached, 5 nodes (Node), 6 digest       |
| Forget   | 1 ids of nodes                                                                     |

Ids and the digest have 64 bits, other numbers are varints.
"""

from __future__ import annotations

import enum
import functools
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skerry.codec.protobuf import (
    BLOB,
    FIXED64,
    VARINT,
    blob_field,
    fixed_field,
    packed_field,
    read_fields,
    read_packed,
    varint_field,
)
from skerry.errors import DecodeError
from skerry.ids import hash64
from skerry.protocol.machine import Address
from skerry.protocol.picture.entries import (
    PICTURE_NODE_COUNT_MAX,
    PICTURE_TEXT_CHAR_COUNT_MAX,
    NodeCounters,
    NodeEntry,
    RawStatistics,
    SystemState,
)

__all__ = [
    "ELECTION",
    "FORGET",
    "RAW",
    "STATE",
    "ElectionAction",
    "ElectionMessage",
    "read_election",
    "read_forget",
    "read_raw",
    "read_state",
    "write_election",
    "write_forget",
    "write_raw",
    "write_state",
]

RAW: Final = hash64("sp.raw")
STATE: Final = hash64("sp.state")
ELECTION: Final = hash64("sp.election")
FORGET: Final = hash64("sp.forget")
"""The data types of the messages."""

_U32: Final = 0xFFFFFFFF
_SIGN: Final = 1 << 63


class ElectionAction(enum.IntEnum):
    """The steps of an election."""

    INQUIRY = 0
    ALIVE = 1
    VICTORY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionMessage:
    """One message of an election."""

    action: ElectionAction
    election_id: int


def write_election(message: ElectionMessage) -> bytes:
    """Return the body of a step of an election."""
    return varint_field(1, message.action) + fixed_field(2, message.election_id)


def read_election(body: bytes) -> ElectionMessage:
    """Return a step of an election. Raises DecodeError."""
    numbers = dict(read_fields(body)[0])
    number = numbers.get(_varint(1), 0)
    try:
        action = ElectionAction(number)
    except ValueError as error:
        detail = f"{number} is not a step of an election"
        raise DecodeError(type_name="Election", detail=detail) from error
    return ElectionMessage(action=action, election_id=numbers.get(_fixed(2), 0))


def write_raw(raw: RawStatistics) -> bytes:
    """Return the body of raw statistics."""
    parts = [
        blob_field(1, _node(raw.me), is_repeated=True),
        fixed_field(2, raw.election_id),
        fixed_field(3, raw.incarnation_id),
        *(blob_field(4, _node(one), is_repeated=True) for one in raw.nodes),
        packed_field(5, raw.more_dead),
    ]
    return b"".join(parts)


def read_raw(body: bytes) -> RawStatistics:
    """Return raw statistics. Raises DecodeError."""
    fields, blobs = read_fields(body)
    numbers = dict(fields)
    me = [data for tag, data in blobs if tag == _blob(1)]
    return RawStatistics(
        me=_entry(me[-1] if me else b""),
        election_id=numbers.get(_fixed(2), 0),
        incarnation_id=numbers.get(_fixed(3), 0),
        nodes=_entries("Raw", 4, blobs),
        more_dead=_ids(5, fields, blobs),
    )


def write_state(state: SystemState) -> bytes:
    """Return the body of a state."""
    parts = [
        fixed_field(1, state.elected_id),
        fixed_field(2, state.election_id),
        varint_field(3, state.sequence),
        varint_field(4, state.is_detached),
        *(blob_field(5, _node(one), is_repeated=True) for one in state.nodes),
        fixed_field(6, (state.digest ^ _SIGN) - _SIGN),
    ]
    return b"".join(parts)


def read_state(body: bytes) -> SystemState:
    """Return a state. Raises DecodeError."""
    fields, blobs = read_fields(body)
    numbers = dict(fields)
    return SystemState(
        elected_id=numbers.get(_fixed(1), 0),
        election_id=numbers.get(_fixed(2), 0),
        sequence=numbers.get(_varint(3), 0),
        is_detached=bool(numbers.get(_varint(4), 0)),
        nodes=_entries("State", 5, blobs),
        digest=numbers.get(_fixed(6), 0) & 2 * _SIGN - 1,
    )


def write_forget(nodes: tuple[int, ...]) -> bytes:
    """Return the body of an order to forget dead nodes."""
    return packed_field(1, nodes)


def read_forget(body: bytes) -> tuple[int, ...]:
    """Return the nodes that are to be forgotten. Raises DecodeError."""
    return _ids(1, *read_fields(body))


def _varint(number: int) -> int:
    return number << 3 | VARINT


def _fixed(number: int) -> int:
    return number << 3 | FIXED64


def _blob(number: int) -> int:
    return number << 3 | BLOB


def _ids(
    number: int, numbers: Sequence[tuple[int, int]], blobs: Sequence[tuple[int, bytes]]
) -> tuple[int, ...]:
    """Return the ids of a repeated field, packed or not."""
    packed, single = _blob(number), _fixed(number)
    ids = [one for tag, data in blobs if tag == packed for one in read_packed(data)]
    return (*ids, *(value for tag, value in numbers if tag == single))


def _entries(
    type_name: str, number: int, blobs: Sequence[tuple[int, bytes]]
) -> tuple[NodeEntry, ...]:
    wanted = _blob(number)
    found = [data for tag, data in blobs if tag == wanted]
    if len(found) > PICTURE_NODE_COUNT_MAX:
        detail = f"{len(found)} nodes; the limit is {PICTURE_NODE_COUNT_MAX}"
        raise DecodeError(type_name=type_name, field="nodes", detail=detail)
    return tuple(map(_entry, found))


@functools.lru_cache(maxsize=2 * PICTURE_NODE_COUNT_MAX)
def _identity(node: int, name: str, type_id: int, control: Address, data: Address) -> bytes:
    """Return the fields of a node that never change: most of a message, and the same in each."""
    return (
        fixed_field(1, node)
        + blob_field(2, name.encode())
        + fixed_field(3, type_id)
        + blob_field(4, _address_text(control).encode())
        + blob_field(5, _address_text(data).encode())
    )


def _node(entry: NodeEntry) -> bytes:
    counters = entry.counters
    parts = [
        _identity(entry.node, entry.name, entry.type_id, entry.control, entry.data),
        varint_field(6, entry.is_dead),
        varint_field(7, entry.generation & _U32),
        varint_field(8, entry.is_resurrecting),
        varint_field(9, entry.dead_reason & _U32),
    ]
    if counters != _NOTHING:
        parts += [
            varint_field(10, counters.control_received_count & _U32),
            varint_field(11, counters.control_duplicate_count & _U32),
            varint_field(12, counters.control_retransmission_count & _U32),
            varint_field(13, counters.data_received_count & _U32),
            varint_field(14, counters.data_duplicate_count & _U32),
            varint_field(15, counters.data_retransmission_count & _U32),
            varint_field(16, min(counters.round_trip_us, _U32)),
            varint_field(17, min(counters.lag_ms, _U32)),
            varint_field(18, min(counters.backlog_bytes, _U32)),
        ]
    return b"".join(parts)


_NOTHING: Final = NodeCounters()


def _entry(data: bytes) -> NodeEntry:
    fields, blobs = read_fields(data)
    numbers, texts = dict(fields), dict(blobs)

    def number(field: int) -> int:
        return numbers.get(field << 3, 0) & _U32

    return NodeEntry(
        node=numbers.get(_fixed(1), 0),
        name=_text(texts.get(_blob(2), b"")),
        type_id=numbers.get(_fixed(3), 0),
        control=_address(texts.get(_blob(4), b"")),
        data=_address(texts.get(_blob(5), b"")),
        is_dead=bool(numbers.get(_varint(6), 0)),
        generation=number(7),
        is_resurrecting=bool(numbers.get(_varint(8), 0)),
        dead_reason=number(9),
        counters=NodeCounters(
            control_received_count=number(10),
            control_duplicate_count=number(11),
            control_retransmission_count=number(12),
            data_received_count=number(13),
            data_duplicate_count=number(14),
            data_retransmission_count=number(15),
            round_trip_us=number(16),
            lag_ms=number(17),
            backlog_bytes=number(18),
        ),
    )


@functools.lru_cache(maxsize=4 * PICTURE_NODE_COUNT_MAX)
def _text(data: bytes) -> str:
    if len(data) > 4 * PICTURE_TEXT_CHAR_COUNT_MAX:
        raise DecodeError(type_name="Node", detail=f"a text of {len(data)} bytes")
    try:
        return data.decode()[:PICTURE_TEXT_CHAR_COUNT_MAX]
    except UnicodeDecodeError as error:
        raise DecodeError(type_name="Node", detail="a text is not UTF-8") from error


def _address_text(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}" if host else ""


@functools.lru_cache(maxsize=4 * PICTURE_NODE_COUNT_MAX)
def _address(data: bytes) -> Address:
    """Return an address of IP; an empty one if it is not one."""
    host, _, port = _text(data).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
        number = int(port)
    except ValueError:
        return Address("")
    return Address(host, number) if 0 < number < 1 << 16 else Address("")
