"""What the system reports, and its counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skerry.protocol.discovery.events import DiscoveryStatistics
from skerry.protocol.link.events import LinkStatistics
from skerry.protocol.machine import MachineEvent, Statistics
from skerry.protocol.picture.events import PictureStatistics
from skerry.protocol.sealing.opener import SealStatistics

__all__ = ["MemberStatistics", "Rejoining", "SystemLeft", "SystemStatistics"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatistics(Statistics):
    """The counters of a node that is a member of a system, with those of its sockets."""

    machine: SystemStatistics
    is_member: bool
    """Whether it is in the picture; it is not while it joins, or after it was excluded."""
    is_elected: bool
    alive_count: int
    """Nodes that are alive in the picture."""
    clock_offset_ns_max: int
    """The largest difference between the clock of a node that is alive and that of this one."""
    exclusions: Mapping[str, int]
    """Nodes that were excluded since the start, by reason."""
    rejoin_count: int
    """How often this node was excluded and joined again."""
    kernel_drop_count: int
    """Datagrams that were dropped because a receive buffer was full."""
    unsent_count: int
    """Datagrams that could not be sent."""
    reopened_count: int
    """How often the sockets of a channel were opened again."""
