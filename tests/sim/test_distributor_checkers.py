"""The checkers of the distributor: each sees the one thing it is for."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.events import Delivered, LossReason, SenderInfo, UpdatesLost
from skerry.protocol.distributor.messages import (
    UPDATE,
    DatagramHeader,
)
from skerry.protocol.distributor.messages import UpdateMessage as Datagram
from skerry.protocol.distributor.receiving.updates import Updates
from skerry.protocol.distributor.segments import cut
from skerry.protocol.distributor.wire import JAVA_WIRE
from skerry.protocol.machine import MachineEvent
from skerry.testing import World
from skerry.testing.node import Node, Setting
from skerry.testing.packet import MULTICAST, Packet
from tests.sim.distributor import GROUP, make_connection
from tests.sim.distributor_checkers import (
    AllDelivered,
    NothingGivenUp,
    StreamsInOrder,
    mark,
    marked,
)
from tests.sim.probe import Probe

SENDER = SenderInfo(address="10.0.0.1", sender_id=1, start=2**32 + 2, application_id=3)
HEADER = DatagramHeader(kind=UPDATE, address=b"\x0a\0\0\1", sender_id=1, start=2, application_id=3)


@pytest.fixture
def node() -> Node[Any]:
    return World(1).add("node", Probe)


def delivered(*numbers: int) -> MachineEvent:
    return Delivered(sender=SENDER, batch=Updates([("/a", mark(number, 5)) for number in numbers]))


def lost(first: int, stop: int, reason: LossReason = LossReason.NAK) -> MachineEvent:
    return UpdatesLost(sender=SENDER, first_seq=first, stop_seq=stop, reason=reason)


def datagram(node: Node[Any], seq: int, *numbers: int) -> Packet:
    body = b"".join(
        JAVA_WIRE.subject_head(b"/a") + (5).to_bytes(4, "big") + mark(number, 5)
        for number in numbers
    )
    message = Datagram(header=HEADER, seq=seq, count=len(numbers), body=body)
    return Packet(node, node, JAVA_WIRE.encode(message), 0, MULTICAST, 0)


def test_a_mark_is_read_again() -> None:
    assert marked(mark(17, 0)) == 17
    assert len(mark(17, 50)) == 50


def test_order_is_watched_per_sender_and_receiver(node: Node[Any]) -> None:
    checker = StreamsInOrder()
    assert checker.observed(node, delivered(3, 4)) is None
    assert checker.observed(node, delivered(5)) is None
    assert "twice or too late" in str(checker.observed(node, delivered(5)))
    other = Delivered(
        sender=SenderInfo(address="10.0.0.2", sender_id=1, start=2, application_id=3),
        batch=Updates([("/a", mark(0, 5))]),
    )
    assert checker.observed(node, other) is None


def test_a_gap_must_be_reported_by_the_numbers_of_its_datagrams(node: Node[Any]) -> None:
    for notified, is_right in ((None, False), (lost(8, 9), False), (lost(7, 8), True)):
        checker = StreamsInOrder()
        for seq, number in ((6, 0), (7, 1), (8, 2)):
            assert checker.arrived(datagram(node, seq, number)) is None
        checker.observed(node, delivered(0))
        if notified is not None:
            checker.observed(node, notified)
        assert (checker.observed(node, delivered(2)) is None) == is_right


def test_any_piece_that_is_lost_excuses_a_large_update(node: Node[Any]) -> None:
    pieces = cut(JAVA_WIRE.subject_head(b"/a"), mark(1, 200), room=72)
    flags, body = pieces[0]
    header = DatagramHeader(
        kind=UPDATE, flags=flags, address=HEADER.address, sender_id=1, start=2, application_id=3
    )
    first = Datagram(header=header, seq=2**32 - 1, count=1, body=body)
    for seq, is_right in ((2**32 - 1, True), (0, True), (len(pieces) - 2, True), (99, False)):
        checker = StreamsInOrder()
        checker.arrived(Packet(node, node, JAVA_WIRE.encode(first), 0, MULTICAST, 0))
        checker.observed(node, delivered(0))
        checker.observed(node, lost(seq, seq + 1))
        assert (checker.observed(node, delivered(2)) is None) == is_right


def test_only_the_end_of_a_sender_is_a_reason_to_give_up(node: Node[Any]) -> None:
    checker = NothingGivenUp()
    assert checker.observed(node, lost(1, 2, LossReason.REMOVED)) is None
    assert "lost 1 to 2" in str(checker.observed(node, lost(1, 2, LossReason.RETRIES)))


def test_the_last_update_has_to_arrive_at_all_subscribers() -> None:
    world = World(1)

    def publisher(setting: Setting) -> Any:
        connection = make_connection(setting, DistributorConfig())
        connection.open_publisher(setting.now_ns)
        return connection

    def subscriber(setting: Setting) -> Any:
        connection = make_connection(setting, DistributorConfig())
        connection.subscribe("/...", None)
        return connection

    sending = world.add("pub", publisher, groups=[GROUP])
    world.add("sub", subscriber, groups=[GROUP])
    checker = AllDelivered()
    world.watch(checker)
    sending.do(lambda machine, now_ns: machine.publish("/a", mark(0, 5), now_ns))
    checker.published(sending, 0)
    assert "sub has number None of pub" in str(checker.liveness(world))
    world.run_for(1_000_000)
    assert checker.liveness(world) is None
