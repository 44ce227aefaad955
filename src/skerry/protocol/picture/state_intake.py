"""Which states of the elected node this node accepts, and when one means that it has to leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import NodeType
from skerry.protocol.picture.election import Election
from skerry.protocol.picture.entries import NodeEntry, SystemState
from skerry.protocol.picture.raw_table import TrackedNode

__all__ = ["StateIntake", "note_generation"]

_MISSING_COUNT: Final = 3
"""States without this node, after which it counts as excluded."""


class StateIntake:
    """Examines received states."""

    def __init__(self, election: Election, own_type: NodeType, node: int) -> None:
        self.missing_count = 0
        """States in a row without this node."""
        self._election = election
        self._node = node
        self._missing_ns_min = 2 * own_type.dead_timeout_ns
        self._missing_ns = 0

    def is_current(self, sender: int, state: SystemState, mine: SystemState | None) -> bool:
        """Return whether a state is of the elected node, and not older than the last one."""
        election = self._election
        is_right = sender == election.elected_id == state.elected_id
        if not is_right or state.election_id != election.election_id:
            return False
        is_same_election = mine is not None and mine.election_id == state.election_id
        return mine is None or not is_same_election or state.sequence >= mine.sequence

    def reason_to_leave(self, state: SystemState, now_ns: int) -> int | None:
        """Return why this node has to leave: it is dead in the state, or has been missing in
        several. 0 if it is missing in too few of them, None if the state has it alive."""
        own = state.entry(self._node)
        if own is not None:
            self.missing_count = 0
            return own.dead_reason or ExclusionReason.COORDINATOR if own.is_dead else None
        if not self.missing_count:
            self._missing_ns = now_ns
        self.missing_count += 1
        is_long = now_ns - self._missing_ns >= self._missing_ns_min
        return (
            ExclusionReason.COORDINATOR if self.missing_count >= _MISSING_COUNT and is_long else 0
        )


def note_generation(tracked: TrackedNode, entry: NodeEntry, before: SystemState | None) -> None:
    """Note how often a light node, which is alive here, has returned by a new state.

    If it is dead in the state, and was so in the one before or this node had none before, it has
    returned since: this node has heard of it, and the state has not.
    """
    known = None if before is None else before.entry(entry.node)
    is_old = before is None
    if known is not None:
        is_old = known.is_dead and known.generation >= entry.generation
    if tracked.type.light and not tracked.is_dead:
        generation = entry.generation + (entry.is_dead and is_old)
        generation = max(tracked.entry.generation, generation)
        tracked.entry = replace(tracked.entry, generation=generation)
