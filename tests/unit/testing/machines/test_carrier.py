"""The scenario of carriers, and what its checker says to right and wrong."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.engine.carriage.distributor.events import MessagesGivenUp
from skerry.protocol.distributor.events import LossReason, SenderInfo, UpdatesLost
from skerry.testing import World
from skerry.testing.machines.carrier import MessagesInOrder, make_host, play_carrier
from skerry.testing.machines.carrier_host import MessageHeard
from skerry.testing.machines.distributor import GROUP


@pytest.fixture
def world() -> World:
    return World(1)


@pytest.fixture
def nodes(world: World) -> list[Any]:
    return [world.add(f"node-{number}", make_host, groups=[GROUP]) for number in range(2)]


def heard(type_name: str, who: str, number: int) -> MessageHeard:
    # Tag 1 is who, tag 2 the number, in every type.
    payload = bytes([0xA2, 1, 0x60 + len(who)]) + who.encode() + bytes([2, number])
    return MessageHeard(
        program="program", type_name=type_name, subject="", sender=2, payload=payload
    )


def test_order_and_gaps_are_watched(nodes: list[Any]) -> None:
    checker = MessagesInOrder()
    for number in (3, 4):
        assert checker.observed(nodes[0], heard("Call", "node-1/1", number)) is None
    again = checker.observed(nodes[0], heard("Call", "node-1/1", 4))
    assert again == "node-0 received Call 4 of node-1/1 again"
    missed = checker.observed(nodes[0], heard("Call", "node-1/1", 7))
    assert missed == "node-0 misses Call 5 of node-1/1"


def test_a_reported_loss_excuses_one_gap(nodes: list[Any]) -> None:
    checker = MessagesInOrder()
    checker.published(nodes[1], "Call", 9)
    identity = nodes[1].machine.identity
    sender = SenderInfo(
        address=".".join(map(str, identity.address)),
        sender_id=identity.sender_id,
        start=identity.start_ms,
        application_id=0,
    )
    lost = UpdatesLost(sender=sender, first_seq=1, stop_seq=2, reason=LossReason.NAK)
    given_up = MessagesGivenUp(type_name="Call", message_count=1)
    assert checker.observed(nodes[0], heard("Call", "node-1/1", 0)) is None
    for event, number in ((lost, 2), (given_up, 4)):
        assert checker.observed(nodes[0], event) is None
        assert checker.observed(nodes[0], heard("Call", "node-1/1", number)) is None
    assert checker.observed(nodes[0], heard("Call", "node-1/1", 6)) is not None


def test_messages_of_server_scope_stay_at_their_node(nodes: list[Any]) -> None:
    checker = MessagesInOrder()
    assert checker.observed(nodes[1], heard("Home", "node-1/1", 0)) is None
    assert checker.observed(nodes[0], heard("Home", "node-1/1", 0)) is not None


def test_all_nodes_receive_the_last_message(world: World, nodes: list[Any]) -> None:
    checker = MessagesInOrder()
    checker.published(nodes[1], "Call", 3)
    assert checker.liveness(world) == "node-0 received Call -1 of node-1/1, whose last is 3"
    for node in nodes:
        checker.observed(node, heard("Call", "node-1/1", 3))
    assert checker.liveness(world) is None


@pytest.mark.slow
def test_the_scenario_holds() -> None:
    play_carrier(World(5), 2)
