"""The values of the picture as the bytes of messages, in the wire format of Protocol Buffers."""

from __future__ import annotations

import enum
import functools
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError as ProtobufError

from skerry.errors import DecodeError
from skerry.ids import hash64
from skerry.protocol.machine import Address
from skerry.protocol.picture.entries import (
    MORE_DEAD_COUNT_MAX,
    PICTURE_NODE_COUNT_MAX,
    PICTURE_TEXT_CHAR_COUNT_MAX,
    NodeCounters,
    NodeEntry,
    RawStatistics,
    SystemState,
)
from skerry.protocol.protobuf_tables import MessageTables, message_classes

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

_MESSAGES: Final[MessageTables] = {
    "Election": ("1 uint32 action", "2 sfixed64 election_id"),
    "Node": (
        *("1 sfixed64 id", "2 string name", "3 sfixed64 type", "4 string control"),
        *("5 string data", "6 bool dead", "7 uint32 generation"),
        *("9 uint32 dead_reason", "10 uint32 c_recv", "11 uint32 c_dup", "12 uint32 c_rexmit"),
        *("13 uint32 d_recv", "14 uint32 d_dup", "15 uint32 d_rexmit", "16 uint32 rtt_us"),
        *("17 uint32 lag_ms", "18 uint32 backlog"),
    ),
    "Raw": (
        *("1 Node self", "2 sfixed64 election_id", "3 sfixed64 incarnation_id"),
        *("4 Node* nodes", "5 sfixed64* more_dead"),
    ),
    "State": (
        *("1 sfixed64 elected_id", "2 sfixed64 election_id", "3 uint64 sequence"),
        *("4 bool detached", "5 Node* nodes", "6 fixed64 digest"),
    ),
    "Forget": ("1 sfixed64* nodes",),
}
"""Number, type and name of each field; repeated fields have a star."""
_U32: Final = 0xFFFFFFFF


class ElectionAction(enum.IntEnum):
    INQUIRY = 0
    ALIVE = 1
    VICTORY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionMessage:
    action: ElectionAction
    election_id: int


_CLASSES: Final = message_classes("skerry.picture", _MESSAGES, syntax="proto3")


def write_election(message: ElectionMessage) -> bytes:
    """Return the body of a step of an election."""
    made = _CLASSES["Election"](action=message.action, election_id=message.election_id)
    return _bytes(made)


def read_election(body: bytes) -> ElectionMessage:
    """Return a step of an election. Raises DecodeError."""
    found = _parsed("Election", body)
    try:
        action = ElectionAction(found.action)
    except ValueError as error:
        raise DecodeError(type_name="Election", detail=str(error)) from error
    return ElectionMessage(action=action, election_id=found.election_id)


def write_raw(raw: RawStatistics) -> bytes:
    """Return the body of raw statistics."""
    made = _CLASSES["Raw"](
        election_id=raw.election_id,
        incarnation_id=raw.incarnation_id,
        nodes=[_node(one) for one in raw.nodes],
        more_dead=raw.more_dead,
    )
    # The name of the field is that of the first parameter.
    made.self.CopyFrom(_node(raw.me))
    return _bytes(made)


def read_raw(body: bytes) -> RawStatistics:
    """Return raw statistics. Raises DecodeError."""
    found = _parsed("Raw", body)
    return RawStatistics(
        me=_entry(found.self),
        election_id=found.election_id,
        incarnation_id=found.incarnation_id,
        nodes=_entries("Raw", found.nodes),
        more_dead=_ids("Raw", found.more_dead),
    )


def write_state(state: SystemState) -> bytes:
    made = _CLASSES["State"](
        elected_id=state.elected_id,
        election_id=state.election_id,
        sequence=state.sequence,
        detached=state.is_detached,
        nodes=[_node(one) for one in state.nodes],
        digest=state.digest,
    )
    return _bytes(made)


def read_state(body: bytes) -> SystemState:
    """Return a state. Raises DecodeError."""
    found = _parsed("State", body)
    return SystemState(
        elected_id=found.elected_id,
        election_id=found.election_id,
        sequence=found.sequence,
        is_detached=found.detached,
        nodes=_entries("State", found.nodes),
        digest=found.digest,
    )


def write_forget(nodes: tuple[int, ...]) -> bytes:
    """Return the body of an order to forget dead nodes."""
    return _bytes(_CLASSES["Forget"](nodes=nodes))


def read_forget(body: bytes) -> tuple[int, ...]:
    """Return the nodes that are to be forgotten. Raises DecodeError."""
    return _ids("Forget", _parsed("Forget", body).nodes)


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def _parsed(name: str, body: bytes) -> Any:
    try:
        return _CLASSES[name].FromString(body)
    except ProtobufError as error:
        raise DecodeError(type_name=name, detail="not a message of this type") from error


def _node(entry: NodeEntry) -> Any:
    counters = entry.counters
    return _CLASSES["Node"](
        id=entry.node,
        name=entry.name,
        type=entry.type_id,
        control=_address_text(entry.control),
        data=_address_text(entry.data),
        dead=entry.is_dead,
        generation=entry.generation & _U32,
        dead_reason=entry.dead_reason & _U32,
        c_recv=counters.control_received_count & _U32,
        c_dup=counters.control_duplicate_count & _U32,
        c_rexmit=counters.control_retransmission_count & _U32,
        d_recv=counters.data_received_count & _U32,
        d_dup=counters.data_duplicate_count & _U32,
        d_rexmit=counters.data_retransmission_count & _U32,
        rtt_us=min(counters.round_trip_us, _U32),
        lag_ms=min(counters.lag_ms, _U32),
        backlog=min(counters.backlog_bytes, _U32),
    )


def _entries(name: str, nodes: Sequence[Any]) -> tuple[NodeEntry, ...]:
    if len(nodes) > PICTURE_NODE_COUNT_MAX:
        detail = f"{len(nodes)} nodes; the limit is {PICTURE_NODE_COUNT_MAX}"
        raise DecodeError(type_name=name, field="nodes", detail=detail)
    return tuple(map(_entry, nodes))


def _ids(name: str, ids: Sequence[int]) -> tuple[int, ...]:
    if len(ids) > MORE_DEAD_COUNT_MAX:
        detail = f"{len(ids)} dead nodes; the limit is {MORE_DEAD_COUNT_MAX}"
        raise DecodeError(type_name=name, detail=detail)
    return tuple(ids)


def _entry(node: Any) -> NodeEntry:
    return NodeEntry(
        node=node.id,
        name=_text(node.name),
        type_id=node.type,
        control=_address(node.control),
        data=_address(node.data),
        is_dead=node.dead,
        generation=node.generation,
        dead_reason=node.dead_reason,
        counters=NodeCounters(
            control_received_count=node.c_recv,
            control_duplicate_count=node.c_dup,
            control_retransmission_count=node.c_rexmit,
            data_received_count=node.d_recv,
            data_duplicate_count=node.d_dup,
            data_retransmission_count=node.d_rexmit,
            round_trip_us=node.rtt_us,
            lag_ms=node.lag_ms,
            backlog_bytes=node.backlog,
        ),
    )


def _address_text(address: Address) -> str:
    return address.text if address.host else ""


def _text(text: str) -> str:
    if len(text) > 4 * PICTURE_TEXT_CHAR_COUNT_MAX:
        raise DecodeError(type_name="Node", detail=f"a text of {len(text)} characters")
    return text[:PICTURE_TEXT_CHAR_COUNT_MAX]


@functools.lru_cache(maxsize=4 * PICTURE_NODE_COUNT_MAX)
def _address(text: str) -> Address:
    """Return an address of IP; an empty one if it is not one."""
    host, _, port = _text(text).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
        number = int(port)
    except ValueError:
        return Address("")
    return Address(host, number) if 0 < number < 1 << 16 else Address("")
