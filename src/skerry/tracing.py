"""Trace events, by which pure code reports what happens inside it, and the reasons of drops.

A machine never logs. It emits small values: `observe` turns them into log lines and counters, and
the simulator writes each as one line of JSON.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from skerry.json_values import plain

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class DropReason(enum.Enum):
    """Why a datagram, an update or a message was dropped. Each is counted, none is fatal: anyone
    can send to a multicast group. The values are the labels of metrics."""

    MALFORMED = "malformed"
    """The bytes are not a message of this protocol, or not an object of their type."""
    DUPLICATE = "duplicate"
    """The datagram was received before."""
    STRANGER = "stranger"
    """The sender is not a peer of this machine."""

    # Datagrams of a group.
    SHORT = "short"
    """The datagram is shorter than its header."""
    VERSION = "version"
    """The major version is not supported."""
    KIND = "kind"
    """The kind of message is unknown."""
    BODY = "body"
    """The fields of a control message do not match its length."""
    UPDATES = "updates"
    """The updates in the datagram do not end at its end."""
    PIECES = "pieces"
    """The pieces of a large update do not add up to the announced length."""
    SUBJECT = "subject"
    """The subject of an update is not valid, or cannot be sent to the group: too long, or not
    ASCII."""
    JUMP = "jump"
    """The sequence number is too far ahead to be accepted without a second one."""
    OVERFLOW = "overflow"
    """The stream of the sender is stopped, and its buffer is full."""
    SENDERS = "senders"
    """The limit of senders is reached."""
    DIALECT = "dialect"
    """The sender uses the other dialect."""
    SEAL = "seal"
    """The datagram is not sealed with a key of the group."""
    FAKE = "fake"
    """Dropped on purpose, to test an application."""

    # Datagrams between nodes.
    CHECKSUM = "checksum"
    CHANNEL = "channel"
    """The datagram is for the other channel of the node."""
    OWN = "own"
    """The node itself sent it, to a multicast group."""
    DESTINATION = "destination"
    """It is addressed to another node."""
    SYSTEM = "system"
    """It is of another system."""
    NODE_TYPE = "node-type"
    """The type of the sender is not in the configuration."""
    EXCLUDED = "excluded"
    """The sender was excluded from the system, such as an earlier run of a node."""
    SEALED = "sealed"
    """It is sealed, and this node has no keys."""
    UNSEALED = "unsealed"
    """It is not sealed, and the system has keys."""
    KEY = "key"
    """It is sealed with a key that this node does not have."""
    FORGED = "forged"
    """It was made or changed without the key, or for another system."""
    STALE = "stale"
    """It was sealed too long before or after now: it was recorded, or the clocks differ."""
    REPLAYED = "replayed"
    """It was sealed once, and is received again."""

    # Messages that a carriage does not forward.
    UNDESCRIBED = "undescribed"
    """The type, or a type that it uses, was not described in time."""
    SCOPE = "scope"
    """Objects of the type are not forwarded: they are cached, or their scope is the node."""
    CONFLICT = "conflict"
    """The sender has another definition of the type than this node."""
    REFUSED = "refused"
    """The node refused the message because of a limit or of permissions."""
    SIZE = "size"
    """The message is too large for the group."""
    ABSENT = "absent"
    """The carriage was not connected to its node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """Base of trace events; `now_ns` is the clock of the machine."""

    now_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagramDropped(TraceEvent):
    source: str
    reason: DropReason


class Tracer(Protocol):
    """Receives trace events; it must not call the machine."""

    def emit(self, event: TraceEvent) -> None: ...


class _NoTrace:
    def emit(self, event: TraceEvent) -> None:
        return None


NO_TRACE: Tracer = _NoTrace()
"""Discards all events."""


def trace_line(event: DataclassInstance, **facts: object) -> str:
    """Return the event as one line of JSON; equal events give equal bytes in every process."""
    fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    row = {"event": type(event).__name__, **fields, **facts}
    return json.dumps(row, default=plain, sort_keys=True, separators=(",", ":"))
