"""The identity of a connection: its own messages, and senders with a conflicting identity."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from skerry.protocol.distributor.config import Dialect, DistributorConfig
from skerry.protocol.distributor.control_intake import OwnIdentity
from skerry.protocol.distributor.events import IdentityTaken, SenderInfo
from skerry.protocol.distributor.identity import SenderIdentity, java_sum
from skerry.protocol.distributor.messages import HEARTBEAT, DatagramHeader
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.sending.sender import Sender
from skerry.protocol.machine import Address

IDENTITY = SenderIdentity(
    address=b"\x0a\0\0\1", sender_id=61_234, start_ms=1_794_726_418_298, application_id=7
)
OWN_SUM = java_sum(IDENTITY.sender_id, IDENTITY.start_ms)
OTHER = SenderInfo(
    address="10.0.0.2",
    sender_id=IDENTITY.sender_id - 1,
    start=IDENTITY.start_ms + 1,
    application_id=7,
)
GROUP = Address(host="239.192.7.1", port=4711)


class Rig:
    def __init__(self) -> None:
        self.deliveries = Deliveries()
        self.sender = Sender(
            identity=IDENTITY,
            group=bytes(4),
            port=4711,
            config=DistributorConfig(),
            rng=Random(1),
            now_ns=0,
        )
        self.identity = OwnIdentity(
            self.sender,
            dialect=Dialect.JAVA,
            group=GROUP,
            deliveries=self.deliveries,
            rng=Random(1),
        )


def header(start: int) -> DatagramHeader:
    return DatagramHeader(
        kind=HEARTBEAT,
        address=IDENTITY.address,
        sender_id=IDENTITY.sender_id,
        start=start,
        application_id=7,
    )


def test_own_messages_and_requests_are_recognised() -> None:
    rig, start = Rig(), IDENTITY.start(Dialect.JAVA)
    assert rig.identity.is_own(header(start))
    assert not rig.identity.is_own(header(start + 1))
    assert not rig.identity.is_own(replace(header(start), address=bytes(4)))
    assert rig.identity.is_target(IDENTITY.sender_id, start)
    assert not rig.identity.is_target(IDENTITY.sender_id + 1, start)


def test_an_identity_that_is_taken_is_not_announced() -> None:
    rig = Rig()
    rig.identity.avoid({OWN_SUM + 1}, 0)
    assert rig.sender.identity == IDENTITY
    rig.identity.avoid({OWN_SUM}, 0)
    mine = rig.sender.identity
    assert java_sum(mine.sender_id, mine.start_ms) != OWN_SUM
    assert replace(mine, start_ms=IDENTITY.start_ms) == IDENTITY


def test_a_conflict_before_the_first_data_is_resolved() -> None:
    rig = Rig()
    rig.identity.compare(OTHER, 0)
    assert rig.sender.identity == IDENTITY, "without a publisher there is no conflict"
    rig.sender.open_publisher(0)
    rig.identity.compare(OTHER, 0)
    assert rig.sender.identity != IDENTITY
    assert rig.deliveries.take() == []


def test_a_conflict_after_the_first_data_is_reported() -> None:
    rig = Rig()
    rig.sender.open_publisher(0)
    rig.sender.publish("/a", b"", 0)
    rig.sender.flush(0)
    rig.identity.compare(OTHER, 0)
    assert rig.sender.identity == IDENTITY
    assert rig.deliveries.take() == [IdentityTaken(group=GROUP.host, port=GROUP.port, sender=OTHER)]
