"""What this node knows of the others, and they of each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.picture.entries import (
    MORE_DEAD_COUNT_MAX,
    NodeCounters,
    NodeEntry,
    RawStatistics,
    SystemState,
)
from skerry.protocol.picture.liveness import ChannelHealth, dead_reason

__all__ = ["REFUSED_REASONS", "RawTable", "TrackedNode"]

_DEAD_ENTRY_NS: Final = 300_000_000_000
"""After this time only the id of a dead node is kept."""
_FORGOTTEN_NS: Final = 120_000_000_000
"""For this time after a node was forgotten, others may still name it."""
REFUSED_REASONS: Final = frozenset({ExclusionReason.CLOCK, ExclusionReason.VETO})
"""A node that is refused for these reasons was never a member, and comes with a new id each time
that it tries to join. Its ids are not kept, as they would grow for as long as it tries."""
_US: Final = 1000
_MS: Final = 1_000_000
_NEVER_HEARD: Final = ChannelHealth()


class TrackedNode:
    """One other node."""

    def __init__(self, entry: NodeEntry, node_type: NodeType, now_ns: int) -> None:
        self.entry = entry
        self.type = node_type
        self.since_ns = now_ns
        self.data_since_ns: int | None = None
        """Since when its data channel is used, as it is in the state."""
        self.dead_ns: int | None = None
        self.control = _NEVER_HEARD
        self.data = _NEVER_HEARD
        self.raw: RawStatistics | None = None
        """The last raw statistics of it."""
        self.seen: frozenset[int] = frozenset()
        """The nodes that are alive in them."""
        self.dead: tuple[NodeEntry, ...] = ()
        """The nodes that are dead in them."""
        self.clock_offset_ns: int | None = None
        """By how much its clock is ahead; None if it was not compared."""
        self.wrong_election_id = 0
        self.wrong_election_count = 0
        """How often in a row it has named this other election."""

    @property
    def is_dead(self) -> bool:
        """Whether it is excluded."""
        return self.entry.is_dead

    def raw_received(self, raw: RawStatistics) -> None:
        """Keep its raw statistics."""
        self.raw = raw
        self.seen = frozenset(one.node for one in raw.nodes if not one.is_dead)
        self.dead = tuple(one for one in raw.nodes if one.is_dead)

    def forget_raw(self) -> None:
        """Forget its raw statistics."""
        self.raw = None
        self.seen = frozenset()
        self.dead = ()


class RawTable:
    """All nodes that this node has known. Nodes are never alive again, but light ones."""

    def __init__(
        self,
        me: NodeEntry,
        own_type: NodeType,
        node_types: NodeTypes,
        *,
        clock_skew_ns_max: int = 60_000_000_000,
    ) -> None:
        """A node whose clock differs by more than `clock_skew_ns_max` may not join."""
        self.me = me
        self.nodes: dict[int, TrackedNode] = {}
        self.more_dead: dict[int, None] = {}
        """Dead nodes that are not in `nodes` any more, oldest first."""
        self._own_type = own_type
        self._types = node_types
        self._clock_skew_ns_max = clock_skew_ns_max
        self._forgotten: dict[int, int] = {}

    def alive(self) -> list[TrackedNode]:
        """Return the nodes that are not dead."""
        return [one for one in self.nodes.values() if not one.is_dead]

    def alive_full(self) -> list[TrackedNode]:
        """Return the full nodes that are not dead."""
        return [one for one in self.nodes.values() if not one.is_dead and not one.type.light]

    @property
    def dead_count(self) -> int:
        """Dead nodes that are remembered."""
        return len(self.more_dead) + sum(one.is_dead for one in self.nodes.values())

    def alive_count(self, state: SystemState | None) -> int:
        """Return how many nodes of a state are alive for this node, including itself."""
        alive = [] if state is None else [one.node for one in state.alive()]
        return 1 + sum(
            one != self.me.node and one in self.nodes and not self.nodes[one].is_dead
            for one in alive
        )

    def has_right_clock(self, tracked: TrackedNode) -> bool:
        """Return whether the clock of a node is known, and does not differ too much."""
        return tracked.clock_offset_ns is not None and not self.has_wrong_clock(tracked)

    def has_wrong_clock(self, tracked: TrackedNode) -> bool:
        """Return whether the clock of a node is known to differ too much."""
        return abs(tracked.clock_offset_ns or 0) > self._clock_skew_ns_max

    def wrong_clocks(self, state: SystemState | None) -> list[TrackedNode]:
        """Return the nodes that are not in the state, and whose clocks differ too much; none
        without a state, since a node that joins does not know which clock is wrong."""
        wrong = [] if state is None else list(filter(self.has_wrong_clock, self.alive()))
        members = {one.node for one in state.alive()} if wrong and state is not None else set()
        return [one for one in wrong if one.entry.node not in members]

    def is_clock_wrong(self) -> bool:
        """Return whether the own clock differs too much from those of most full nodes."""
        known = [one for one in self.alive_full() if one.clock_offset_ns is not None]
        return 2 * sum(map(self.has_wrong_clock, known)) > len(known) + 1

    def health(
        self, control: Mapping[int, ChannelHealth], data: Mapping[int, ChannelHealth]
    ) -> None:
        """Update what the channels know of the other nodes."""
        for node, tracked in self.nodes.items():
            if not tracked.is_dead:
                tracked.control = control.get(node, tracked.control)
                tracked.data = data.get(node, tracked.data)

    def knows_all(self, *, has_right_clocks: bool = False) -> bool:
        """Return whether all nodes are known that are alive for one of the full nodes, with
        `has_right_clocks` also the clocks of these."""
        known = self.nodes.keys() | self.more_dead.keys() | {self.me.node}
        return all(
            one.seen <= known and (not has_right_clocks or self.has_right_clock(one))
            for one in self.alive_full()
        )

    def add(
        self, entry: NodeEntry, node_type: NodeType, now_ns: int, state: SystemState | None = None
    ) -> TrackedNode:
        """Add a new node; one whose id is that of a dead node is dead."""
        tracked = TrackedNode(entry, node_type, now_ns)
        if node_type.light:
            self._renew(tracked, state)
        if entry.node in self.more_dead:
            tracked.entry = replace(entry, is_dead=True, dead_reason=ExclusionReason.COORDINATOR)
            tracked.dead_ns = now_ns
        self.nodes[entry.node] = tracked
        return tracked

    def kill(self, tracked: TrackedNode, reason: int, now_ns: int) -> None:
        """Note that a node is dead."""
        tracked.entry = replace(tracked.entry, is_dead=True, dead_reason=reason)
        tracked.dead_ns = now_ns
        tracked.forget_raw()

    def raw_received(self, tracked: TrackedNode, raw: RawStatistics) -> None:
        """Keep the raw statistics of a node, and adopt the later generations of light nodes that
        are alive here and there."""
        tracked.raw_received(raw)
        for entry in () if tracked.type.light else raw.nodes:
            if entry.generation and not entry.is_dead:
                light = self.nodes.get(entry.node)
                if light is not None and light.type.light and not light.is_dead:
                    generation = max(entry.generation, light.entry.generation)
                    light.entry = replace(light.entry, generation=generation)

    def revive(self, tracked: TrackedNode, state: SystemState | None, now_ns: int) -> None:
        """Note that a light node is alive again."""
        tracked.entry = replace(
            tracked.entry, is_dead=False, dead_reason=0, counters=NodeCounters()
        )
        self._renew(tracked, state)
        tracked.dead_ns = None
        tracked.since_ns = now_ns
        tracked.data_since_ns = None
        tracked.control = tracked.data = _NEVER_HEARD
        tracked.forget_raw()

    def found_dead(self, now_ns: int) -> list[tuple[TrackedNode, ExclusionReason]]:
        """Return the nodes that are dead by the counters of their channels."""
        has_multicast = bool(self._own_type.multicast_control)
        found: list[tuple[TrackedNode, ExclusionReason]] = []
        for tracked in self.alive():
            for is_data, health, since_ns in (
                (False, tracked.control, tracked.since_ns),
                (True, tracked.data, tracked.data_since_ns),
            ):
                if since_ns is None:
                    continue
                reason = dead_reason(
                    health,
                    tracked.type,
                    since_ns=since_ns,
                    now_ns=now_ns,
                    has_multicast=has_multicast,
                    is_data=is_data,
                )
                if reason is not None:
                    found.append((tracked, reason))
                    break
        return found

    def add_dead(self, entry: NodeEntry, now_ns: int) -> bool:
        """Add a node that is dead; False if it is known or was forgotten."""
        node = entry.node
        node_type = self._types.by_id(entry.type_id)
        if node in self.nodes or node in self.more_dead or node in self._forgotten:
            return False
        if node_type is None or node_type.light:
            return False
        tracked = self.nodes[node] = TrackedNode(entry, node_type, now_ns)
        self.kill(tracked, entry.dead_reason or ExclusionReason.COORDINATOR, now_ns)
        return True

    def merge_more_dead(self, ids: Iterable[int]) -> list[int]:
        """Note dead nodes that another node names; return those that were unknown."""
        mine, known = self.me.node, self.more_dead
        added = [
            node
            for node in ids
            if node not in known
            and node not in self._forgotten
            and node not in self.nodes
            and node != mine
        ]
        for node in added:
            self._add_more_dead(node)
        return added

    def expire(self, now_ns: int) -> None:
        """Keep only the ids of nodes that have been dead for long."""
        for node, tracked in list(self.nodes.items()):
            if tracked.dead_ns is not None and now_ns - tracked.dead_ns >= _DEAD_ENTRY_NS:
                del self.nodes[node]
                if tracked.entry.dead_reason in REFUSED_REASONS:
                    self._forgotten[node] = now_ns
                elif not tracked.type.light:
                    self._add_more_dead(node)
        for node, forgotten_ns in list(self._forgotten.items()):
            if now_ns - forgotten_ns >= _FORGOTTEN_NS:
                del self._forgotten[node]

    def forget(self, ids: Iterable[int], now_ns: int) -> list[int]:
        """Forget dead nodes; return those that were known."""
        gone: list[int] = []
        for node in ids:
            tracked = self.nodes.get(node)
            if tracked is not None and not tracked.is_dead:
                continue
            self._forgotten[node] = now_ns
            if tracked is not None or node in self.more_dead:
                gone.append(node)
            self.nodes.pop(node, None)
            self.more_dead.pop(node, None)
        return gone

    def forget_all(self) -> None:
        """Forget all nodes, since the system is gone."""
        self.nodes.clear()
        self.more_dead.clear()

    def statistics(self, election_id: int, incarnation_id: int) -> RawStatistics:
        """Return the raw statistics of this node."""
        return RawStatistics(
            me=self.me,
            election_id=election_id,
            incarnation_id=incarnation_id,
            nodes=tuple(
                replace(tracked.entry, counters=_counters(tracked))
                for tracked in self.nodes.values()
            ),
            more_dead=tuple(self.more_dead),
        )

    def _renew(self, tracked: TrackedNode, state: SystemState | None) -> None:
        """Note that a light node is alive: it is of a later generation than each death of it that
        the state or another full node names."""
        node = tracked.entry.node
        stated = None if state is None else state.entry(node)
        generation = tracked.entry.generation
        if stated is not None:
            generation = max(generation, stated.generation + stated.is_dead)
        for other in self.alive_full():
            for entry in other.dead:
                if entry.node == node:
                    generation = max(generation, entry.generation + 1)
        tracked.entry = replace(tracked.entry, generation=generation)

    def _add_more_dead(self, node: int) -> None:
        self.more_dead[node] = None
        while len(self.more_dead) > MORE_DEAD_COUNT_MAX:
            del self.more_dead[next(iter(self.more_dead))]


def _counters(tracked: TrackedNode) -> NodeCounters:
    control, data = tracked.control, tracked.data
    return NodeCounters(
        control_received_count=control.received_count,
        control_duplicate_count=control.duplicate_count,
        control_retransmission_count=control.retransmission_count,
        data_received_count=data.received_count,
        data_duplicate_count=data.duplicate_count,
        data_retransmission_count=data.retransmission_count,
        round_trip_us=(control.round_trip_ns or data.round_trip_ns) // _US,
        lag_ms=max(control.lag_ns, data.lag_ns) // _MS,
        backlog_bytes=control.backlog_bytes + data.backlog_bytes,
    )
