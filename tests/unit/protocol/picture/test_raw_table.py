"""What a node knows of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import HEARTBEAT_SLACK_NS, NodeType
from skerry.protocol.picture.entries import (
    MORE_DEAD_COUNT_MAX,
    NodeEntry,
    RawStatistics,
    SystemState,
)
from skerry.protocol.picture.liveness import DEAF_TRANSMISSION_COUNT, ChannelHealth
from skerry.protocol.picture.raw_table import RawTable, TrackedNode

Entries = Callable[..., NodeEntry]
MINUTE = 60_000_000_000


def test_a_dead_node_is_never_alive_again(
    table: RawTable, entry: Entries, server: NodeType
) -> None:
    table.kill(table.nodes[3], ExclusionReason.SILENT, 0)
    table.expire(5 * MINUTE)
    assert list(table.more_dead) == [3]
    tracked = table.add(entry(3), server, 6 * MINUTE)
    assert isinstance(tracked, TrackedNode)
    assert tracked.is_dead
    assert table.dead_count == 2


def test_a_node_that_was_refused_is_forgotten_and_not_learned_again(
    table: RawTable, entry: Entries, server: NodeType
) -> None:
    refused = table.add(entry(9), server, 0)
    table.kill(refused, ExclusionReason.CLOCK, 0)
    table.expire(5 * MINUTE)
    assert not table.dead_count
    # Another node has not forgotten it yet.
    assert not table.add_dead(refused.entry, 5 * MINUTE)
    assert not table.merge_more_dead([9])


def test_a_light_node_that_was_dead_for_long_is_forgotten(
    table: RawTable, entry: Entries, light: NodeType
) -> None:
    table.kill(table.add(entry(9, light), light, 0), ExclusionReason.SILENT, 0)
    table.expire(5 * MINUTE)
    assert 9 not in table.nodes
    assert not table.more_dead


def test_a_light_node_returns_with_the_next_generation(
    table: RawTable, entry: Entries, light: NodeType
) -> None:
    tracked = table.add(entry(9, light), light, 0)
    for is_stated_dead, generation in ((False, 4), (True, 5), (False, 5)):
        stated = entry(9, light, is_dead=is_stated_dead)
        state = SystemState(
            elected_id=7, election_id=1, sequence=1, nodes=(replace(stated, generation=4),)
        )
        table.kill(tracked, ExclusionReason.SILENT, 0)
        table.revive(tracked, state, 7)
        assert (tracked.is_dead, tracked.since_ns) == (False, 7)
        assert tracked.entry.generation == generation


def raw(me: NodeEntry, *nodes: NodeEntry) -> RawStatistics:
    return RawStatistics(me=me, nodes=nodes)


def test_a_light_node_returns_in_a_later_generation_than_any_death_of_it(
    table: RawTable, entry: Entries, light: NodeType
) -> None:
    """So that no death which another node still names is taken for one of this life."""
    dead = entry(9, light, is_dead=True, generation=3)
    table.raw_received(table.nodes[3], raw(entry(3), dead))
    table.raw_received(table.nodes[7], raw(entry(7), replace(dead, generation=2)))
    tracked = table.add(entry(9, light), light, 0)
    assert tracked.entry.generation == 4
    table.kill(tracked, ExclusionReason.SILENT, 0)
    table.raw_received(table.nodes[3], raw(entry(3), replace(dead, generation=6)))
    table.revive(tracked, None, 7)
    assert tracked.entry.generation == 7


def test_nodes_agree_on_the_generation_of_a_light_node_that_is_alive(
    table: RawTable, entry: Entries, light: NodeType
) -> None:
    tracked = table.add(entry(9, light), light, 0)
    other = table.add(entry(8, light), light, 0)
    table.raw_received(table.nodes[3], raw(entry(3), entry(9, light, generation=2)))
    table.raw_received(table.nodes[7], raw(entry(7), entry(9, light, generation=1)))
    table.raw_received(other, raw(entry(8, light), entry(9, light, generation=5)))
    assert tracked.entry.generation == 2, "what light nodes say of each other does not count"
    table.kill(tracked, ExclusionReason.SILENT, 0)
    table.raw_received(table.nodes[3], raw(entry(3), entry(9, light, generation=4)))
    assert tracked.entry.generation == 2


def test_a_forgotten_node_is_not_learned_again_for_a_while(table: RawTable, entry: Entries) -> None:
    table.kill(table.nodes[3], ExclusionReason.SILENT, 0)
    assert table.forget([3, 7, 99], 0) == [3]  # Node 7 is alive, and node 99 unknown.
    assert not table.add_dead(entry(3, is_dead=True), 1)
    assert table.merge_more_dead([3, 99, 5, 7, 20]) == [20]
    table.expire(2 * MINUTE)
    assert table.add_dead(entry(3, is_dead=True), 2 * MINUTE)


def test_the_oldest_of_too_many_dead_ids_is_forgotten(table: RawTable) -> None:
    table.merge_more_dead(range(1000, 1000 + MORE_DEAD_COUNT_MAX + 1))
    assert len(table.more_dead) == MORE_DEAD_COUNT_MAX
    assert 1000 not in table.more_dead


def test_all_nodes_are_known_when_those_of_the_others_are(table: RawTable, entry: Entries) -> None:
    table.nodes[3].raw_received(RawStatistics(me=entry(3), nodes=(entry(5), entry(7))))
    assert table.knows_all()
    table.nodes[7].raw_received(RawStatistics(me=entry(7), nodes=(entry(8),)))
    assert not table.knows_all()
    dead = entry(8, is_dead=True)
    table.nodes[7].raw_received(RawStatistics(me=entry(7), nodes=(dead,)))
    assert table.knows_all()


@pytest.mark.parametrize(
    ("offsets_s", "is_wrong"),
    [((None, None), False), ((0, 61), False), ((61, 61), True), ((-61, None), False)],
)
def test_the_own_clock_is_wrong_if_most_others_differ(
    table: RawTable, offsets_s: tuple[int | None, ...], is_wrong: bool
) -> None:
    for node, offset_s in zip((3, 7), offsets_s, strict=True):
        if offset_s is not None:
            table.nodes[node].clock_offset_ns = offset_s * 1_000_000_000
    assert table.is_clock_wrong() == is_wrong
    is_right = all(offset_s is not None and abs(offset_s) <= 60 for offset_s in offsets_s)
    assert table.knows_all(has_right_clocks=True) == is_right
    assert table.knows_all()


def test_a_silent_node_is_found_dead(table: RawTable, server: NodeType) -> None:
    heard = ChannelHealth(received_count=100, received_ns=0)
    table.health({3: heard, 7: heard, 99: heard}, {})
    now_ns = server.dead_timeout_ns + 1
    table.health({7: ChannelHealth(received_count=100, received_ns=now_ns)}, {})
    found = [(one.entry.node, reason) for one, reason in table.found_dead(now_ns)]
    assert found == [(3, ExclusionReason.SILENT)]


def test_a_node_that_acknowledges_nothing_is_deaf_only_if_it_still_sends(
    table: RawTable, server: NodeType
) -> None:
    now_ns = 3 * server.heartbeat_ns
    deaf = ChannelHealth(
        received_count=100, received_ns=now_ns, unanswered_count=DEAF_TRANSMISSION_COUNT
    )
    crashed_ns = now_ns - 2 * (server.heartbeat_ns + HEARTBEAT_SLACK_NS) - 1
    table.health({3: deaf, 7: replace(deaf, received_ns=crashed_ns)}, {})
    found = {one.entry.node: reason for one, reason in table.found_dead(now_ns)}
    assert found == {3: ExclusionReason.UNANSWERED}
    later = table.found_dead(crashed_ns + server.dead_timeout_ns + 1)
    assert (table.nodes[7], ExclusionReason.SILENT) in later


def test_nodes_alive_are_counted_by_the_state_and_the_table(
    table: RawTable, entry: Entries
) -> None:
    nodes = (entry(3), entry(5), entry(7, is_dead=True), entry(8))
    state = SystemState(elected_id=7, election_id=1, sequence=1, nodes=nodes)
    assert table.alive_count(None) == 1
    assert table.alive_count(state) == 2  # Node 8 is unknown here.


def test_raw_statistics_have_the_counters_of_both_channels(table: RawTable) -> None:
    control = ChannelHealth(received_count=4, round_trip_ns=2_500, backlog_bytes=10)
    data = ChannelHealth(received_count=6, lag_ns=3_000_000, backlog_bytes=5)
    table.health({3: control}, {3: data})
    raw = table.statistics(11, 12)
    counters = next(one for one in raw.nodes if one.node == 3).counters
    assert (counters.control_received_count, counters.data_received_count) == (4, 6)
    assert (counters.round_trip_us, counters.lag_ms, counters.backlog_bytes) == (2, 3, 15)
    assert (raw.election_id, raw.incarnation_id) == (11, 12)
