"""What discovery reports, and its counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skerry.protocol.discovery.descriptions import SystemStanding
from skerry.protocol.machine import Address, MachineEvent, Statistics

__all__ = [
    "ClockMeasured",
    "DiscoveryStatistics",
    "LightSeed",
    "NodeFound",
    "NodesRefused",
    "RefusedBy",
    "SeedIgnored",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFound(MachineEvent):
    """Another node of the system exists. Reported once for each node."""

    node: int
    name: str
    type_name: str
    control: Address
    data: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockMeasured(MachineEvent):
    """The wall clock of a node was compared with that of this node."""

    node: int
    offset_ns: int
    """By how much its clock is ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBy(MachineEvent):
    """Another node has excluded this one."""

    node: int
    reason: int
    """An `ExclusionReason`, or a number that a later version has added."""
    standing: SystemStanding | None
    """The system of that node; None if it belongs to none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LightSeed(MachineEvent):
    """A light node was asked by another light node: one of them is a seed, by mistake."""

    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedIgnored(MachineEvent):
    """A seed is not an address of IP with a port, so it is not asked."""

    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesRefused(MachineEvent):
    """There are more nodes than are accepted. Reported once."""

    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryStatistics(Statistics):
    known_count: int
    reported_count: int
    """Nodes that others named, and from which nothing was received yet."""
    seed_count: int
    excluded_count: int
    discover_sent_count: int
    node_info_sent_count: int
    refusal_sent_count: int
    drops: Mapping[str, int]
