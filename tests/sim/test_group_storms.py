"""The scenarios of storms and short lives hold with few nodes, and their checkers count right."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.events import Delivered, LossReason, SenderInfo, UpdatesLost
from skerry.protocol.distributor.messages import (
    REQUEST,
    RETRANSMISSION,
    UPDATE,
    DatagramHeader,
    RepairRequest,
    UpdateMessage,
)
from skerry.protocol.distributor.receiving.updates import Updates
from skerry.protocol.distributor.wire import JAVA_WIRE
from skerry.testing import World, run_scenario
from skerry.testing.node import Node, Setting
from skerry.testing.packet import MULTICAST, Packet
from tests.sim import group_storms
from tests.sim.distributor import GROUP, make_connection
from tests.sim.group_storms import AllAccounted, RepairCounts
from tests.sim.probe import Probe

STORM = f"{group_storms.__name__}:group_storm"
SHORT_LIVES = f"{group_storms.__name__}:group_short_lives"


@pytest.fixture
def node() -> Node[Any]:
    return World(1).add("node", Probe)


def datagram(node: Node[Any], kind: int) -> Packet:
    header = DatagramHeader(
        kind=kind, address=b"\x0a\0\0\1", sender_id=1, start=2, application_id=3
    )
    message = UpdateMessage(header=header, seq=1, count=0, body=b"")
    return Packet(node, node, JAVA_WIRE.encode(message), 0, MULTICAST, 0)


def test_the_storm_holds_with_few_receivers() -> None:
    outcome = run_scenario(STORM, 1, node_count=4)
    assert outcome.error is None
    assert outcome.fault_count == 300


def test_short_lives_hold_with_few_publishers() -> None:
    outcome = run_scenario(SHORT_LIVES, 1, node_count=6)
    assert outcome.error is None
    assert outcome.fault_count > 20


def test_publishers_with_unreported_losses_are_named(node: Node[Any]) -> None:
    def publisher(setting: Setting) -> Any:
        connection = make_connection(setting, DistributorConfig())
        connection.open_publisher(setting.now_ns)
        return connection

    sending = World(1).add("pub", publisher, groups=[GROUP])
    mine = sending.machine.identity
    sender = SenderInfo(
        address=".".join(map(str, mine.address)),
        sender_id=mine.sender_id,
        start=mine.start_ms,
        application_id=mine.application_id,
    )
    checker = AllAccounted()
    checker.published(sending, 2)
    assert checker.missing(node) == ["pub"]
    checker.observed(node, Delivered(sender=sender, batch=Updates([("/a", b"0")])))
    assert checker.missing(node) == ["pub"]
    loss = UpdatesLost(sender=sender, first_seq=2, stop_seq=3, reason=LossReason.REMOVED)
    checker.observed(node, loss)
    assert checker.missing(node) == []
    assert checker.lost_count == 1


def test_requests_and_repairs_are_counted_at_one_node(node: Node[Any]) -> None:
    checker = RepairCounts("node")
    request = RepairRequest(
        header=DatagramHeader(
            kind=REQUEST, address=bytes(4), sender_id=1, start=2, application_id=3
        ),
        address=bytes(4),
        target_id=1,
        target_start=1,
        first_seq=3,
        last_seq=5,
        host=None,
        application=None,
    )
    packet = Packet(node, node, JAVA_WIRE.encode(request), 0, MULTICAST, 0)
    for heard in (packet, datagram(node, UPDATE), datagram(node, RETRANSMISSION)):
        checker.arrived(heard)
        RepairCounts("another").arrived(heard)
    assert (checker.requested_count, checker.resent_count) == (3, 1)
