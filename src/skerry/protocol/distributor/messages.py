"""The messages of the distributor as values; `wire` encodes and decodes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skerry.tracing import DropReason

UPDATE: Final = 1
RETRANSMISSION: Final = 2
"""An update that was sent before: the same bytes except for the kind."""
HEARTBEAT: Final = 3
CONFIGURATION: Final = 4
REQUEST: Final = 5
NAK: Final = 6
GOODBYE: Final = 7
"""An addition of this project, with the body of a heartbeat; other programs ignore it."""
POSITION_REQUEST: Final = 8
POSITION: Final = 9
"""Further additions: with these a receiver determines where in a stream it joined."""

START: Final = 1
MORE: Final = 2
END: Final = 4
WHOLE: Final = START | END
"""The flags of a datagram that is not a piece of a large update."""
RELAYED: Final = 8
"""Set on all data that a gateway relays from another group."""

HEADER_BYTES: Final = 20
UPDATE_HEADER_BYTES: Final = 28
"""The size of a header with sequence number and count of updates."""


DATAGRAM_DROPS: Final = (
    DropReason.SHORT,
    DropReason.VERSION,
    DropReason.KIND,
    DropReason.BODY,
    DropReason.UPDATES,
    DropReason.PIECES,
    DropReason.SUBJECT,
    DropReason.DUPLICATE,
    DropReason.JUMP,
    DropReason.OVERFLOW,
    DropReason.SENDERS,
    DropReason.DIALECT,
    DropReason.SEAL,
    DropReason.FAKE,
)
"""The reasons for which a datagram, or an update in it, is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagramHeader:
    kind: int
    flags: int = WHOLE
    address: bytes
    """The IPv4 address of the sender, or 4 bytes that represent an IPv6 address."""
    sender_id: int
    start: int
    """When the sender started, in 32 bits: low bits of milliseconds, or seconds in pycast."""
    application_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMessage:
    """A data datagram: updates, or a piece of a large one."""

    header: DatagramHeader
    seq: int
    count: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatMessage:
    """A heartbeat, which names the last number that was sent. A goodbye has the same fields."""

    header: DatagramHeader
    group: bytes
    port: int
    sender_id: int
    start_ms: int | None
    """None in the shorter form of old Java programs and of pycast."""
    last_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The announcement of a sender."""

    header: DatagramHeader
    group: bytes
    port: int
    sender_id: int
    start: int
    """64 bits of milliseconds, or 32 of seconds in pycast."""
    heartbeat_interval_ms: int
    configuration_interval_ms: int
    host: bytes
    application: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest:
    """A request of a receiver for datagrams, first and last included."""

    header: DatagramHeader
    address: bytes
    target_id: int
    target_start: int
    first_seq: int
    last_seq: int
    host: str | None
    application: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nak:
    """The answer of a sender that it no longer has these datagrams."""

    header: DatagramHeader
    group: bytes
    port: int
    sender_id: int
    seqs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionRequest:
    """A request of a receiver: which datagrams were published shortly before another one?"""

    header: DatagramHeader
    target_id: int
    target_start: int
    seq: int
    span_us: int
    """Microseconds before the publication of that datagram."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The answer to a `PositionRequest`, with its number and span."""

    header: DatagramHeader
    seq: int
    span_us: int
    first_seq: int
    """The first datagram that was published in the span, at most `seq`."""
    elapsed_us: int
    """Microseconds since datagram `seq` was published."""


Message = (
    UpdateMessage
    | HeartbeatMessage
    | Configuration
    | RepairRequest
    | Nak
    | PositionRequest
    | Position
)
