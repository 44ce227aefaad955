"""Received control messages: the effect of each, and which are dropped."""

from __future__ import annotations

from random import Random
from typing import Any

from skerry.protocol.distributor.config import Dialect, DistributorConfig
from skerry.protocol.distributor.control_intake import ControlIntake, OwnIdentity
from skerry.protocol.distributor.events import SenderFound, SenderInfo
from skerry.protocol.distributor.identity import SenderIdentity, address_bytes, mark_application
from skerry.protocol.distributor.messages import GOODBYE, HEARTBEAT, NAK, REQUEST
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.remote_senders import RemoteSender
from skerry.protocol.distributor.receiving.sender_table import SenderTable
from skerry.protocol.distributor.sending.control_messages import ControlMessages
from skerry.protocol.distributor.sending.sender import Sender
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.wire import wire_of
from skerry.protocol.machine import Address
from skerry.tracing import DropReason

GROUP = Address(host="239.192.7.1", port=4711)
SOURCE = Address(host="10.0.0.2", port=9)
CONFIG = DistributorConfig()


def identity(number: int) -> SenderIdentity:
    address = bytes((10, 0, 0, number))
    return SenderIdentity(
        address=address,
        sender_id=number,
        start_ms=1000 + number,
        application_id=mark_application(address, 1),
    )


def messages_of(number: int, config: DistributorConfig = CONFIG) -> ControlMessages:
    group = address_bytes(GROUP.host)
    return ControlMessages(identity(number), config, group=group, port=GROUP.port)


class Rig:
    """The intake of sender 1, and messages of sender 2."""

    def __init__(self, **how: Any) -> None:
        self.deliveries = Deliveries()
        self.sender = Sender(
            identity=identity(1),
            group=address_bytes(GROUP.host),
            port=GROUP.port,
            config=CONFIG,
            rng=Random(1),
            now_ns=0,
        )
        self.senders = SenderTable(
            group=GROUP,
            config=CONFIG,
            wire=wire_of(CONFIG.dialect),
            subjects=Subjects(),
            deliveries=self.deliveries,
            rng=Random(1),
        )
        own = OwnIdentity(
            self.sender,
            dialect=CONFIG.dialect,
            group=GROUP,
            deliveries=self.deliveries,
            rng=Random(1),
        )
        arguments: dict[str, Any] = {"hears_own": True, "may_have_java": True} | how
        self.intake = ControlIntake(
            sender=self.sender,
            senders=self.senders,
            identity=own,
            wire=wire_of(CONFIG.dialect),
            group=GROUP,
            **arguments,
        )
        self.messages = messages_of(2)

    def receive(self, data: bytes) -> DropReason | None:
        return self.intake.receive(data, SOURCE, 0)


def test_a_heartbeat_makes_a_sender_known_and_an_announcement_reports_it() -> None:
    rig = Rig()
    assert rig.receive(rig.messages.heartbeat(HEARTBEAT, 0)) is None
    assert (len(rig.senders), rig.deliveries.take()) == (1, [])
    assert rig.receive(rig.messages.configuration()) is None
    assert rig.receive(rig.messages.configuration()) is None
    (found,) = rig.deliveries.take()
    assert isinstance(found, SenderFound)
    assert found.sender.sender_id == 2


def test_a_goodbye_of_an_unknown_sender_is_dropped() -> None:
    rig = Rig()
    assert rig.receive(rig.messages.heartbeat(GOODBYE, 0)) is DropReason.DUPLICATE
    assert len(rig.senders) == 0


def test_requests_are_served_or_only_counted() -> None:
    rig = Rig()
    rig.receive(rig.messages.request_to(info(1), 1, 2))
    rig.receive(rig.messages.request_to(info(3), 1, 2))
    assert (rig.intake.requests_received_count, rig.intake.requests_seen_count) == (1, 1)
    rig.receive(rig.messages.nak([1]))
    assert rig.intake.naks_received_count == 1


def test_malformed_messages_are_dropped_with_their_reason() -> None:
    rig = Rig()
    heartbeat = rig.messages.heartbeat(HEARTBEAT, 0)
    for kind in (HEARTBEAT, REQUEST, NAK):
        cut = heartbeat[:2] + bytes((kind,)) + heartbeat[3:21]
        assert rig.receive(cut) is DropReason.BODY
    assert rig.receive(heartbeat[:2] + b"\x63" + heartbeat[3:]) is DropReason.KIND


def test_messages_of_the_other_dialect_are_dropped() -> None:
    rig = Rig()
    other = messages_of(2, DistributorConfig(dialect=Dialect.PYCAST))
    for data in (other.heartbeat(HEARTBEAT, 0), other.request_to(info(1), 1, 2)):
        assert rig.receive(data) is DropReason.DIALECT
    assert rig.intake.remote_sender(other.data_header(0), SOURCE, 0) is DropReason.DIALECT


def test_own_messages_are_ignored_where_own_data_is_not_received() -> None:
    for hears_own in (True, False):
        rig = Rig(hears_own=hears_own)
        assert rig.receive(rig.sender.messages.heartbeat(HEARTBEAT, 0)) is None
        assert len(rig.senders) == hears_own


def test_the_first_data_of_a_sender_makes_it_known() -> None:
    rig = Rig()
    remote = rig.intake.remote_sender(rig.messages.data_header(0), SOURCE, 0)
    assert isinstance(remote, RemoteSender)
    assert remote.receiver.sender.address == "10.0.0.2"
    assert list(rig.senders.remotes.values()) == [remote]


def test_a_java_program_is_detected_by_a_message_without_our_mark() -> None:
    for number, is_marked in ((2, True), (3, False)):
        rig = Rig()
        messages = messages_of(number)
        if not is_marked:
            unmarked = SenderIdentity(
                address=bytes((10, 0, 0, 3)), sender_id=3, start_ms=3, application_id=4
            )
            messages.identity = unmarked
        before = rig.sender.segment_bytes
        rig.receive(messages.heartbeat(HEARTBEAT, 0))
        assert (rig.sender.segment_bytes == before) is is_marked


def info(number: int) -> SenderInfo:
    mine = identity(number)
    return SenderInfo(
        address="",
        sender_id=number,
        start=mine.start_ms,
        application_id=mine.application_id,
    )
