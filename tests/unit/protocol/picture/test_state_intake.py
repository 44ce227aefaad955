"""Which states a node accepts."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.picture.bodies import ElectionAction, ElectionMessage
from skerry.protocol.picture.election import Election
from skerry.protocol.picture.entries import NodeEntry, SystemState
from skerry.protocol.picture.raw_table import RawTable
from skerry.protocol.picture.state_intake import StateIntake


@pytest.fixture
def intake(table: RawTable, server: NodeType, types: NodeTypes) -> StateIntake:
    """That of node 5, which follows election 40 of node 7."""
    election = Election(table, server, types, Random(1), 0, is_candidate=lambda: True)
    election.received(7, ElectionMessage(action=ElectionAction.VICTORY, election_id=40), 0)
    return StateIntake(election, server, 5)


def state(
    *nodes: NodeEntry, elected: int = 7, election: int = 40, sequence: int = 2
) -> SystemState:
    return SystemState(
        elected_id=elected, election_id=election, sequence=sequence, nodes=nodes
    ).sealed()


def test_only_states_of_the_elected_node_and_its_election_are_current(intake: StateIntake) -> None:
    assert intake.is_current(7, state(), None)
    assert not intake.is_current(3, state(), None)
    assert not intake.is_current(7, state(elected=3), None)
    assert not intake.is_current(7, state(election=41), None)


def test_an_older_state_of_the_same_election_is_not_current(intake: StateIntake) -> None:
    assert not intake.is_current(7, state(sequence=2), state(sequence=3))
    assert intake.is_current(7, state(sequence=2), state(sequence=2))
    assert intake.is_current(7, state(sequence=2), state(sequence=3, election=39))


def test_a_node_leaves_that_is_dead_in_the_state(
    intake: StateIntake, entry: Callable[..., NodeEntry]
) -> None:
    assert intake.reason_to_leave(state(entry(5)), 0) is None
    dead = entry(5, is_dead=True, dead_reason=ExclusionReason.SLOW)
    assert intake.reason_to_leave(state(dead), 0) == ExclusionReason.SLOW
    dead = entry(5, is_dead=True)
    assert intake.reason_to_leave(state(dead), 0) == ExclusionReason.COORDINATOR


def test_a_node_leaves_that_has_been_missing_often_and_for_long(
    intake: StateIntake, entry: Callable[..., NodeEntry], server: NodeType
) -> None:
    long_ns = 2 * server.dead_timeout_ns
    assert [intake.reason_to_leave(state(), now_ns) for now_ns in (0, 1, 2)] == [0, 0, 0]
    assert intake.reason_to_leave(state(entry(5)), 3) is None
    answers = [intake.reason_to_leave(state(), now_ns) for now_ns in (10, 10 + long_ns)]
    assert answers == [0, 0]
    assert intake.reason_to_leave(state(), 11 + long_ns) == ExclusionReason.COORDINATOR


def test_of_contradictory_entries_the_later_generation_counts_then_death(
    entry: Callable[..., NodeEntry],
) -> None:
    one, dead, returned = entry(3), entry(3, is_dead=True), entry(3, generation=1)
    assert state(one, dead).reconciled().nodes == (dead,)
    assert state(one, dead, returned).reconciled().nodes == (returned,)
    whole = state(one, entry(5))
    assert whole.reconciled() is whole
    assert whole.is_same_as(state(sequence=2))
    assert not whole.is_same_as(state(sequence=3))
