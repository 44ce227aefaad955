"""Nodes, raw statistics and the state of the system as values."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from skerry.protocol.machine import Address

__all__ = [
    "MORE_DEAD_COUNT_MAX",
    "PICTURE_NODE_COUNT_MAX",
    "PICTURE_TEXT_CHAR_COUNT_MAX",
    "NodeCounters",
    "NodeEntry",
    "RawStatistics",
    "SystemState",
    "digest_of",
]

PICTURE_NODE_COUNT_MAX: Final = 4000
"""Nodes in one message of the picture, alive and dead: four times the largest system."""
MORE_DEAD_COUNT_MAX: Final = 100_000
"""Ids of dead nodes. The oldest are forgotten first; until then, `skerry picture forget` does."""
PICTURE_TEXT_CHAR_COUNT_MAX: Final = 100
"""Characters of the name of a node, and of an address."""

_DIGESTED: Final = struct.Struct(">qBI")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCounters:
    """What one node has counted of another one."""

    control_received_count: int = 0
    control_duplicate_count: int = 0
    control_retransmission_count: int = 0
    data_received_count: int = 0
    data_duplicate_count: int = 0
    data_retransmission_count: int = 0
    round_trip_us: int = 0
    lag_ms: int = 0
    backlog_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """One node, as another one describes it."""

    node: int
    name: str
    type_id: int
    control: Address
    data: Address
    is_dead: bool = False
    generation: int = 0
    """How often a light node has returned."""
    dead_reason: int = 0
    """An `ExclusionReason`; 0 while it is alive."""
    counters: NodeCounters = field(default=NodeCounters(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawStatistics:
    """What one node observes: itself, and the nodes that it knows."""

    me: NodeEntry
    election_id: int = 0
    """The election that it believes in; 0 for none."""
    incarnation_id: int = 0
    """The run of the system that it belongs to; 0 for none."""
    nodes: tuple[NodeEntry, ...] = ()
    more_dead: tuple[int, ...] = ()
    """Nodes that are dead and no longer among `nodes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemState:
    """The picture of the system, made by the elected node."""

    elected_id: int
    election_id: int
    sequence: int
    """One more with each changed state of this election."""
    is_detached: bool = False
    """Whether it is that of a light node without a system."""
    nodes: tuple[NodeEntry, ...] = ()
    digest: int = 0

    def sealed(self) -> SystemState:
        """Return the state with its nodes in order, and their digest."""
        nodes = tuple(sorted(self.nodes, key=lambda one: one.node))
        return replace(self, nodes=nodes, digest=digest_of(nodes))

    def reconciled(self) -> SystemState:
        """Return the state with each node once: of contradictory entries, the higher generation
        counts, then death."""
        found: dict[int, NodeEntry] = {}
        for one in self.nodes:
            other = found.get(one.node)
            if other is None or (one.generation, one.is_dead) > (other.generation, other.is_dead):
                found[one.node] = one
        if len(found) == len(self.nodes):
            return self
        return replace(self, nodes=tuple(found.values())).sealed()

    def is_same_as(self, other: SystemState) -> bool:
        """Return whether both are the same state of the same election."""
        return (self.election_id, self.sequence) == (other.election_id, other.sequence)

    def alive(self) -> list[NodeEntry]:
        return [one for one in self.nodes if not one.is_dead]

    def entry(self, node: int) -> NodeEntry | None:
        """Return the entry of a node; None if it is not in the state."""
        return next((one for one in self.nodes if one.node == node), None)


def digest_of(nodes: Iterable[NodeEntry]) -> int:
    """Return the hash of which nodes are alive: equal for equal states."""
    packed = b"".join(
        _DIGESTED.pack(one.node, one.is_dead, one.generation)
        for one in sorted(nodes, key=lambda one: one.node)
    )
    return int.from_bytes(hashlib.sha256(packed).digest()[:8], "big")
