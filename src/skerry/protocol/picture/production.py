"""The next state of the system, made by the elected node of all raw statistics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.picture.entries import NodeCounters, NodeEntry, SystemState
from skerry.protocol.picture.raw_table import REFUSED_REASONS, RawTable, TrackedNode

__all__ = ["Production", "Proposal"]

_ACCUSED_NS: Final = 1_100_000_000
"""How long an accusation is delayed if this node receives from the accused one."""


@dataclass(slots=True)
class Proposal:
    """What has to be done before a state can be made, or the state."""

    learned: list[NodeEntry] = field(default_factory=list)
    """Nodes that were dead before this one knew them."""
    dead: list[tuple[TrackedNode, ExclusionReason]] = field(default_factory=list)
    """Nodes to exclude first, and why."""
    state: SystemState | None = None


class Production:
    """Makes states while this node is elected."""

    def __init__(self, table: RawTable) -> None:
        self._table = table
        self._accused_ns: dict[tuple[int, int], int] = {}
        """When each accusation, of a node by another one, was received first."""
        self.failed_count = 0
        """Updates in a row in which no state could be made."""

    def propose(
        self, last: SystemState | None, election_id: int, now_ns: int, *, is_detached: bool
    ) -> Proposal:
        """Return what to do next. The state is new if its nodes differ from the last one's."""
        proposal = Proposal()
        proposal.learned = self._unknown_dead()
        proposal.dead = self._accused(self._members(last), now_ns)
        if proposal.dead:
            return proposal
        members = self._members(last)
        needed = [self._table.nodes[node] for node in members]
        if last is None:
            # This node is new: all that are there may belong to the system, if they may join.
            table = self._table
            needed = [one for one in table.alive_full() if not table.has_wrong_clock(one)]
        if not all(self._follows(one, election_id) for one in needed):
            self.failed_count += 1
            return proposal
        self.failed_count = 0
        proposal.state = self._state(last, members, election_id, is_detached=is_detached)
        return proposal

    # -- dead nodes

    def _accused(
        self, members: list[int], now_ns: int
    ) -> list[tuple[TrackedNode, ExclusionReason]]:
        """Return the nodes that are alive here and have to be excluded. A node that joins never
        costs a member its place."""
        table = self._table
        pairs: set[tuple[int, int]] = set()
        refused: dict[int, ExclusionReason] = {}
        for accuser in table.alive_full():
            for entry in accuser.dead:
                accused = table.nodes.get(entry.node)
                if accused is None or accused.is_dead:
                    continue
                # A light node may have returned since the accuser has heard of its death.
                if entry.generation >= accused.entry.generation:
                    pairs.add((accuser.entry.node, entry.node))
                    if entry.dead_reason in REFUSED_REASONS:
                        refused[entry.node] = ExclusionReason(entry.dead_reason)
        self._accused_ns = {pair: self._accused_ns.get(pair, now_ns) for pair in sorted(pairs)}
        held = [
            pair for pair, since_ns in self._accused_ns.items() if now_ns - since_ns >= _ACCUSED_NS
        ]
        return [
            (table.nodes[node], refused.get(node, ExclusionReason.COORDINATOR))
            for node in _worst(held, members)
        ]

    def _unknown_dead(self) -> list[NodeEntry]:
        """Return the nodes that others call dead, none calls alive, and this one never knew."""
        full = self._table.alive_full()
        nodes = self._table.nodes
        unknown = [entry for one in full for entry in one.dead if entry.node not in nodes]
        return [entry for entry in unknown if not any(entry.node in one.seen for one in full)]

    # -- the state

    def _members(self, last: SystemState | None) -> list[int]:
        """Return the nodes of the last state that are alive, but for this one."""
        found = [] if last is None else [one.node for one in last.alive()]
        nodes = self._table.nodes
        return [node for node in found if node in nodes and not nodes[node].is_dead]

    @staticmethod
    def _follows(tracked: TrackedNode, election_id: int) -> bool:
        """Return whether a node has accepted this election."""
        return tracked.raw is not None and tracked.raw.election_id == election_id

    def _state(
        self,
        last: SystemState | None,
        members: list[int],
        election_id: int,
        *,
        is_detached: bool,
    ) -> SystemState:
        table = self._table
        entries: dict[int, NodeEntry] = {}
        if last is not None:
            entries = {one.node: one for one in last.nodes}
        for tracked in table.nodes.values():
            if tracked.is_dead:
                entries[tracked.entry.node] = _stated(tracked.entry)
        entries[table.me.node] = _stated(table.me)
        for tracked in self._admitted(members, election_id):
            entries[tracked.entry.node] = _stated(tracked.entry)
        for node in list(entries):
            # Dead nodes leave the state when their entries are forgotten here.
            if entries[node].is_dead and node not in table.nodes:
                del entries[node]
        mine = table.me.node
        made = SystemState(
            elected_id=mine,
            election_id=election_id,
            sequence=1,
            is_detached=is_detached,
            nodes=tuple(entries.values()),
        ).sealed()
        if last is None or (last.elected_id, last.election_id) != (mine, election_id):
            return made
        is_same = made.nodes == last.nodes and made.is_detached == last.is_detached
        return last if is_same else replace(made, sequence=last.sequence + 1)

    def _admitted(self, members: list[int], election_id: int) -> list[TrackedNode]:
        """Return the members, and the nodes that join: those that see all others and are seen by
        all full ones. Of two that do not see each other, the higher one joins first."""
        table = self._table
        admitted = [table.nodes[node] for node in members]
        joining = [
            one
            for one in table.alive()
            if one.entry.node not in members
            and table.has_right_clock(one)
            and self._follows(one, election_id)
        ]
        for tracked in sorted(joining, key=lambda one: -one.entry.node):
            node = tracked.entry.node
            seen = tracked.seen
            needed = [one for one in admitted if not (tracked.type.light and one.type.light)]
            is_seen = tracked.type.light or all(
                node in one.seen for one in admitted if not one.type.light
            )
            if is_seen and table.me.node in seen and all(one.entry.node in seen for one in needed):
                admitted.append(tracked)
        return admitted


def _worst(pairs: list[tuple[int, int]], members: list[int]) -> list[int]:
    """Return the nodes to exclude so that no accusation is left: those that are not members first,
    then those with most accusations, made or received, and of several the lowest."""
    excluded: list[int] = []
    left = list(pairs)
    while left:
        counts = Counter(node for pair in {frozenset(pair) for pair in left} for node in pair)
        worst = min(counts, key=lambda node: (node in members, -counts[node], node))
        excluded.append(worst)
        left = [pair for pair in left if worst not in pair]
    return excluded


def _stated(entry: NodeEntry) -> NodeEntry:
    """Return what the state has of a node: no counters, and nothing that only concerns one node."""
    return replace(entry, counters=NodeCounters())
