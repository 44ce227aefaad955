"""The election as one node sees it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.picture.bodies import ElectionAction, ElectionMessage
from skerry.protocol.picture.election import Election
from skerry.protocol.picture.entries import NodeEntry
from skerry.protocol.picture.raw_table import RawTable

SECOND = 1_000_000_000


@pytest.fixture
def election(table: RawTable, server: NodeType, types: NodeTypes) -> Election:
    return Election(
        table, server, types, Random(1), 0, is_candidate=lambda: True, alone_timeout_ns=SECOND
    )


def message(action: ElectionAction, election_id: int = 1) -> ElectionMessage:
    return ElectionMessage(action=action, election_id=election_id)


def inquiry_of(election: Election, now_ns: int) -> int:
    election.advance(now_ns)
    ((to, sent),) = election.take_outgoing()
    assert (to, sent.action) == (None, ElectionAction.INQUIRY)
    return sent.election_id


def test_a_node_that_no_higher_one_answers_declares_itself(election: Election) -> None:
    inquiry_id = inquiry_of(election, SECOND)
    deadline_ns = election.deadline_ns()
    assert deadline_ns is not None
    election.advance(deadline_ns)
    assert election.is_elected
    assert election.election_id == inquiry_id
    assert election.take_outgoing() == [(True, message(ElectionAction.VICTORY, inquiry_id))]


def test_a_higher_node_that_answers_is_awaited(election: Election) -> None:
    inquiry_id = inquiry_of(election, SECOND)
    election.received(7, message(ElectionAction.ALIVE, inquiry_id), SECOND)
    election.advance(2 * SECOND)
    assert not election.is_elected
    election.received(7, message(ElectionAction.VICTORY, 40), 2 * SECOND)
    assert (election.elected_id, election.election_id, election.count) == (7, 40, 1)


def test_a_lower_node_that_asks_is_answered_and_contested(election: Election) -> None:
    election.received(3, message(ElectionAction.INQUIRY, 9), 0)
    first, second = election.take_outgoing()
    assert first == (3, message(ElectionAction.ALIVE, 9))
    assert second[1].action is ElectionAction.INQUIRY


def test_the_victory_of_a_lower_node_is_contested(election: Election) -> None:
    election.received(3, message(ElectionAction.VICTORY, 9), 0)
    assert election.elected_id == 0
    assert election.take_outgoing()


def test_messages_of_dead_and_unknown_nodes_are_ignored(
    election: Election, table: RawTable
) -> None:
    table.kill(table.nodes[7], ExclusionReason.SILENT, 0)
    for sender in (7, 99):
        election.received(sender, message(ElectionAction.VICTORY), 0)
    assert election.elected_id == 0


def test_the_death_of_the_elected_node_leads_to_an_election(
    election: Election, table: RawTable
) -> None:
    election.received(7, message(ElectionAction.VICTORY, 40), 0)
    table.kill(table.nodes[7], ExclusionReason.SILENT, 0)
    election.changed(2 * SECOND)
    assert inquiry_of(election, 4 * SECOND)


def test_a_node_that_keeps_to_another_election_forces_a_new_one(
    election: Election, table: RawTable
) -> None:
    election.received(7, message(ElectionAction.VICTORY, 40), 0)
    election.advance(2 * SECOND)
    tracked = table.nodes[3]
    for election_id in (41, 42, 41, 41):
        election.compare(tracked, election_id, 2 * SECOND)
        assert election.deadline_ns() is None
    election.compare(tracked, 40, 2 * SECOND)
    for _ in range(3):
        election.compare(tracked, 41, 2 * SECOND)
    assert inquiry_of(election, 4 * SECOND)


def test_the_elected_node_declares_itself_again_to_a_node_that_knows_of_no_election(
    election: Election, table: RawTable
) -> None:
    """The node has entered the system after the victory was sent."""
    table.kill(table.nodes[7], ExclusionReason.SILENT, 0)
    election.elect_self()
    election.advance(60 * SECOND)
    election.take_outgoing()
    election.compare(table.nodes[3], election.election_id, 60 * SECOND)
    assert election.deadline_ns() is None
    election.compare(table.nodes[3], 0, 60 * SECOND)
    election.advance(61 * SECOND)
    victory = message(ElectionAction.VICTORY, election.election_id)
    assert election.take_outgoing() == [(True, victory)]


def test_a_light_node_accepts_what_is_declared(
    entry: Callable[..., NodeEntry], light: NodeType, server: NodeType, types: NodeTypes
) -> None:
    table = RawTable(entry(9, light), light, types)
    table.add(entry(3), server, 0)
    election = Election(table, light, types, Random(1), 0, is_candidate=lambda: True)
    assert election.deadline_ns() is None
    election.received(3, message(ElectionAction.INQUIRY), 0)
    assert election.take_outgoing() == []
    election.received(3, message(ElectionAction.VICTORY, 8), 0)
    assert election.elected_id == 3


def test_the_elected_node_decides_between_two_that_exclude_each_other(
    election: Election, table: RawTable
) -> None:
    election.received(7, message(ElectionAction.VICTORY, 40), 0)
    assert election.is_lost_to(7, elected=7)
    assert not election.is_lost_to(3, elected=7)
    assert not election.is_lost_to(7, elected=3)
    table.kill(table.nodes[7], ExclusionReason.SILENT, 0)
    assert election.is_lost_to(3, elected=7)
