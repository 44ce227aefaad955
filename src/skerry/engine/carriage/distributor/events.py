"""What a carrier tells whoever runs it: what it did not bring, who defines types otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skerry.protocol.distributor.events import DistributorStatistics
from skerry.protocol.distributor.sealing.sealed_datagrams import SealStatistics
from skerry.protocol.machine import MachineEvent, Statistics
from skerry.tracing import DropReason

__all__ = [
    "CARRIAGE_DROPS",
    "CarriageStatistics",
    "DefinitionConflict",
    "GroupStatistics",
    "MessagesGivenUp",
]


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
    """A sender of the group defines a type otherwise; what it sends of it is dropped."""

    type_name: str
    sender: str
    """Its application, address and sender id."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesGivenUp(MachineEvent):
    """Messages were dropped that waited for the description of their type."""

    type_name: str
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriageStatistics(Statistics):
    """Counters of a carrier since it was made, and what it holds now."""

    sent_count: int
    """Messages of clients that were published to the group."""
    brought_count: int
    """Messages from the group that were handed to the node."""
    described_count: int
    """Descriptions that were published, repetitions included."""
    dropped: Mapping[str, int]
    """Messages that were not brought to the other side, by reason."""
    conflict_count: int
    cut_count: int
    """How often the node ended the connection of the carrier."""
    used_type_count: int
    """Types that are described again and again, as they are in use."""
    waiting_count: int
    """Messages that wait for the description of their type, or for bandwidth."""
    is_connected: bool
    group: DistributorStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatistics(Statistics):
    """All numbers of a node's group at one instant."""

    carrier: CarriageStatistics
    seal: SealStatistics | None
    """None for a group without keys."""
    kernel_drop_count: int | None
    """None if the system does not tell."""
