"""The picture of the system as an object, made from the states of its machine.

A node without a system runs the same machine, which then has no peers and elects itself at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.protocol.discovery.probes import ProbeResult
from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.picture.entries import NodeEntry, RawStatistics, SystemState
from skerry.protocol.picture.picture import PictureMachine
from skerry.protocol.picture.raw_table import RawTable, TrackedNode

_CLOCK_STEP_MS: Final = 100
"""Clock differences are published in these steps, since smaller ones change all the time."""
_CLOCK_STEP_NS: Final = _CLOCK_STEP_MS * 1_000_000
_US: Final = 1e6
_MS: Final = 1e3
_NS: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """What this node adds to the picture; it may be different on each node."""

    clock_offsets_ms: Mapping[int, int] = field(default_factory=dict)
    """By how much the clock of each node is ahead."""
    unheard_by: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """One-way links: by node, those that receive nothing of it although it receives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPicture:
    """What a node publishes of its system: the state, and what it needs to be understood."""

    node: int
    """The publishing node."""
    state: SystemState
    node_types: NodeTypes
    incarnation_id: int = 0
    observations: Observations = field(default_factory=Observations)


def lone_picture(*, node: int, name: str) -> PublishedPicture:
    """The picture of a node without peers."""
    node_type = NodeType()
    types = NodeTypes([node_type])
    nowhere = Address("")
    me = NodeEntry(node=node, name=name, type_id=node_type.id, control=nowhere, data=nowhere)
    machine = PictureMachine(
        me=me,
        own_type=node_type,
        node_types=types,
        rng=Random(node),
        now_ns=0,
        alone_timeout_ns=1,
    )
    while machine.state is None:
        due_ns = machine.deadline_ns()
        assert due_ns is not None
        machine.advance(due_ns)
    return PublishedPicture(
        node=node,
        state=machine.state,
        node_types=types,
        incarnation_id=machine.membership.incarnation_id,
    )


def picture_object(
    seen: PublishedPicture, *, system: str, endpoints: Sequence[str], started_s: float
) -> Struct:
    """The SkerryPicture. `endpoints` and `started_s` are those of the publishing node."""
    nodes = []
    for entry in seen.state.nodes:
        node = _node(entry, seen.node_types)
        if entry.node == seen.node:
            node.endpoints, node.started = list(endpoints), started_s
        offset_ms = seen.observations.clock_offsets_ms.get(entry.node)
        if offset_ms is not None:
            node.clockOffset = offset_ms / _MS
        unheard_by = seen.observations.unheard_by.get(entry.node)
        if unheard_by:
            node.unheardBy = list(unheard_by)
        nodes.append(node)
    state = seen.state
    picture: Struct = internal_class("SkerryPicture")(
        system=system,
        elected=state.elected_id,
        election=state.election_id,
        sequence=state.sequence,
        isDetached=state.is_detached,
        nodes=nodes,
        digest=state.digest,
        node=seen.node,
        incarnation=seen.incarnation_id,
    )
    return picture


def raw_objects(table: RawTable, own: RawStatistics, now_ns: int) -> Iterator[Struct]:
    """SkerryRawStatistics of each node about each other: of this one as it is now, of the others
    as they have sent it."""
    for entry in own.nodes:
        made = _observation(own.me, entry)
        _add_own_observation(made, table.nodes[entry.node], now_ns)
        yield made
    for tracked in table.alive():
        for entry in () if tracked.raw is None else tracked.raw.nodes:
            yield _observation(tracked.entry, entry)


def probe_objects(
    table: RawTable, results: Iterable[ProbeResult], *, datagram_bytes: int, mtu: int
) -> Iterator[Struct]:
    """A SkerryProbe of each node that was asked and is alive."""
    for one in results:
        tracked = table.nodes.get(one.node)
        if tracked is None or tracked.is_dead:
            continue
        made: Any = internal_class("SkerryProbe")(
            node=one.node,
            control=tracked.entry.control.text,
            datagramBytes=datagram_bytes,
            mtu=mtu,
        )
        if one.round_trip_ns is not None:
            made.roundTripTime = one.round_trip_ns / _NS
        if one.whole_round_trip_ns is not None:
            made.wholeRoundTripTime = one.whole_round_trip_ns / _NS
        yield made


def observations(table: RawTable, own: RawStatistics) -> Observations:
    """What the raw statistics show: clock differences, and one-way links."""
    offsets = {
        one.entry.node: round(one.clock_offset_ns / _CLOCK_STEP_NS) * _CLOCK_STEP_MS
        for one in table.alive()
        if one.clock_offset_ns is not None
    }
    alive = [own.me, *(one.entry for one in table.alive())]
    raws = [own, *(one.raw for one in table.alive() if one.raw is not None)]
    hears = {raw.me.node: {one.node: _is_heard(one) for one in raw.nodes} for raw in raws}
    unheard_by: dict[int, tuple[int, ...]] = {}
    for raw in raws:
        node = raw.me.node
        deaf = [
            one.node
            for one in raw.nodes
            if _is_heard(one)
            and not (one.is_dead and _has_returned(one, alive))
            and (one.is_dead or hears.get(one.node, {}).get(node) is False)
        ]
        if deaf:
            unheard_by[node] = tuple(sorted(deaf))
    return Observations(
        clock_offsets_ms={node: ms for node, ms in offsets.items() if ms}, unheard_by=unheard_by
    )


def _is_heard(entry: NodeEntry) -> bool | None:
    """Whether the observer receives a node; None if it has excluded it for another reason.

    A node that acknowledges nothing is received: it is the one that receives nothing.
    """
    if not entry.is_dead or entry.dead_reason == ExclusionReason.UNANSWERED:
        return True
    return False if entry.dead_reason == ExclusionReason.SILENT else None


def _has_returned(dead: NodeEntry, alive: Iterable[NodeEntry]) -> bool:
    """Whether a node is alive with another id: its host has one of its name."""
    return any(
        one.node != dead.node and (one.name, one.control.host) == (dead.name, dead.control.host)
        for one in alive
    )


def exclusion_text(reason: int) -> str:
    """The name of an exclusion reason, which people read and `docs/guides/systems.md` explains."""
    try:
        return ExclusionReason(reason).name.lower().replace("_", " ")
    except ValueError:
        return f"reason {reason}"  # of a later version


def _node(entry: NodeEntry, node_types: NodeTypes) -> Any:
    node_type = node_types.by_id(entry.type_id)
    is_light = node_type is not None and node_type.light
    made: Any = internal_class("SkerryNode")(
        id=entry.node,
        name=entry.name,
        kind="light" if is_light else "full",
        isDead=entry.is_dead,
        generation=entry.generation,
        nodeType="" if node_type is None else node_type.name,
    )
    if entry.control.host:
        made.control, made.data = entry.control.text, entry.data.text
    if entry.is_dead:
        made.reason = exclusion_text(entry.dead_reason)
    return made


def _observation(observer: NodeEntry, entry: NodeEntry) -> Any:
    counters = entry.counters
    made: Any = internal_class("SkerryRawStatistics")(
        observer=observer.node,
        node=entry.node,
        observerName=observer.name,
        nodeName=entry.name,
        isDead=entry.is_dead,
        controlReceived=counters.control_received_count,
        controlDuplicates=counters.control_duplicate_count,
        controlRetransmissions=counters.control_retransmission_count,
        dataReceived=counters.data_received_count,
        dataDuplicates=counters.data_duplicate_count,
        dataRetransmissions=counters.data_retransmission_count,
        roundTripTime=counters.round_trip_us / _US,
        lag=counters.lag_ms / _MS,
        backlogBytes=counters.backlog_bytes,
    )
    if entry.is_dead:
        made.reason = exclusion_text(entry.dead_reason)
    return made


def _add_own_observation(made: Any, tracked: TrackedNode, now_ns: int) -> None:
    """Add what this node does not send to the others."""
    if tracked.clock_offset_ns is not None:
        made.clockOffset = tracked.clock_offset_ns / _NS
    received_ns = tracked.control.received_ns
    if received_ns is not None:
        made.silence = max(now_ns - received_ns, 0) / _NS
