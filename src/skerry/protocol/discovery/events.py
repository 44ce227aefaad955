"""What discovery reports, and its counters."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from skerry.protocol.machine import Address, MachineEvent, Statistics

__all__ = [
    "DiscoveryStatistics",
    "LightSeed",
    "NodeFound",
    "NodesRefused",
    "RefusalReason",
    "RefusedBy",
]


class RefusalReason(enum.IntEnum):
    """Why a node is excluded. The values are those on the wire."""

    SILENT = 1
    """Its keep-alives were lost."""
    UNANSWERED = 2
    """It acknowledges nothing."""
    SLOW = 3
    """It does not keep up with the others."""
    INCARNATION = 4
    """It belongs to another run of the system."""
    BLACK_LISTED = 5
    """It belongs to a run of the system that was stopped."""
    ORDERED = 6
    """It was told to stop."""
    COORDINATOR = 7
    """The elected node decided so."""
    CLOCK = 8
    """Its clock differs too much."""
    VETO = 9
    """The program that controls the node does not admit it."""
    STREAM = 10
    """A stream of messages from it or to it cannot continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFound(MachineEvent):
    """Another node of the system exists. Reported once for each node."""

    node: int
    name: str
    type_name: str
    control: Address
    data: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBy(MachineEvent):
    """Another node has excluded this one."""

    node: int
    reason: int
    """A `RefusalReason`, or a number that a later version has added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LightSeed(MachineEvent):
    """A light node was asked by another light node: one of them is a seed, by mistake."""

    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesRefused(MachineEvent):
    """There are more nodes than are accepted. Reported once."""

    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryStatistics(Statistics):
    """The counters of discovery."""

    known_count: int
    reported_count: int
    """Nodes that others named, and from which nothing was received yet."""
    seed_count: int
    excluded_count: int
    discover_sent_count: int
    node_info_sent_count: int
    refusal_sent_count: int
    drops: Mapping[str, int]
