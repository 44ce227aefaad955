"""What the picture reports, and what it wants done."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.protocol.machine import MachineEvent, Statistics
from skerry.protocol.picture.entries import NodeEntry, SystemState

__all__ = [
    "Ejected",
    "Elected",
    "Exclude",
    "Forget",
    "IncarnationEntered",
    "Include",
    "LoopWasLate",
    "NodeDead",
    "PictureAction",
    "PictureChanged",
    "PictureStatistics",
    "SendAll",
    "SendOne",
    "StateContradicts",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureAction:
    """Base of what the caller has to do, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Include(PictureAction):
    """Exchange messages with a node on the control channel."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclude(PictureAction):
    """Exclude a node from both channels, and from discovery."""

    node: int
    reason: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget(PictureAction):
    """Forget that nodes were excluded, since they will not return."""

    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAll(PictureAction):
    """Send a message, acknowledged, to all nodes of a type. If there is no room for it, the caller
    calls `not_sent`."""

    type_name: str
    data_type: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOne(PictureAction):
    """Send a message, acknowledged, to one node."""

    node: int
    data_type: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureChanged(MachineEvent):
    """The state of the system, after a change."""

    state: SystemState


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected(MachineEvent):
    """An election is decided."""

    node: int
    election_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IncarnationEntered(MachineEvent):
    """This node belongs to a run of the system now."""

    incarnation_id: int
    is_formed: bool
    """Whether this node has begun it; else it has joined."""
    is_detached: bool
    """Whether it is the private one of a light node without a system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDead(MachineEvent):
    """A node was excluded."""

    entry: NodeEntry
    by: int
    """The node that decided so; the excluded one if it has excluded this node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ejected(MachineEvent):
    """The system has excluded this node, which has to leave. Reported once."""

    reason: int
    by: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopWasLate(MachineEvent):
    """This node itself did nothing for a while. It declares no node dead for another while."""

    late_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateContradicts(MachineEvent):
    """A state has several entries of one node. The highest generation counts, then death. Reported
    once for each state."""

    by: int
    """The node that made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureStatistics(Statistics):
    raw_sent_count: int
    raw_received_count: int
    state_sent_count: int
    state_received_count: int
    ignored_count: int
    """Messages of dead nodes, of other elections, or that cannot be read."""
    election_count: int
    state_sequence: int
    dead_count: int
    """Dead nodes that are still remembered."""
