"""The states that the elected node makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import NodeType
from skerry.protocol.picture.entries import NodeEntry, RawStatistics, SystemState
from skerry.protocol.picture.production import Production, Proposal
from skerry.protocol.picture.raw_table import RawTable

Entries = Callable[..., NodeEntry]
ELECTION = 11
SECOND = 1_000_000_000


def dead_nodes(proposal: Proposal) -> list[int]:
    return [tracked.entry.node for tracked, _ in proposal.dead]


def follow(table: RawTable, entry: Entries, **dead: int) -> None:
    """Let all nodes see each other; `n3=7` lets node 3 call node 7 dead."""
    everyone = [table.me.node, *table.nodes]
    for node, tracked in table.nodes.items():
        accused = dead.get(f"n{node}")
        nodes = tuple(entry(other, is_dead=other == accused) for other in everyone if other != node)
        tracked.raw_received(RawStatistics(me=entry(node), election_id=ELECTION, nodes=nodes))
        tracked.clock_offset_ns = 0


def propose(production: Production, last: SystemState | None = None, now_ns: int = 0) -> Proposal:
    return production.propose(last, ELECTION, now_ns, is_detached=False)


def test_there_is_no_state_before_all_follow_the_election(table: RawTable, entry: Entries) -> None:
    production = Production(table)
    assert propose(production).state is None
    assert production.failed_count == 1
    follow(table, entry)
    state = propose(production).state
    assert state is not None
    assert [one.node for one in state.alive()] == [3, 5, 7]
    assert production.failed_count == 0


def test_the_same_nodes_are_the_same_state(table: RawTable, entry: Entries) -> None:
    production = Production(table)
    follow(table, entry)
    first = propose(production).state
    assert first is not None
    assert propose(production, first).state is first
    table.kill(table.nodes[3], ExclusionReason.SILENT, 0)
    second = propose(production, first).state
    assert second is not None
    assert second.sequence == first.sequence + 1
    assert second.digest != first.digest


def test_a_node_that_joins_is_admitted_when_all_see_each_other(
    table: RawTable, entry: Entries, server: NodeType
) -> None:
    production = Production(table)
    follow(table, entry)
    first = propose(production).state
    table.add(entry(9), server, 0)
    follow(table, entry)
    table.nodes[9].clock_offset_ns = None
    assert propose(production, first).state is first
    table.nodes[9].clock_offset_ns = 0
    joined = propose(production, first).state
    assert joined is not None
    assert joined.entry(9) is not None


def test_an_accused_node_is_excluded_if_the_accusation_lasts(
    table: RawTable, entry: Entries
) -> None:
    production = Production(table)
    follow(table, entry, n3=7)
    assert propose(production).dead == []
    # Of two that accuse each other, or one the other, the lower one goes.
    assert dead_nodes(propose(production, now_ns=2 * SECOND)) == [3]


def test_a_node_that_joins_costs_no_member_its_place(
    table: RawTable, entry: Entries, server: NodeType
) -> None:
    production = Production(table)
    follow(table, entry)
    first = propose(production).state
    # It is higher than the node that it accuses, which has most accusations.
    table.add(entry(9), server, 0)
    follow(table, entry, n9=3, n3=7)
    propose(production, first)
    assert dead_nodes(propose(production, first, now_ns=2 * SECOND)) == [9, 3]
    assert dead_nodes(propose(production, now_ns=4 * SECOND)) == [3]


def test_a_light_node_that_has_returned_is_not_accused_of_its_old_death(
    table: RawTable, entry: Entries, light: NodeType
) -> None:
    tracked = table.add(entry(9, light), light, 0)
    tracked.entry = replace(tracked.entry, generation=1)
    production = Production(table)
    follow(table, entry, n3=9, n7=9)
    for number in range(3):
        assert propose(production, now_ns=2 * number * SECOND).dead == []
    tracked.entry = replace(tracked.entry, generation=0)
    for late in (100, 102):
        dead = dead_nodes(propose(production, now_ns=late * SECOND))
    assert dead == [9]


def test_the_reason_of_a_refusal_is_adopted(
    table: RawTable, entry: Entries, server: NodeType
) -> None:
    production = Production(table)
    follow(table, entry)
    first = propose(production).state
    table.add(entry(9), server, 0)
    for reason, adopted in (
        (ExclusionReason.CLOCK, ExclusionReason.CLOCK),
        (ExclusionReason.SILENT, ExclusionReason.COORDINATOR),
    ):
        follow(table, entry)
        accused = entry(9, is_dead=True, dead_reason=reason)
        table.raw_received(table.nodes[3], RawStatistics(me=entry(3), nodes=(accused,)))
        propose(production, first)
        found = propose(production, first, now_ns=2 * SECOND).dead
        assert found == [(table.nodes[9], adopted)]


def test_a_node_that_is_dead_for_all_and_was_never_known_is_learned(
    table: RawTable, entry: Entries
) -> None:
    production = Production(table)
    follow(table, entry)
    gone = entry(99, is_dead=True)
    nodes = (entry(5), entry(7), gone)
    table.nodes[3].raw_received(RawStatistics(me=entry(3), election_id=ELECTION, nodes=nodes))
    assert propose(production).learned == [gone]
