"""Events and statistics of a carriage, and the reasons for which it drops messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skerry.protocol.distributor.events import DistributorStatistics
from skerry.protocol.machine import MachineEvent, Statistics
from skerry.protocol.sealing.opener import SealStatistics
from skerry.tracing import DropReason

CARRIAGE_DROPS: Final = (
    DropReason.MALFORMED,
    DropReason.UNDESCRIBED,
    DropReason.SCOPE,
    DropReason.CONFLICT,
    DropReason.REFUSED,
    DropReason.SUBJECT,
    DropReason.SIZE,
    DropReason.ABSENT,
)
"""The reasons for which the carriage does not forward a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionConflict(MachineEvent):
    """A sender of the group has an incompatible definition of a type; its messages are dropped."""

    type_name: str
    sender: str
    """Application, address and sender id."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesGivenUp(MachineEvent):
    """Messages were dropped that waited for the description of their type."""

    type_name: str
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriageStatistics(Statistics):
    """Counters of a carriage since it was made, and what it holds now."""

    sent_count: int
    """Messages of clients that were published to the group."""
    brought_count: int
    """Messages from the group that were forwarded to the node."""
    described_count: int
    """Type descriptions that were published, repetitions included."""
    dropped: Mapping[str, int]
    """Messages that were not forwarded, by reason."""
    conflict_count: int
    cut_count: int
    """How often the node closed the connection of the carriage."""
    used_type_count: int
    """Types in use, which are described periodically."""
    waiting_count: int
    """Messages that wait for the description of their type, or for bandwidth."""
    is_connected: bool
    group: DistributorStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatistics(Statistics):
    """All statistics of a node's group at one instant."""

    carrier: CarriageStatistics
    seal: SealStatistics | None
    """None for a group without keys."""
    kernel_drop_count: int | None
    """Datagrams that the kernel dropped; None if the system does not report it."""
