"""The machine of the picture: its decisions about single nodes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.picture.bodies import RAW, STATE, write_raw, write_state
from skerry.protocol.picture.entries import NodeEntry, RawStatistics, SystemState
from skerry.protocol.picture.events import (
    Ejected,
    Exclude,
    Forget,
    Include,
    NodeDead,
    PictureStatistics,
    StateContradicts,
)
from skerry.protocol.picture.liveness import ChannelHealth
from skerry.protocol.picture.picture import PictureMachine

Entries = Callable[..., NodeEntry]
SECOND = 1_000_000_000


def machine(entry: Entries, server: NodeType, types: NodeTypes, **fields: Any) -> PictureMachine:
    return PictureMachine(
        me=entry(5), own_type=server, node_types=types, rng=Random(1), now_ns=0, **fields
    )


def taken(picture: PictureMachine, kind: type) -> list[Any]:
    return [
        one for one in [*picture.take_actions(), *picture.take_events()] if isinstance(one, kind)
    ]


def test_a_found_node_is_included_and_a_dead_one_never_again(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types)
    picture.node_found(entry(3), 0)
    picture.node_found(entry(3), 0)
    assert taken(picture, Include) == [Include(node=3)]
    picture.stalled(3, ExclusionReason.ORDERED, 1)
    picture.node_found(entry(3), 2)
    assert taken(picture, Include) == []
    picture.stalled(3, ExclusionReason.ORDERED, 3)
    assert picture.statistics().dead_count == 1


def test_raw_statistics_are_sent_less_often_by_each_of_many_nodes(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    for count, sent_count in ((40, 20), (100, 10)):
        picture = machine(entry, server, types)
        for node in range(100, 100 + count):
            picture.node_found(entry(node), 0)
        counts = []
        for second in range(1, 701):
            # Nothing is heard of the others, and they are not looked at.
            picture._check_ns = 1000 * SECOND
            picture.advance(second * SECOND)
            counts.append(picture.statistics().raw_sent_count)
        assert counts[699] - counts[99] == sent_count


def test_changes_within_200_milliseconds_are_sent_together(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types)
    counts = []
    for tick in range(60):
        if tick < 10:
            picture.node_found(entry(100 + tick), tick * SECOND // 100)
        picture.advance(tick * SECOND // 100)
        counts.append(picture.statistics().raw_sent_count)
    assert counts[19] == 0, "200 ms after the first change"
    assert counts[20:] == [1] * 40, "also of those that came later"


def test_a_stalled_node_is_excluded_with_the_reason(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types)
    picture.node_found(entry(3), 0)
    picture.stalled(3, ExclusionReason.SLOW, 1)
    assert Exclude(node=3, reason=ExclusionReason.SLOW) in picture.take_actions()
    (dead,) = [one for one in picture.take_events() if isinstance(one, NodeDead)]
    assert (dead.entry.node, dead.entry.dead_reason, dead.by) == (3, ExclusionReason.SLOW, 5)
    assert picture.forget([3, 7], 2) == [3]
    assert taken(picture, Forget) == [Forget(nodes=(3,))]


def test_a_node_that_is_vetoed_is_excluded(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types, is_vetoed=lambda one: one.node == 3)
    for node in (3, 4):
        picture.node_found(entry(node), 0)
    actions = picture.take_actions()
    assert actions == [Exclude(node=3, reason=ExclusionReason.VETO), Include(node=4)]


def test_nonsense_is_counted_and_harms_nothing(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types)
    picture.node_found(entry(3), 0)
    picture.received(3, RAW, b"\xff\xff", 0)
    picture.received(3, 12345, b"", 0)
    picture.received(99, RAW, write_raw(RawStatistics(me=entry(99))), 0)
    statistics = picture.statistics()
    assert isinstance(statistics, PictureStatistics)
    assert (statistics.ignored_count, statistics.raw_received_count) == (3, 0)


def alone(picture: PictureMachine) -> int:
    """Let a node form a system, and return its incarnation."""
    for now_ns in range(0, 60 * SECOND, SECOND // 10):
        picture.advance(now_ns)
        if picture.state is not None:
            return picture.membership.incarnation_id
    raise AssertionError("it has formed no system")


def test_a_node_alone_forms_a_system_of_its_own(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types)
    assert alone(picture)
    assert picture.state is not None
    assert [one.node for one in picture.state.alive()] == [5]
    assert picture.size == 1


def test_a_node_of_another_incarnation_is_excluded(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types)
    incarnation = alone(picture)
    picture.node_found(entry(3), 60 * SECOND)
    picture.take_actions()
    raw = RawStatistics(me=entry(3), incarnation_id=incarnation + 1)
    picture.received(3, RAW, write_raw(raw), 60 * SECOND)
    assert Exclude(node=3, reason=ExclusionReason.INCARNATION) in picture.take_actions()


def test_a_node_that_a_system_refuses_before_it_belongs_to_one_leaves(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types)
    for _ in range(2):
        picture.refused_by(3, ExclusionReason.CLOCK, 0, incarnation_id=8, size=4, elected=7)
    assert taken(picture, Ejected) == [Ejected(reason=ExclusionReason.CLOCK, by=3)]


@pytest.mark.parametrize(
    ("given", "noted"), [("SILENT", "UNANSWERED"), ("UNANSWERED", "UNANSWERED"), ("SLOW", "SLOW")]
)
def test_a_node_for_which_this_one_is_silent_is_deaf(
    entry: Entries, server: NodeType, types: NodeTypes, given: str, noted: str
) -> None:
    picture = machine(entry, server, types)
    picture.node_found(entry(3), 0)
    picture.refused_by(3, ExclusionReason[given], 0, incarnation_id=0, size=0, elected=0)
    (dead,) = taken(picture, NodeDead)
    assert dead.entry.dead_reason == ExclusionReason[noted]


def test_a_state_of_a_node_that_is_not_elected_is_ignored(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types)
    alone(picture)
    before = picture.state
    picture.node_found(entry(3), 60 * SECOND)
    state = SystemState(elected_id=3, election_id=1, sequence=9, nodes=(entry(3),)).sealed()
    picture.received(3, STATE, write_state(state), 60 * SECOND)
    assert picture.state is before
    assert picture.statistics().ignored_count == 1


def test_a_clock_that_differs_too_much_bars_a_node_that_joins(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types, clock_skew_ns_max=SECOND)
    alone(picture)
    for node, offset_ns in ((3, SECOND), (4, -SECOND - 1)):
        picture.node_found(entry(node), 60 * SECOND)
        picture.clock_measured(node, offset_ns)
    picture.advance(62 * SECOND)
    excluded = [one for one in picture.take_actions() if isinstance(one, Exclude)]
    assert excluded == [Exclude(node=4, reason=ExclusionReason.CLOCK)]


def test_fs_34_of_a_node_that_is_alive_and_dead_in_a_state_death_counts(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types)
    for node in (3, 9):
        picture.node_found(entry(node), 0)
    picture.received(9, RAW, write_raw(RawStatistics(me=entry(9), incarnation_id=1)), 0)
    picture.election._accept(9, 2)
    nodes = (entry(3), entry(5), entry(9), entry(3, is_dead=True, dead_reason=3))
    state = SystemState(elected_id=9, election_id=2, sequence=1, nodes=nodes)
    picture.take_actions()
    for _ in range(2):
        picture.received(9, STATE, write_state(state), 1)
    assert picture.take_actions() == [Exclude(node=3, reason=ExclusionReason.SLOW)]
    events = picture.take_events()
    assert [one for one in events if isinstance(one, StateContradicts)] == [StateContradicts(by=9)]
    assert picture.state is not None
    assert [one.is_dead for one in picture.state.nodes] == [True, False, False]


def test_dead_nodes_of_which_another_one_tells_are_refused(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types)
    picture.node_found(entry(3), 0)
    raw = RawStatistics(me=entry(3), incarnation_id=1, more_dead=(5, 77))
    picture.take_actions()
    picture.received(3, RAW, write_raw(raw), 0)
    refusal = Exclude(node=77, reason=ExclusionReason.COORDINATOR)
    assert picture.take_actions() == [refusal], "and not this node itself"
    picture.node_found(entry(77), 0)
    assert picture.take_actions() == [refusal]


def test_sixty_updates_without_a_state_force_an_election(
    entry: Entries, server: NodeType, types: NodeTypes
) -> None:
    picture = machine(entry, server, types)
    incarnation = alone(picture)
    me, now_ns = entry(5), 60 * SECOND
    picture.node_found(entry(3), now_ns)
    picture.clock_measured(3, 0)

    def follow(election_id: int, until_ns: int) -> int:
        """Let node 3 follow an election; return how many there were."""
        nonlocal now_ns
        raw = RawStatistics(
            me=entry(3), election_id=election_id, incarnation_id=incarnation, nodes=(me,)
        )
        before = picture.statistics().election_count
        while now_ns < until_ns:
            now_ns += SECOND
            health = ChannelHealth(received_count=99, received_ns=now_ns, multicast_ns=now_ns)
            picture.table.health({3: health}, {3: health})
            picture.received(3, RAW, write_raw(raw), now_ns)
            picture.advance(now_ns)
        return picture.statistics().election_count - before

    assert follow(picture.election.election_id, 70 * SECOND) == 0
    assert picture.size == 2
    assert follow(0, 99 * SECOND) == 0, "it names no election, as if it had just started"
    assert follow(0, 140 * SECOND) == 1
