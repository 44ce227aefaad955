"""Whole connections in one group: every rule that has to do with more than one part."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.errors import LocalProtocolError
from skerry.protocol.distributor.config import Dialect, DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import (
    CommunicationFailed,
    ConnectionClosed,
    Delivered,
    Direction,
    IdentityTaken,
    LossReason,
    Nagging,
    OtherDialect,
    RemovalReason,
    SenderFound,
    SenderRemoved,
    UpdatesLost,
)
from skerry.protocol.distributor.identity import SenderIdentity, java_sum
from skerry.protocol.distributor.messages import (
    CONFIGURATION,
    GOODBYE,
    HEARTBEAT,
    NAK,
    REQUEST,
    RETRANSMISSION,
    UPDATE,
    Configuration,
    DatagramHeader,
    HeartbeatMessage,
    RepairRequest,
)
from skerry.protocol.distributor.wire import JAVA_WIRE, PYCAST_WIRE
from skerry.protocol.machine import Address, Machine
from skerry.tracing import DatagramDropped, DropReason, TraceEvent

GROUP = Address("239.192.7.1", 4711)
MS = 1_000_000


def seq_of(data: bytes) -> int:
    return int.from_bytes(data[20:24], "big")


def losing(*seqs: int, target: GroupConnection | None = None, kind: int = UPDATE) -> Any:
    """Drops data with these numbers on its way to one receiver, or to all."""

    def drop(source: GroupConnection, to: GroupConnection, data: bytes) -> bool:
        return data[2] == kind and seq_of(data) in seqs and target in (None, to)

    return drop


def test_a_connection_is_a_machine(bus: Any) -> None:
    machine: Machine = bus.join()
    assert machine.take_events() == []
    assert machine.take_transmits() == []
    assert machine.deadline_ns() == bus.now_ns + 4000 * MS  # the monitor of requests


def test_updates_reach_all_subscribers_in_order(bus: Any) -> None:
    first, second = bus.subscriber("/a/*"), bus.subscriber("/...")
    publisher = bus.publisher()
    bus.publish(publisher, "/a/1", "/b", "/a/2", "/a/1/x")
    assert bus.subjects(first) == ["/a/1", "/a/2"]
    assert bus.subjects(second) == ["/a/1", "/b", "/a/2", "/a/1/x"]
    assert first.match("/a/1") == ["/a/*"]


def test_a_connection_receives_its_own_updates(bus: Any) -> None:
    both = bus.subscriber()
    both.open_publisher(bus.now_ns)
    bus.publish(both, "/a")
    assert bus.subjects(both) == ["/a"]


def test_updates_are_delivered_with_their_sender(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher(application="feed")
    bus.publish(publisher, "/a")
    (found,) = bus.events_of(subscriber, SenderFound)
    (delivered,) = bus.events_of(subscriber, Delivered)
    assert delivered.sender == found.sender
    assert (found.group, found.port) == (GROUP.host, GROUP.port)
    assert found.sender.application == "feed"
    assert found.sender.address == "10.0.0.2"
    assert found.sender.start == publisher.identity.start_ms
    assert found.sender.application_id == publisher.identity.application_id


def test_a_late_subscriber_receives_data_at_once_and_the_sender_within_a_heartbeat(
    bus: Any,
) -> None:
    publisher = bus.publisher()
    bus.publish(publisher, "/early")
    bus.run_ms(1)
    subscriber = bus.subscriber()
    bus.publish(publisher, "/late")
    bus.run_ms(0)
    assert bus.subjects(subscriber) == ["/late"]
    assert bus.events_of(subscriber, SenderFound) == []
    bus.run_ms(3000)
    assert len(bus.events_of(subscriber, SenderFound)) == 1
    bus.run_ms(10_000)
    assert len(bus.events_of(subscriber, SenderFound)) == 1
    assert subscriber.known_senders() == bus.events_of(subscriber, SenderFound)


# -- repair


def test_a_lost_datagram_is_requested_and_sent_again(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.drop = losing(2)
    bus.publish(publisher, "/1", "/2", "/3")
    assert bus.subjects(subscriber) == ["/1"]
    bus.run_ms(41)
    assert bus.subjects(subscriber) == ["/1", "/2", "/3"]
    assert bus.sent_kinds().count(REQUEST) == 1
    assert bus.sent_kinds().count(RETRANSMISSION) == 1
    assert bus.events_of(subscriber, UpdatesLost) == []


def test_the_loss_of_the_newest_is_seen_by_the_heartbeat(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher(tail_heartbeat_ms=0)
    bus.drop = losing(1, 2)
    bus.publish(publisher, "/1", "/2")
    bus.run_ms(5990)
    assert bus.subjects(subscriber) == []
    bus.run_ms(60)
    assert bus.subjects(subscriber) == ["/1", "/2"]


def test_the_loss_of_the_newest_is_repaired_as_soon_as_data_ends(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.drop = losing(1, 2)
    bus.publish(publisher, "/1", "/2")
    bus.run_ms(160)
    assert bus.subjects(subscriber) == ["/1", "/2"]


def test_receivers_that_lost_the_same_ask_once(bus: Any) -> None:
    subscribers = [bus.subscriber() for _ in range(10)]
    publisher = bus.publisher()
    bus.drop = losing(2)
    bus.publish(publisher, "/1", "/2", "/3")
    bus.run_ms(100)
    assert all(bus.subjects(one) == ["/1", "/2", "/3"] for one in subscribers)
    assert bus.sent_kinds().count(REQUEST) == 1
    assert publisher.statistics().requests_received_count == 1
    assert subscribers[0].statistics().requests_seen_count == 1


def test_an_answer_that_is_lost_too_is_requested_again_after_the_timeout(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.drop = lambda source, to, data: losing(2)(source, to, data) or data[2] == RETRANSMISSION
    bus.publish(publisher, "/1", "/2", "/3")
    bus.run_ms(100)
    assert bus.sent_kinds().count(REQUEST) == 1
    bus.drop = losing(2)
    bus.run_ms(650)
    assert bus.sent_kinds().count(REQUEST) == 1
    bus.run_ms(150)
    assert bus.sent_kinds().count(REQUEST) == 2
    assert bus.subjects(subscriber) == ["/1", "/2", "/3"]


def test_datagrams_that_the_sender_no_longer_has_are_reported_and_skipped(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher(cache_bytes_max=120)
    bus.drop = losing(2, 3)
    bus.publish(publisher, *[f"/{n}" for n in range(1, 10)])
    bus.run_ms(50)
    assert bus.sent_kinds().count(NAK) == 1
    (lost,) = bus.events_of(subscriber, UpdatesLost)
    assert (lost.first_seq, lost.stop_seq, lost.reason) == (2, 4, LossReason.NAK)
    assert lost.sender.address == "10.0.0.2"
    assert bus.subjects(subscriber) == [f"/{n}" for n in (1, 4, 5, 6, 7, 8, 9)]
    assert subscriber.statistics().lost_datagram_count == 2
    assert subscriber.statistics().naks_received_count == 1


def test_after_too_many_retries_the_stream_continues(bus: Any) -> None:
    subscriber = bus.subscriber(request_retry_count_max=3)
    publisher = bus.publisher()
    bus.drop = lambda source, to, data: losing(2)(source, to, data) or data[2] == RETRANSMISSION
    bus.publish(publisher, "/1", "/2", "/3")
    bus.run_ms(5 * 820)
    assert bus.sent_kinds().count(REQUEST) == 4
    (lost,) = bus.events_of(subscriber, UpdatesLost)
    assert (lost.first_seq, lost.stop_seq, lost.reason) == (2, 3, LossReason.RETRIES)
    bus.publish(publisher, "/4")
    assert bus.subjects(subscriber) == ["/1", "/3", "/4"]


def test_an_answer_of_one_sender_closes_no_gap_of_another(bus: Any) -> None:
    subscriber = bus.subscriber()
    one, two = bus.publisher(), bus.publisher()
    bus.drop = losing(2)
    for name in ("1", "2", "3"):
        bus.publish(one, f"/one/{name}")
        bus.publish(two, f"/two/{name}")
    bus.drop = lambda source, _, data: source is two and data[2] == RETRANSMISSION
    bus.run_ms(50)
    subjects = bus.subjects(subscriber)
    assert [s for s in subjects if s.startswith("/one")] == ["/one/1", "/one/2", "/one/3"]
    assert [s for s in subjects if s.startswith("/two")] == ["/two/1"]
    assert subscriber.statistics().missing_count == 1


def test_a_request_with_another_start_time_is_not_answered(bus: Any) -> None:
    publisher = bus.publisher()
    bus.publish(publisher, "/a")
    mine = publisher.identity
    for start, is_answered in ((mine.start_ms + 1, False), (mine.start_ms, True)):
        request = RepairRequest(
            header=DatagramHeader(kind=5, address=bytes(4), sender_id=9, start=9, application_id=9),
            address=bytes(4),
            target_id=mine.sender_id,
            target_start=start & 0xFFFFFFFF,
            first_seq=1,
            last_seq=1,
            host=None,
            application=None,
        )
        publisher.receive(JAVA_WIRE.encode(request), GROUP, bus.now_ns)
        bus.run_ms(30)
        assert (RETRANSMISSION in bus.sent_kinds()) == is_answered


def test_large_updates_arrive_whole_also_when_pieces_are_lost(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher(segment_bytes=256)
    data = bytes(range(256)) * 10
    bus.drop = losing(2, 5, 6)
    bus.publish(publisher, "/large", data=data)
    bus.publish(publisher, "/small")
    bus.run_ms(50)
    assert bus.updates(subscriber) == [("/large", data), ("/small", b"x")]


def test_streams_survive_the_wrap_of_their_numbers(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher(first_seq=2**32 - 3)
    bus.drop = losing(2**32 - 2, 0)
    bus.publish(publisher, *[f"/{n}" for n in range(8)])
    bus.run_ms(50)
    assert bus.subjects(subscriber) == [f"/{n}" for n in range(8)]
    assert publisher.statistics().last_seq == 4


# -- coming and going


def test_a_silent_sender_is_removed_and_its_missing_part_is_reported(bus: Any) -> None:
    subscriber = bus.subscriber(request_retry_count_max=100)
    publisher = bus.publisher(configuration_interval_ms=15_000)
    bus.drop = losing(2)
    bus.publish(publisher, "/1", "/2", "/3")
    bus.members.remove(publisher)
    bus.run_ms(32_000)
    assert bus.events_of(subscriber, SenderRemoved) == []
    bus.run_ms(2000)
    (removed,) = bus.events_of(subscriber, SenderRemoved)
    assert removed.reason is RemovalReason.SILENT
    (lost,) = bus.events_of(subscriber, UpdatesLost)
    assert (lost.first_seq, lost.stop_seq) == (2, 3)
    assert subscriber.known_senders() == []
    assert subscriber.statistics().sender_count == 0


def test_a_sender_that_announces_itself_no_more_is_removed(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.drop = lambda _source, _target, data: data[2] == CONFIGURATION
    bus.run_ms(11_999)
    assert bus.events_of(subscriber, SenderRemoved) == []
    bus.run_ms(1)
    (removed,) = bus.events_of(subscriber, SenderRemoved)
    assert removed.reason is RemovalReason.UNANNOUNCED
    bus.publish(publisher, "/1")
    assert bus.subjects(subscriber) == ["/1"]


def test_a_sender_that_returns_continues_without_a_gap_or_a_duplicate(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher(cache_age_s=0)
    bus.publish(publisher, "/1", "/2")
    bus.drop = lambda source, to, _: {source, to} == {publisher, subscriber}
    bus.run_ms(40_000)
    assert len(bus.events_of(subscriber, SenderRemoved)) == 1
    bus.publish(publisher, "/3", "/4")
    bus.drop = lambda *_: False
    bus.publish(publisher, "/5")
    bus.run_ms(4000)
    assert bus.subjects(subscriber) == ["/1", "/2", "/3", "/4", "/5"]
    assert len(bus.events_of(subscriber, SenderFound)) == 2


def test_programs_of_our_own_do_not_change_the_size_of_datagrams(bus: Any) -> None:
    publisher = bus.publisher()
    bus.subscriber()
    other = bus.publisher()
    bus.publish(other, "/a", data=bytes(7000))
    bus.run_ms(10_000)
    assert publisher.segment_bytes == 7800
    publisher.publish("/a", bytes(7900), bus.now_ns)
    assert publisher.statistics().sent_datagram_count == 2


def test_requests_keep_a_leaving_sender_up_to_a_bound(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.drop = lambda _source, _to, data: data[2] in (UPDATE, RETRANSMISSION)
    bus.publish(publisher, "/1", "/2")
    publisher.close(bus.now_ns)
    left_ns = bus.now_ns
    bus.run_ms(1500)
    assert bus.events_of(publisher, ConnectionClosed) == []
    bus.drop = lambda *_: False
    bus.run_ms(300)
    assert bus.subjects(subscriber) == ["/1", "/2"]
    bus.run_ms(800)
    assert len(bus.events_of(publisher, ConnectionClosed)) == 1
    assert bus.now_ns - left_ns < 8800 * MS
    publisher = bus.publisher()
    bus.publish(publisher, "/3")
    publisher.close(bus.now_ns)
    request = bus.sent_of(REQUEST)[0]
    mine = publisher.identity
    asked = mine.sender_id.to_bytes(4, "big") + (mine.start_ms & 0xFFFFFFFF).to_bytes(4, "big")
    forged = request[:24] + asked + request[32:]
    for _ in range(100):
        publisher.receive(forged, GROUP, bus.now_ns)
        bus.run_ms(100)
    assert len(bus.events_of(publisher, ConnectionClosed)) == 1


def test_a_goodbye_removes_a_sender_after_the_last_repair(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.drop = losing(2, 3)
    bus.publish(publisher, "/1", "/2", "/3")
    publisher.close_publisher(bus.now_ns)
    bus.run_ms(790)
    assert bus.subjects(subscriber) == ["/1", "/2", "/3"]
    assert bus.events_of(subscriber, SenderRemoved) == []
    bus.run_ms(20)
    (removed,) = bus.events_of(subscriber, SenderRemoved)
    assert removed.reason is RemovalReason.GOODBYE
    assert bus.sent_kinds(publisher).count(GOODBYE) == 8
    assert bus.events_of(subscriber, UpdatesLost) == []


def test_a_goodbye_reports_the_datagrams_that_are_missing(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.drop = lambda source, to, data: losing(2, 4)(source, to, data) or data[2] == RETRANSMISSION
    bus.publish(publisher, "/1", "/2", "/3", "/4")
    publisher.close_publisher(bus.now_ns)
    bus.run_ms(3000)
    assert bus.subjects(subscriber) == ["/1", "/3"]
    lost = bus.events_of(subscriber, UpdatesLost)
    assert [(event.first_seq, event.stop_seq) for event in lost] == [(2, 3), (4, 5)]
    assert all(event.reason is LossReason.REMOVED for event in lost)


def test_a_replayed_datagram_does_not_revive_a_sender(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.publish(publisher, "/1", "/2")
    old = bus.sent_of(UPDATE)[0]
    publisher.close_publisher(bus.now_ns)
    bus.run_ms(1000)
    goodbye = bus.sent_of(GOODBYE)[0]
    for data in (old, goodbye, old):
        subscriber.receive(data, GROUP, bus.now_ns)
    bus.settle()
    assert bus.subjects(subscriber) == ["/1", "/2"]


def test_a_sender_that_publishes_again_after_a_goodbye_is_not_removed(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.publish(publisher, "/1")
    publisher.close_publisher(bus.now_ns)
    bus.settle()
    publisher.open_publisher(bus.now_ns)
    bus.publish(publisher, "/2")
    bus.run_ms(2000)
    assert bus.events_of(subscriber, SenderRemoved) == []
    assert bus.subjects(subscriber) == ["/1", "/2"]


def test_a_connection_that_closes_serves_the_last_requests(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.drop = losing(1, 2)
    bus.publish(publisher, "/1", "/2")
    publisher.close(bus.now_ns)
    publisher.close(bus.now_ns)
    bus.run_ms(800)
    assert bus.events_of(publisher, ConnectionClosed) == []
    assert bus.subjects(subscriber) == ["/1", "/2"]
    bus.run_ms(20)  # the last request came this much later, and each is answered for a timeout
    assert len(bus.events_of(publisher, ConnectionClosed)) == 1
    with pytest.raises(LocalProtocolError):
        publisher.publish("/3", b"", bus.now_ns)


def test_a_connection_that_closes_after_its_publisher_waits_for_requests_to_that(bus: Any) -> None:
    publisher = bus.publisher()
    publisher.close_publisher(bus.now_ns)
    bus.run_ms(300)
    publisher.close(bus.now_ns)
    bus.run_ms(499)
    assert bus.events_of(publisher, ConnectionClosed) == []
    bus.run_ms(1)
    assert len(bus.events_of(publisher, ConnectionClosed)) == 1


def test_a_connection_that_only_listened_closes_at_once(bus: Any) -> None:
    subscriber = bus.subscriber()
    subscriber.close(bus.now_ns)
    bus.run_ms(0)
    assert len(bus.events_of(subscriber, ConnectionClosed)) == 1
    assert bus.sent == []


def test_without_a_subscription_data_is_ignored_and_not_requested(bus: Any) -> None:
    subscriber = bus.join()
    publisher = bus.publisher()
    bus.drop = losing(2)
    bus.publish(publisher, "/1", "/2", "/3")
    bus.run_ms(5000)
    assert bus.updates(subscriber) == []
    assert REQUEST not in bus.sent_kinds()
    assert len(bus.events_of(subscriber, SenderFound)) == 1


def test_a_new_subscription_after_the_last_one_receives_all_later_updates(
    bus: Any,
) -> None:
    subscriber = bus.join()
    handle = subscriber.subscribe("/...", None)
    publisher = bus.publisher()
    bus.publish(publisher, "/1")
    subscriber.unsubscribe(handle)
    bus.publish(publisher, "/2")
    subscriber.subscribe("/...", None)
    bus.publish(publisher, "/3")
    bus.run_ms(5000)
    assert bus.subjects(subscriber) == ["/1", "/3"]
    assert REQUEST not in bus.sent_kinds()
    assert subscriber.statistics().subscription_count == 1


# -- identity


def other_sender(sender_id: int, start: int, *, address: bytes = b"\x0a\0\0\x63") -> bytes:
    header = DatagramHeader(
        kind=CONFIGURATION, address=address, sender_id=sender_id, start=start, application_id=1
    )
    message = Configuration(
        header=header,
        group=b"\xef\xc0\x07\x01",
        port=4711,
        sender_id=sender_id,
        start=start,
        heartbeat_interval_ms=3000,
        configuration_interval_ms=15_000,
        host=address,
        application="other",
    )
    return JAVA_WIRE.encode(message)


def test_an_identity_that_is_in_use_is_replaced_before_the_first_announcement(
    bus: Any,
) -> None:
    connection = bus.join()
    mine = connection.identity
    colliding = other_sender(mine.sender_id + 1, (mine.start_ms - 1) & 0xFFFFFFFF)
    connection.receive(colliding, GROUP, bus.now_ns)
    connection.open_publisher(bus.now_ns)
    now = connection.identity
    assert java_sum(now.sender_id, now.start_ms) != java_sum(mine.sender_id, mine.start_ms)
    assert now.application_id == mine.application_id


def test_an_identity_with_a_conflict_before_the_first_data_is_replaced(bus: Any) -> None:
    publisher = bus.publisher()
    mine = publisher.identity
    publisher.receive(other_sender(mine.sender_id, mine.start_ms & 0xFFFFFFFF), GROUP, bus.now_ns)
    assert publisher.identity != mine
    kinds = [transmit.data[2] for transmit in publisher.take_transmits()]
    assert kinds == [CONFIGURATION, HEARTBEAT]


def test_a_later_conflict_of_identities_is_reported(bus: Any) -> None:
    publisher = bus.publisher()
    bus.publish(publisher, "/a")
    mine = publisher.identity
    publisher.receive(other_sender(mine.sender_id, mine.start_ms & 0xFFFFFFFF), GROUP, bus.now_ns)
    bus.settle()
    assert publisher.identity == mine
    (event,) = bus.events_of(publisher, IdentityTaken)
    assert event.sender.address == "10.0.0.99"


def test_senders_with_equal_numbers_on_two_hosts_are_two_streams(bus: Any) -> None:
    subscriber = bus.subscriber()
    publishers = []
    for number in (1, 2):
        publishers.append(
            GroupConnection(
                group=GROUP,
                identity=SenderIdentity(
                    address=bytes((10, 0, 1, number)), sender_id=7, start_ms=7, application_id=7
                ),
                rng=Random(1),
                now_ns=bus.now_ns,
            )
        )
        publishers[-1].open_publisher(bus.now_ns)
    for name in ("/1", "/2"):
        for publisher in publishers:
            publisher.publish(name, b"", bus.now_ns)
            for transmit in publisher.take_transmits():
                subscriber.receive(transmit.data, GROUP, bus.now_ns)
    bus.settle()
    assert bus.subjects(subscriber) == ["/1", "/1", "/2", "/2"]


# -- dialects


def test_pycast_programs_understand_each_other_by_option(bus: Any) -> None:
    subscriber = bus.subscriber(dialect=Dialect.PYCAST)
    publisher = bus.publisher(dialect=Dialect.PYCAST, segment_bytes=256, application="feed")
    bus.drop = losing(2, 4)
    bus.publish(publisher, "/1", "/2", "/3")
    bus.publish(publisher, "/large", data=bytes(1000))
    bus.run_ms(50)
    assert bus.subjects(subscriber) == ["/1", "/2", "/3", "/large"]
    (found,) = bus.events_of(subscriber, SenderFound)
    assert (found.sender.application, found.sender.address) == ("feed", "10.0.0.2")


@pytest.mark.parametrize(
    ("mine", "theirs"), [(Dialect.JAVA, Dialect.PYCAST), (Dialect.PYCAST, Dialect.JAVA)]
)
def test_the_other_dialect_is_reported_once_and_never_delivered(
    bus: Any, mine: Dialect, theirs: Dialect
) -> None:
    subscriber = bus.subscriber(dialect=mine)
    publisher = bus.publisher(dialect=theirs)
    bus.publisher(dialect=theirs)
    bus.publish(publisher, "/1", "/2")
    bus.run_ms(7000)
    (event,) = bus.events_of(subscriber, OtherDialect)
    assert event.address == "10.0.0.2"
    assert bus.updates(subscriber) == []
    assert bus.events_of(subscriber, SenderFound) == []
    assert subscriber.statistics().faults[DropReason.DIALECT.value] > 5


# -- too many requests


def test_a_connection_that_requests_all_the_time_is_stopped_until_it_is_closed(bus: Any) -> None:
    subscriber = bus.subscriber(nagging_request_count_max=15)
    publisher = bus.publisher(cache_age_s=0)
    dropped: set[int] = set()

    def drop(source: GroupConnection, to: GroupConnection, data: bytes) -> bool:
        is_first = data[2] == UPDATE and seq_of(data) % 2 == 0 and seq_of(data) not in dropped
        dropped.update({seq_of(data)} if is_first and to is subscriber else ())
        return is_first and to is subscriber

    bus.drop = drop
    for number in range(32):
        bus.publish(publisher, f"/{number}")
        bus.run_ms(2000)
    (event,) = bus.events_of(subscriber, Nagging)
    assert event.request_count >= 15
    assert event.duration_ms == 60_000
    assert subscriber.statistics().is_nagging
    delivered, asked = len(bus.updates(subscriber)), bus.sent_kinds().count(REQUEST)
    for number in range(10):
        bus.publish(publisher, f"/late/{number}")
    bus.run_ms(70_000)
    assert len(bus.updates(subscriber)) == delivered
    assert bus.sent_kinds().count(REQUEST) == asked
    assert len(bus.events_of(subscriber, Nagging)) == 1


# -- flaws of others


def test_received_datagrams_are_dropped_on_purpose(bus: Any) -> None:
    subscriber = bus.subscriber(fake_receive_loss_permille=500)
    publisher = bus.publisher()
    bus.publish(publisher, *["/a"] * 200)
    bus.run_ms(20_000)
    assert len(bus.updates(subscriber)) == 200
    faked = subscriber.statistics().faults[DropReason.FAKE.value]
    assert 100 < faked < 400


def valid(kind: int) -> bytes:
    """A good datagram of each kind, to be spoiled."""
    header = DatagramHeader(
        kind=kind, address=b"\x0a\0\0\x63", sender_id=5, start=6, application_id=7
    )
    if kind in (UPDATE, RETRANSMISSION):
        body = JAVA_WIRE.subject_head(b"/a") + bytes(4)
        return JAVA_WIRE.header(header) + b"\0\0\0\1\0\0\0\1" + body
    if kind in (HEARTBEAT, GOODBYE):
        beat = HeartbeatMessage(
            header=header, group=bytes(4), port=1, sender_id=5, start_ms=6, last_seq=0
        )
        return JAVA_WIRE.encode(beat)
    if kind == CONFIGURATION:
        return other_sender(5, 6)
    if kind == REQUEST:
        request = RepairRequest(
            header=header,
            address=bytes(4),
            target_id=1,
            target_start=1,
            first_seq=1,
            last_seq=2,
            host="h",
            application="a",
        )
        return JAVA_WIRE.encode(request)
    return JAVA_WIRE.header(header) + bytes(12) + b"\0\0\0\1" + b"\0\0\0\5"


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", DropReason.SHORT),
        (valid(HEARTBEAT)[:19], DropReason.SHORT),
        (valid(UPDATE)[:20], DropReason.SHORT),
        (valid(UPDATE)[:27], DropReason.SHORT),
        (b"\x02" + valid(UPDATE)[1:], DropReason.VERSION),
        (b"\x00" + valid(HEARTBEAT)[1:], DropReason.VERSION),
        (valid(HEARTBEAT)[:2] + b"\x00" + valid(HEARTBEAT)[3:], DropReason.KIND),
        (valid(HEARTBEAT)[:2] + b"\x0a" + valid(HEARTBEAT)[3:], DropReason.KIND),
        (valid(HEARTBEAT)[:43], DropReason.BODY),
        (valid(HEARTBEAT) + b"\0", DropReason.BODY),
        (valid(GOODBYE)[:30], DropReason.BODY),
        (valid(CONFIGURATION)[:-1], DropReason.BODY),
        (valid(REQUEST)[:-1], DropReason.BODY),
        (valid(REQUEST) + b"\0", DropReason.BODY),
        (valid(NAK)[:-1], DropReason.BODY),
        (valid(NAK)[:32] + b"\x7f\xff\xff\xff" + valid(NAK)[36:], DropReason.BODY),
        (valid(UPDATE)[:-1], DropReason.UPDATES),
        (valid(UPDATE) + b"\0", DropReason.UPDATES),
        (valid(UPDATE)[:24] + b"\xff\xff\xff\xff" + valid(UPDATE)[28:], DropReason.UPDATES),
    ],
)
def test_malformed_datagrams_are_counted_by_reason_and_have_no_other_effect(
    bus: Any, data: bytes, fault: DropReason
) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.publish(publisher, "/1")
    subscriber.receive(data, GROUP, bus.now_ns)
    bus.publish(publisher, "/2")
    assert bus.subjects(subscriber) == ["/1", "/2"]
    faults = {name: count for name, count in subscriber.statistics().faults.items() if count}
    assert faults == {fault.value: 1}


def test_good_datagrams_of_every_kind_are_not_counted_as_faults(bus: Any) -> None:
    subscriber = bus.subscriber()
    for kind in (CONFIGURATION, HEARTBEAT, UPDATE, RETRANSMISSION, REQUEST, NAK, GOODBYE):
        subscriber.receive(valid(kind), GROUP, bus.now_ns)
    faults = {name: count for name, count in subscriber.statistics().faults.items() if count}
    assert faults == {DropReason.DUPLICATE.value: 1}


def test_an_update_with_an_invalid_subject_is_counted_and_skipped(bus: Any) -> None:
    subscriber = bus.subscriber()
    data = valid(UPDATE).replace(b"/a", b"xa")
    subscriber.receive(data, GROUP, bus.now_ns)
    bus.settle()
    assert bus.updates(subscriber) == []
    assert subscriber.statistics().faults[DropReason.SUBJECT.value] == 1


class Listener:
    """Records trace events."""

    def __init__(self) -> None:
        self.reasons: list[DropReason] = []

    def emit(self, event: TraceEvent) -> None:
        assert isinstance(event, DatagramDropped)
        self.reasons.append(event.reason)


def test_dropped_datagrams_are_traced(bus: Any) -> None:
    listener = Listener()
    connection = GroupConnection(
        group=GROUP,
        identity=SenderIdentity(address=bytes(4), sender_id=1, start_ms=1, application_id=1),
        rng=Random(1),
        now_ns=0,
        tracer=listener,
    )
    connection.subscribe("/...", None)
    for data in (b"", valid(UPDATE), valid(UPDATE)):
        connection.receive(data, GROUP, 0)
    assert listener.reasons == [DropReason.MALFORMED, DropReason.DUPLICATE]


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=100), max_size=10), st.data())
def test_no_bytes_whatsoever_raise_or_stop_a_connection(
    junk: list[bytes], data: st.DataObject
) -> None:
    connection = GroupConnection(
        group=GROUP,
        identity=SenderIdentity(address=bytes(4), sender_id=1, start_ms=1, application_id=1),
        rng=Random(1),
        now_ns=0,
    )
    connection.subscribe("/...", None)
    connection.open_publisher(0)
    for piece in junk:
        kind = data.draw(st.integers(1, 7))
        spoiled = bytearray(valid(kind))
        index = data.draw(st.integers(0, len(spoiled) - 1))
        spoiled[index : index + 3] = piece[:3]
        connection.receive(bytes(spoiled), GROUP, 0)
        connection.receive(b"\x01\x00" + bytes([kind]) + piece, GROUP, 0)
    connection.advance(10**9)
    connection.take_events()
    connection.take_transmits()
    header = DatagramHeader(kind=1, address=b"good", sender_id=1, start=1, application_id=1)
    body = JAVA_WIRE.subject_head(b"/good") + bytes(4)
    good = JAVA_WIRE.header(header) + b"\0\0\0\1\0\0\0\1" + body
    connection.receive(good, GROUP, 10**9)
    (event,) = connection.take_events()
    assert isinstance(event, Delivered)
    assert event.updates == [("/good", b"")]


# -- the rest


def test_a_failed_socket_is_reported_and_the_data_can_still_be_requested(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.publish(publisher, "/1")
    publisher.publish("/2", b"", bus.now_ns)
    publisher.take_transmits()
    publisher.failed(Direction.SEND, "network is unreachable")
    bus.publish(publisher, "/3")
    bus.run_ms(50)
    assert bus.subjects(subscriber) == ["/1", "/2", "/3"]
    (event,) = bus.events_of(publisher, CommunicationFailed)
    assert (event.direction, event.reason) == (Direction.SEND, "network is unreachable")


def test_statistics_count_both_directions(bus: Any) -> None:
    subscriber = bus.subscriber("/a")
    publisher = bus.publisher()
    publisher.publish_many([("/a", b"1"), ("/b", b"2"), ("/a", b"3")], 0, bus.now_ns)
    bus.settle()
    sent, received = publisher.statistics(), subscriber.statistics()
    (datagram,) = bus.sent_of(UPDATE)
    assert (sent.sent_update_count, sent.sent_datagram_count) == (3, 1)
    assert sent.sent_byte_count == len(datagram) == sent.cache_bytes
    assert (sent.publisher_count, sent.cache_count, sent.last_seq) == (1, 1, 1)
    assert sent.control_sent_count == 2
    assert (received.received_update_count, received.received_datagram_count) == (3, 1)
    assert received.received_byte_count == len(datagram)
    assert (received.delivered_update_count, received.sender_count) == (2, 1)


def test_held_updates_are_sent_by_a_flush(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher(holdback_delay_ms=1000, holdback_threshold_per_s=0)
    bus.publish(publisher, "/1", "/2", "/3")
    assert bus.subjects(subscriber) == ["/1"]
    publisher.flush(bus.now_ns)
    bus.settle()
    assert bus.subjects(subscriber) == ["/1", "/2", "/3"]
    assert publisher.ready_ns(bus.now_ns) == bus.now_ns


def test_the_defaults_make_a_connection() -> None:
    connection = GroupConnection(
        group=Address("ff02::7", 4711),
        identity=SenderIdentity(address=bytes(4), sender_id=1, start_ms=1, application_id=1),
        rng=Random(1),
        now_ns=0,
    )
    connection.open_publisher(0)
    configuration = JAVA_WIRE.decode(connection.take_transmits()[0].data)
    assert isinstance(configuration, Configuration)
    assert configuration.application == DistributorConfig().application
    assert len(configuration.group) == 4
    assert PYCAST_WIRE.address(configuration.group) != configuration.group


def test_segments_are_delivered_as_single_datagrams_are(bus: Any) -> None:
    publisher = bus.publisher()
    single, train = bus.subscriber("/a/*"), bus.subscriber("/a/*")
    bus.publish(publisher, "/a/1", "/b/1")
    for subject in ("/a/1", "/a/1", "/a/2", "/b/1", "/a/1", "/a/1"):
        publisher.publish(subject, b"xyz", bus.now_ns)
    datagrams = publisher.take_datagrams()
    # One is missing, one comes twice, one is from another time, and the last one is cut.
    datagrams = [*datagrams[:2], *datagrams[1:4], datagrams[5], b"\2" + datagrams[4][1:]]
    datagrams.append(datagrams[0][:-3])
    for datagram in [*datagrams, b""]:
        single.receive(datagram, GROUP, bus.now_ns)
    train.receive_segments(b"".join(datagrams), len(datagrams[0]), GROUP, bus.now_ns)
    train.receive_segments(b"", 0, GROUP, bus.now_ns)
    bus.settle()
    assert bus.subjects(train) == ["/a/1", "/a/1", "/a/1", "/a/2"]
    assert bus.events[train] == bus.events[single]
    assert train.statistics() == single.statistics()
    assert train.statistics().missing_count == 1
    assert train.statistics().faults["short"] == train.statistics().faults["version"] == 1


def test_datagrams_may_wait_for_more_while_one_is_held(bus: Any) -> None:
    publisher = bus.publisher(holdback_delay_ms=10, holdback_threshold_per_s=0)
    assert not publisher.has_ready
    assert not publisher.may_send_later(10_000)
    bus.publish(publisher, "/a")
    publisher.publish("/a", b"", bus.now_ns)
    assert publisher.is_holding
    assert not publisher.has_ready
    publisher.publish("/a", bytes(7750), bus.now_ns)
    assert publisher.has_ready
    assert publisher.may_send_later(10_000)
    publisher.publish("/a", bytes(7750), bus.now_ns)
    assert not publisher.may_send_later(7750)
    assert publisher.packer.count == 1
