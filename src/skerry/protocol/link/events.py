"""What a link reports, and its counters."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from skerry.protocol.machine import MachineEvent, Statistics
from skerry.protocol.rtps.samples import Record

__all__ = [
    "LinkStatistics",
    "MessagesMissed",
    "NotFull",
    "PeerStatistics",
    "RecordsReceived",
    "StallReason",
    "Stalled",
]


class StallReason(enum.Enum):
    """Why messages do not reach a node, or cannot be received from it."""

    LAG = "lag"
    """It has been behind the others for too long."""
    BACKLOG = "backlog"
    """Too much waits for it."""
    STREAM_LOST = "stream-lost"
    """Its sender no longer keeps what this node needs, so this node was excluded there."""
    MALFORMED = "malformed"
    """It sent an acknowledged message that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsReceived(MachineEvent):
    """Messages of an included node, in order."""

    node: int
    records: list[Record]
    is_reliable: bool
    is_single: bool
    """Whether they were for this node only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFull(MachineEvent):
    """A stream that refused a message has room again."""

    node_type: str
    node: int
    """The receiver; 0 for all nodes of the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled(MachineEvent):
    """An included node has to be excluded. Reported once for each node."""

    node: int
    reason: StallReason


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesMissed(MachineEvent):
    """Acknowledged messages of a node cannot be delivered: it gave them up, or this node dropped
    what had arrived of them. Only without membership; a member would be excluded."""

    node: int
    first_seq: int
    stop_seq: int
    """They had the sequence numbers from `first_seq` to before this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStatistics:
    """The counters of one node."""

    node: int
    is_included: bool
    received_packet_count: int
    received_bytes: int
    sent_packet_count: int
    sent_bytes: int
    duplicate_count: int
    retransmission_count: int
    lost_best_effort_count: int
    corrupt_count: int
    received_ns: int | None
    """When a datagram was received last; None if none was."""
    multicast_ns: int | None
    """When a multicast datagram was received last."""
    round_trip_ns: int
    """Smoothed; 0 if unknown."""
    backlog_bytes: int
    lag_ns: int
    """How long it has been behind the others."""
    unanswered_count: int
    """Retransmissions of one packet since the last acknowledgement of any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatistics(Statistics):
    """The counters of one channel."""

    peers: tuple[PeerStatistics, ...]
    sent_message_count: int
    refused_message_count: int
    dropped_message_count: int
    """Unacknowledged messages for which there was no room."""
    received_message_count: int
    queued_packet_count: int
    drops: Mapping[str, int]
    """Datagrams that were dropped, by reason."""
