"""What the system reports, and its counters."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.protocol.discovery.events import DiscoveryStatistics
from skerry.protocol.link.events import LinkStatistics
from skerry.protocol.machine import MachineEvent, Statistics
from skerry.protocol.picture.events import PictureStatistics
from skerry.protocol.sealing.opener import SealStatistics

__all__ = ["Rejoining", "SystemLeft", "SystemStatistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLeft(MachineEvent):
    """The system has excluded this node, which takes no part any more."""

    reason: int
    by: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoining(MachineEvent):
    """This node joins again, with a new id."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStatistics(Statistics):
    """All counters of a node in a system."""

    node: int
    control: LinkStatistics
    data: LinkStatistics
    discovery: DiscoveryStatistics
    picture: PictureStatistics
    seal: SealStatistics | None
    """None without keys. What the seal refuses is also among the drops of its channel."""
