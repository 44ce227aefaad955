"""Messages to the group: described first, in order, dropped with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.engine.carriage.distributor.outgoing import GroupOutgoing
from skerry.engine.carriage.distributor.types import CarriedType
from skerry.protocol.access.header import Header, write_header
from skerry.protocol.distributor.messages import START, UPDATE
from skerry.tracing import DropReason

S = 1_000_000_000


class Stage:
    """An outgoing half, and what it sent."""

    def __init__(self, site: Any, **config: Any) -> None:
        self.site = site
        self.connection = site.connection(**config)
        self.connection.open_publisher(site.now_ns)
        self.outgoing = GroupOutgoing(self.connection, interval_ns=S, update_bytes_max=100_000)

    def send(self, obj: Any, subject: str = "") -> None:
        header = Header(obj.descriptor.name)
        header.attributes = int(obj.attributes)
        header.subject = subject
        head = write_header(header)
        carried = self.carried(obj)
        self.outgoing.send(carried, header, head + obj.encode(), len(head), self.site.now_ns)

    def carried(self, obj: Any) -> CarriedType:
        found: CarriedType = self.site.carried.setdefault(
            obj.descriptor.name, CarriedType(obj.descriptor)
        )
        return found

    def datagrams(self) -> list[bytes]:
        sent = self.connection.take_datagrams()
        return [data for data in sent if data[2] == UPDATE and data[3] & START]

    def update_count(self) -> int:
        return sum(int.from_bytes(data[24:28], "big") for data in self.datagrams())


@pytest.fixture
def stage(site: Any) -> Stage:
    site.carried = {}
    return Stage(site)


def test_messages_of_one_turn_share_datagrams(site: Any, stage: Stage) -> None:
    stage.send(site.make("Tick", number=0))
    stage.outgoing.flush(site.now_ns)
    stage.datagrams()
    for number in range(100):
        stage.send(site.make("Tick", number=number))
    assert stage.datagrams() == []
    stage.outgoing.flush(site.now_ns)
    (datagram,) = stage.datagrams()
    assert int.from_bytes(datagram[24:28], "big") == 100
    assert stage.outgoing.sent_count == 101


def test_a_type_is_described_once_before_its_first_message(site: Any, stage: Stage) -> None:
    for _ in range(3):
        stage.send(site.make("Tick", number=1))
    stage.outgoing.flush(site.now_ns)
    assert stage.update_count() == 4
    assert stage.outgoing.described_count == 1


def test_a_type_with_another_definition_is_described_again(site: Any, stage: Stage) -> None:
    stage.send(site.make("Tick", number=1))
    site.carried.clear()
    stage.send(site.make("Tick", number=1))
    assert stage.outgoing.described_count == 2
    assert stage.outgoing.used_type_count == 1


@pytest.mark.parametrize("subject", ["/åäö", "/*/x", "/" + "x" * 8000])
def test_a_subject_that_the_group_rejects_is_counted(site: Any, stage: Stage, subject: str) -> None:
    stage.send(site.make("Tick", number=1), subject)
    stage.send(site.make("Tick", number=2))
    stage.outgoing.flush(site.now_ns)
    assert stage.outgoing.dropped == {DropReason.SUBJECT: 1}
    assert stage.outgoing.sent_count == 1
    assert stage.update_count() == 2


def test_subjects_beyond_ascii_are_sent_if_they_are_allowed(site: Any) -> None:
    site.carried = {}
    stage = Stage(site, unicode_subjects=True)
    stage.send(site.make("Tick", number=1), "/åäö")
    assert stage.outgoing.dropped == {}


def test_an_object_that_is_too_large_for_the_group_is_counted(site: Any, stage: Stage) -> None:
    text = "struct Large [cached=false] { 1: string text; }"
    stage.send(site.make("Large", text, text="x" * 100_000))
    assert stage.outgoing.dropped == {DropReason.SIZE: 1}
    stage.send(site.make("Large", text, text="x" * 99_000))
    assert stage.outgoing.sent_count == 1


def test_messages_that_exceed_the_bandwidth_wait_in_order(site: Any) -> None:
    site.carried = {}
    stage = Stage(site, bandwidth_kbit_max=250)
    for number in range(40):
        # Some subjects are known to the group, and some are new.
        stage.send(site.make("Ping", who="x" * 900 + str(number % 30), number=number))
    stage.outgoing.flush(site.now_ns)
    assert stage.outgoing.pending_count > 20
    first_ns = stage.outgoing.deadline_ns()
    assert first_ns is not None
    assert site.now_ns < first_ns < site.now_ns + 2 * S
    count = 0
    while stage.outgoing.pending_count:
        due_ns = stage.outgoing.deadline_ns()
        assert due_ns is not None
        stage.outgoing.advance(due_ns)
        count += 1
    assert count > 3
    assert stage.outgoing.sent_count == 40


def test_nothing_is_due_while_no_type_is_in_use(stage: Stage) -> None:
    assert stage.outgoing.deadline_ns() is None
