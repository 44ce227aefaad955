"""The senders of a group: met, introduced, removed, and not more than there is room for."""

from __future__ import annotations

from random import Random

from skerry.limits import DISTRIBUTOR_SENDER_COUNT_MAX
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.events import (
    OtherDialect,
    SenderFound,
    SenderRemoved,
    SendersRefused,
)
from skerry.protocol.distributor.identity import java_sum
from skerry.protocol.distributor.messages import DatagramHeader
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.link_quality import LinkCounts
from skerry.protocol.distributor.receiving.sender_table import SenderTable, dotted, sender_info
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.wire import JAVA_WIRE
from skerry.protocol.machine import Address

MS = 1_000_000


class Rig:
    """A table of senders, and its events."""

    def __init__(self) -> None:
        self.deliveries = Deliveries()
        self.senders = SenderTable(
            group=Address("239.192.7.1", 4711),
            config=DistributorConfig(),
            wire=JAVA_WIRE,
            subjects=Subjects(),
            deliveries=self.deliveries,
            rng=Random(1),
        )

    def header(self, number: int) -> DatagramHeader:
        return DatagramHeader(kind=1, address=bytes(4), sender_id=number, start=7, application_id=1)

    def key(self, number: int) -> bytes:
        return JAVA_WIRE.header(self.header(number))[4:16]

    def meet(self, number: int, now_ns: int = 0) -> bool:
        return self.senders.add(self.key(number), self.header(number), now_ns) is not None

    def introduce(self, number: int) -> None:
        remote = self.senders.remotes[self.key(number)]
        self.senders.introduce(self.key(number), remote, sender_info(self.header(number)))

    def leave(self, number: int) -> None:
        self.senders.remotes[self.key(number)].goodbye_received(last_seq=0, now_ns=0)
        self.senders.advance(800 * MS)


def test_the_number_of_senders_is_limited_and_that_is_reported_once() -> None:
    rig = Rig()
    for number in range(DISTRIBUTOR_SENDER_COUNT_MAX):
        assert rig.meet(number)
        rig.introduce(number)
    rig.deliveries.take()
    assert not rig.meet(5000)
    assert not rig.meet(5001)
    (event,) = rig.deliveries.take()
    assert isinstance(event, SendersRefused)
    assert event.sender.sender_id == 5000
    assert len(rig.senders) == DISTRIBUTOR_SENDER_COUNT_MAX


def test_a_sender_that_leaves_makes_room() -> None:
    rig = Rig()
    for number in range(DISTRIBUTOR_SENDER_COUNT_MAX):
        rig.meet(number)
        rig.introduce(number)
    rig.meet(5000)
    rig.deliveries.take()
    rig.leave(0)
    assert rig.meet(5000)
    rig.introduce(5000)
    assert not rig.meet(5001)
    assert [type(event) for event in rig.deliveries.take()] == [SenderFound, SendersRefused]


def test_senders_that_never_announced_themselves_make_room_for_new_ones() -> None:
    rig = Rig()
    rig.meet(0)
    rig.introduce(0)
    for number in range(1, DISTRIBUTOR_SENDER_COUNT_MAX + 500):
        assert rig.meet(number), "invented by a stranger"
    assert rig.meet(5000), "a real one"
    rig.introduce(5000)
    for number in range(6000, 8000):
        rig.meet(number)
    assert len(rig.senders) == DISTRIBUTOR_SENDER_COUNT_MAX
    assert rig.key(0) in rig.senders.remotes
    assert rig.key(5000) in rig.senders.remotes
    assert [type(event) for event in rig.deliveries.take()] == [SenderFound] * 2


def test_only_announced_senders_are_reported_as_removed() -> None:
    rig = Rig()
    for number in (1, 2):
        rig.meet(number)
    first = rig.senders.remotes[rig.key(1)]
    first.announcement_received(
        heartbeat_interval_ms=3000, configuration_interval_ms=20_000, now_ns=0
    )
    rig.senders.introduce(rig.key(1), first, sender_info(rig.header(1), 2**32 + 7, "feed"))
    (found,) = rig.senders.announced()
    assert found.sender.application == "feed"
    assert rig.senders.due_ns == 33_000 * MS
    assert rig.senders.advance(33_000 * MS) == []
    events = rig.deliveries.take()
    assert [type(event) for event in events] == [SenderFound, SenderRemoved]
    assert len(rig.senders) == 0
    assert rig.senders.due_ns is None


def test_a_stream_continues_where_it_ended() -> None:
    rig = Rig()
    rig.meet(1)
    rig.senders.remotes[rig.key(1)].receiver.heartbeat_received(41, 0)
    rig.senders.advance(33_000 * MS)
    rig.meet(1)
    assert rig.senders.remotes[rig.key(1)].receiver.next_seq == 42
    rig.senders.advance(99_000 * MS)
    rig.senders.desynchronise()
    rig.meet(1)
    assert rig.senders.remotes[rig.key(1)].receiver.next_seq is None


def test_the_sums_of_java_programs_are_those_of_the_senders() -> None:
    rig = Rig()
    rig.meet(1)
    rig.meet(2)
    assert rig.senders.java_sums() == {java_sum(1, 7), java_sum(2, 7)}


def test_the_other_dialect_is_reported_once_and_its_senders_are_recorded_up_to_a_bound() -> None:
    rig = Rig()
    rig.meet(0)
    for number in range(DISTRIBUTOR_SENDER_COUNT_MAX + 1):
        rig.senders.add_foreign(rig.key(number))
    (event,) = rig.deliveries.take()
    assert isinstance(event, OtherDialect)
    assert rig.senders.is_foreign(rig.key(0))
    assert not rig.senders.is_foreign(rig.key(DISTRIBUTOR_SENDER_COUNT_MAX))
    assert len(rig.senders) == 0


def test_losses_are_counted_after_their_sender_used_the_other_dialect() -> None:
    rig = Rig()
    rig.meet(1)
    receiver = rig.senders.remotes[rig.key(1)].receiver
    receiver.resume(1)
    receiver.heartbeat_received(3, 0)
    receiver.nak_received((1, 2))
    assert rig.senders.lost_count == 2
    rig.senders.add_foreign(rig.key(1))
    assert rig.senders.lost_count == 2


def test_addresses_are_shown_as_people_write_them() -> None:
    assert dotted(b"\x7f\0\0\1") == "127.0.0.1"
    assert sender_info(Rig().header(3)).start == 7


def test_links_of_removed_senders_are_returned_once() -> None:
    rig = Rig()
    for number in (1, 2, 3):
        rig.meet(number)
    for number, last_seq in ((1, 5), (2, 9)):
        receiver = rig.senders.remotes[rig.key(number)].receiver
        receiver.resume(1)
        receiver.heartbeat_received(last_seq, 0)
    assert rig.senders.take_links() == [], "nothing passed yet"
    rig.senders.remotes[rig.key(1)].goodbye_received(last_seq=0, now_ns=0)
    rig.senders.advance(2000 * MS)
    first, second = rig.senders.take_links()
    assert first.sender.sender_id == 1
    assert first.counts == LinkCounts(passed_count=5, lost_count=5, request_count=1)
    assert second.counts == LinkCounts(request_count=1)
    assert rig.senders.take_links() == []


def test_links_of_removed_senders_are_kept_up_to_a_bound() -> None:
    rig = Rig()
    for number in range(DISTRIBUTOR_SENDER_COUNT_MAX + 1):
        rig.meet(number)
        remote = rig.senders.remotes[rig.key(number)]
        remote.receiver.resume(1)
        remote.receiver.heartbeat_received(1, 0)
        remote.goodbye_received(last_seq=0, now_ns=0)
        rig.senders.advance(2000 * MS)
    links = rig.senders.take_links()
    assert len(links) == DISTRIBUTOR_SENDER_COUNT_MAX
    assert links[0].sender.sender_id == 1
