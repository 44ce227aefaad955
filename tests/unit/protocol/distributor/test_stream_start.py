"""The beginning of a stream: nothing that is published after a subscription is missing in silence,
and a subscriber that joins late requests nothing that was published before.

No test depends on clocks that agree, except those about Java programs, which cannot be asked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.limits import DISTRIBUTOR_GAP_COUNT_MAX
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import (
    LossReason,
    SenderFound,
    SenderRemoved,
    StartUnknown,
    UpdatesLost,
)
from skerry.protocol.distributor.messages import (
    CONFIGURATION,
    GOODBYE,
    HEARTBEAT,
    NAK,
    POSITION,
    POSITION_REQUEST,
    REQUEST,
    RETRANSMISSION,
    UPDATE,
)
from skerry.protocol.distributor.sending.flow import DISTRIBUTOR_POSITION_COUNT_MAX

from .conftest import MS, Bus

COUNT = 10


def losing_from(publisher: GroupConnection, *kinds: int, count: int = 10**9) -> Any:
    """Drops the first `count` datagrams of these kinds on their way to others."""
    left = {"count": count}

    def drop(source: GroupConnection, to: GroupConnection, data: bytes) -> bool:
        if to is source or data[2] not in kinds or data[4:16] != own(publisher):
            return False
        left["count"] -= 1
        return left["count"] >= 0

    return drop


def losing_all(*kinds: int) -> Any:
    return lambda _source, _to, data: data[2] in kinds


def own(connection: GroupConnection) -> bytes:
    mine = connection.identity
    start = (mine.start_ms & 0xFFFFFFFF).to_bytes(4, "big")
    return mine.address + mine.sender_id.to_bytes(4, "big") + start


def numbered(count: int = COUNT) -> list[str]:
    return [f"/{number}" for number in range(count)]


SKEWS_MS = [0, 15, 1000, -1000, 3_600_000, -3_600_000, 2**31]
"""By how much the clock of the publisher is ahead."""


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
@pytest.mark.parametrize("listened_ms", [0, 1, 100, 5000, 8999, 60_000])
def test_datagrams_of_a_new_sender_before_the_first_received_one_are_requested(
    bus: Any, listened_ms: int, skew_ms: int
) -> None:
    subscriber = bus.subscriber()
    bus.run_ms(listened_ms)
    bus.wall_offset_ns += skew_ms * MS
    publisher = bus.join()
    bus.drop = losing_all(CONFIGURATION, HEARTBEAT)
    publisher.open_publisher(bus.now_ns)
    bus.settle()
    bus.drop = losing_from(publisher, UPDATE, count=3)
    bus.publish(publisher, *numbered())
    bus.run_ms(100)
    assert bus.subjects(subscriber) == numbered()
    assert bus.events_of(subscriber, UpdatesLost) == []


@pytest.mark.parametrize("kind", [HEARTBEAT, GOODBYE])
@pytest.mark.parametrize("skew_ms", SKEWS_MS)
def test_a_single_update_is_requested_when_only_a_heartbeat_arrives(
    bus: Any, kind: int, skew_ms: int
) -> None:
    subscriber = bus.subscriber()
    bus.run_ms(100)
    bus.wall_offset_ns += skew_ms * MS
    publisher = bus.join()
    bus.drop = losing_all(*range(8))
    publisher.open_publisher(bus.now_ns)
    bus.publish(publisher, "/only")
    if kind == GOODBYE:
        publisher.close(bus.now_ns)
        bus.settle()
    bus.drop = losing_all()
    bus.run_ms(400)
    assert bus.subjects(subscriber) == ["/only"]


def test_the_lost_start_of_a_new_sender_is_reported(bus: Any) -> None:
    subscriber = bus.subscriber()
    bus.run_ms(1)
    publisher = bus.join()
    publisher.open_publisher(bus.now_ns)
    bus.drop = losing_from(publisher, CONFIGURATION, HEARTBEAT, UPDATE, RETRANSMISSION)
    bus.publish(publisher, "/1", "/2")
    publisher.close(bus.now_ns)
    bus.run_ms(60_000)
    assert bus.subjects(subscriber) == []
    (lost,) = bus.events_of(subscriber, UpdatesLost)
    assert (lost.first_seq, lost.stop_seq, lost.reason) == (1, 3, LossReason.REMOVED)
    assert bus.events_of(subscriber, SenderRemoved) == [], "it was never announced"


@pytest.mark.parametrize("answer", [POSITION, NAK])
def test_a_sender_of_which_only_an_answer_to_another_receiver_arrived_is_reported(
    bus: Any, answer: int
) -> None:
    subscriber, other = bus.subscriber(), bus.subscriber()
    bus.run_ms(1)
    publisher = bus.join(cache_bytes_max=1 if answer == NAK else 10_000_000)
    lost_seqs = [1, 2] if answer == NAK else [1]

    def drop(source: GroupConnection, to: GroupConnection, data: bytes) -> bool:
        if source is not publisher or to is source:
            return False
        is_first = data[2] == UPDATE and int.from_bytes(data[20:24], "big") in lost_seqs
        is_lost_by_both = is_first or (data[2] == HEARTBEAT and answer == POSITION)
        return is_lost_by_both or (to is subscriber and data[2] != answer)

    publisher.open_publisher(bus.now_ns)
    bus.drop = drop
    bus.publish(publisher, *numbered())
    bus.run_ms(200)
    assert answer in bus.sent_kinds(publisher)
    publisher.close(bus.now_ns)
    bus.run_ms(60_000)
    assert bus.subjects(subscriber) == []
    assert len(bus.events_of(subscriber, StartUnknown)) == 1
    assert bus.subjects(other)[-1] == numbered()[-1]


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
@pytest.mark.parametrize("pause_ms", [0, 1, 100, 5000, 60_000])
@pytest.mark.parametrize("first_ms", [0, 100, 20_000])
def test_a_late_subscriber_requests_no_earlier_datagrams(
    bus: Any, pause_ms: int, first_ms: int, skew_ms: int
) -> None:
    publisher = bus.publisher()
    bus.publish(publisher, *numbered())
    bus.run_ms(pause_ms + 1)
    bus.wall_offset_ns += skew_ms * MS
    subscriber = bus.subscriber()
    bus.run_ms(first_ms)
    bus.publish(publisher, "/late")
    bus.run_ms(20_000)
    assert bus.subjects(subscriber) == ["/late"]
    assert bus.sent_of(REQUEST) == []
    assert bus.events_of(subscriber, UpdatesLost) == []


def test_a_subscriber_that_joins_without_the_publisher_requests_no_earlier_datagrams(
    bus: Any,
) -> None:
    publisher = bus.publisher()
    bus.publish(publisher, *numbered())
    publisher.close_publisher(bus.now_ns)
    bus.run_ms(5000)
    subscriber = bus.subscriber()
    bus.run_ms(60_000)
    publisher.open_publisher(bus.now_ns)
    bus.publish(publisher, "/late")
    bus.run_ms(5000)
    assert bus.subjects(subscriber) == ["/late"]
    assert bus.sent_of(REQUEST) == []


def test_a_new_subscription_requests_nothing_from_the_time_between(bus: Any) -> None:
    subscriber = bus.join()
    handle = subscriber.subscribe("/...", None, bus.now_ns)
    publisher = bus.publisher()
    bus.publish(publisher, "/1")
    subscriber.unsubscribe(handle)
    bus.publish(publisher, "/2", "/3")
    publisher.close_publisher(bus.now_ns)
    bus.run_ms(60_000)
    subscriber.subscribe("/...", None, bus.now_ns)
    bus.run_ms(60_000)
    publisher.open_publisher(bus.now_ns)
    bus.publish(publisher, "/4")
    bus.run_ms(5000)
    assert bus.subjects(subscriber) == ["/1", "/4"]
    assert bus.sent_of(REQUEST) == []


def test_a_sender_with_rare_messages_is_not_taken_for_a_new_one(bus: Any) -> None:
    bus.wall_offset_ns = None
    publisher = bus.publisher(heartbeat_interval_ms=60_000, configuration_interval_ms=60_000)
    bus.publish(publisher, *numbered())
    bus.run_ms(10_000)
    subscriber = bus.subscriber()
    bus.drop = losing_all(HEARTBEAT)
    bus.run_ms(60_000)
    bus.publish(publisher, "/late")
    bus.run_ms(5000)
    assert bus.subjects(subscriber) == ["/late"]
    assert bus.sent_of(REQUEST) == []


def test_a_sender_whose_stream_was_forgotten_is_not_taken_for_a_new_one(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.publisher()
    bus.publish(publisher, *numbered())
    publisher.close_publisher(bus.now_ns)
    bus.run_ms(60_000)
    # After so many other senders the publisher is forgotten.
    data = bus.sent_of(UPDATE)[0]
    for number in range(2001):
        stranger = data[:8] + number.to_bytes(4, "big") + data[12:]
        subscriber.receive(stranger, subscriber._group, bus.now_ns)
    bus.events[subscriber].clear()
    bus.run_ms(120_000)
    publisher.open_publisher(bus.now_ns)
    bus.drop = losing_from(publisher, UPDATE, count=1)
    bus.publish(publisher, "/a", "/b")
    bus.run_ms(5000)
    assert bus.subjects(subscriber)[-1] == "/b"
    assert "/0" not in bus.subjects(subscriber)[-2:]
    assert not set(bus.subjects(subscriber)) & set(numbered()[1:])


def test_an_announcement_is_repeated_early(bus: Any) -> None:
    started_ns = bus.now_ns
    publisher = bus.publisher()
    times = []
    for _ in range(800):
        bus.sent.clear()
        bus.run_ms(10)
        if CONFIGURATION in bus.sent_kinds(publisher):
            times.append((bus.now_ns - started_ns) // MS)
    assert times == [100, 300, 1000, 4000, 7000]


def test_a_program_is_known_early_though_its_first_announcement_was_lost(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.join(application="feed")
    bus.drop = losing_from(publisher, CONFIGURATION, count=1)
    publisher.open_publisher(bus.now_ns)
    bus.run_ms(100)
    (found,) = subscriber.known_senders()
    assert found.sender.application == "feed"


# -- where a receiver joined


def test_a_subscriber_of_a_running_stream_receives_losses_since_it_joined_and_nothing_before(
    bus: Any,
) -> None:
    publisher = bus.publisher()
    for number in range(10):
        bus.publish(publisher, f"/{number}")
        bus.run_ms(10)
    subscriber = bus.subscriber()
    bus.drop = losing_from(publisher, UPDATE, count=5)
    for number in range(10, 20):
        bus.publish(publisher, f"/{number}")
        bus.run_ms(10)
    bus.run_ms(100)
    assert bus.subjects(subscriber) == [f"/{number}" for number in range(10, 20)]
    assert bus.events_of(subscriber, StartUnknown) == []


def test_a_new_subscription_receives_what_was_lost_since_then(bus: Any) -> None:
    subscriber = bus.join()
    handle = subscriber.subscribe("/...", None, bus.now_ns)
    publisher = bus.publisher()
    bus.publish(publisher, "/1")
    subscriber.unsubscribe(handle)
    bus.publish(publisher, "/2")
    bus.run_ms(10)
    subscriber.subscribe("/...", None, bus.now_ns)
    bus.drop = losing_from(publisher, UPDATE, count=1)
    bus.publish(publisher, "/3", "/4")
    bus.run_ms(200)
    assert bus.subjects(subscriber) == ["/1", "/3", "/4"]


def test_a_lost_position_is_requested_again(bus: Any) -> None:
    publisher = bus.publisher()
    bus.publish(publisher, "/1")
    bus.run_ms(10)
    subscriber = bus.subscriber()
    bus.drop = losing_from(publisher, UPDATE, POSITION, count=4)
    bus.publish(publisher, "/2", "/3")
    bus.run_ms(1000)
    assert bus.subjects(subscriber) == ["/2", "/3"]
    assert len(bus.sent_of(POSITION)) == 4


def test_a_sender_that_never_answers_is_reported_and_delivered(bus: Any) -> None:
    publisher = bus.publisher()
    bus.publish(publisher, "/1", "/2")
    bus.run_ms(10)
    subscriber = bus.subscriber()
    bus.drop = losing_all(POSITION)
    bus.publish(publisher, "/3")
    bus.run_ms(10_000)
    assert bus.subjects(subscriber) == ["/3"]
    (unknown,) = bus.events_of(subscriber, StartUnknown)
    assert (unknown.first_seq, unknown.stop_seq) == (1, 3)
    assert len(bus.sent_of(POSITION_REQUEST)) == 16
    assert bus.events_of(subscriber, UpdatesLost) == []


def test_losses_since_the_subscription_are_reported(bus: Any) -> None:
    publisher = bus.publisher(cache_bytes_max=100)
    bus.publish(publisher, "/before")
    bus.run_ms(10)
    subscriber = bus.subscriber()
    bus.drop = losing_from(publisher, UPDATE, count=5)
    bus.publish(publisher, *numbered())
    bus.run_ms(1000)
    # Which of those that are gone was the first one, its sender does not know any more.
    (lost,) = bus.events_of(subscriber, UpdatesLost)
    assert (lost.first_seq, lost.stop_seq, lost.reason) == (6, 7, LossReason.NAK)
    assert bus.subjects(subscriber) == numbered()[5:]


def test_all_losses_of_a_stream_that_began_after_the_subscription_are_reported(
    bus: Any,
) -> None:
    subscriber = bus.subscriber()
    bus.run_ms(10)
    publisher = bus.join(cache_bytes_max=100)
    bus.drop = losing_all(*range(10))
    publisher.open_publisher(bus.now_ns)
    bus.publish(publisher, *numbered())
    bus.run_ms(10)
    late = bus.subscriber()
    bus.drop = losing_all()
    bus.run_ms(1000)
    (lost,) = bus.events_of(subscriber, UpdatesLost)
    assert (lost.first_seq, lost.reason) == (1, LossReason.NAK)
    assert bus.subjects(subscriber) == numbered()[lost.stop_seq - 1 :]
    assert bus.events_of(late, UpdatesLost) == bus.subjects(late) == []


def test_a_stream_that_is_too_long_to_be_requested_is_reported(bus: Any) -> None:
    subscriber = bus.subscriber()
    bus.run_ms(10)
    publisher = bus.publisher()
    bus.members.remove(subscriber)
    for _ in range(DISTRIBUTOR_GAP_COUNT_MAX + 10):
        publisher.publish("/a", b"", bus.now_ns)
    publisher.take_transmits()
    bus.members.append(subscriber)
    subscriber._senders.remotes.clear()
    bus.publish(publisher, "/last")
    bus.run_ms(2000)
    first, *_ = bus.events_of(subscriber, UpdatesLost)
    assert (first.first_seq, first.stop_seq, first.reason) == (1, 11, LossReason.JUMP)
    assert bus.subjects(subscriber)[-1] == "/last"


def test_datagrams_that_wait_for_a_position_are_bounded(bus: Any) -> None:
    publisher = bus.publisher()
    bus.publish(publisher, "/1")
    bus.run_ms(10)
    subscriber = bus.subscriber(waiting_bytes_max=1000)
    bus.drop = losing_all(POSITION)
    for number in range(100):
        bus.publish(publisher, f"/{number}")
        assert subscriber.statistics().waiting_bytes <= 1000
    assert bus.subjects(subscriber) == [f"/{number}" for number in range(100)]
    (unknown,) = bus.events_of(subscriber, StartUnknown)
    assert (unknown.first_seq, unknown.stop_seq) == (1, 2)


def test_forged_senders_cause_few_position_requests(bus: Any) -> None:
    publisher = bus.publisher()
    subscriber = bus.subscriber()
    bus.publish(publisher, "/1")
    data = bytearray(bus.sent_of(UPDATE)[0])
    data[20:24] = (7).to_bytes(4, "big")
    for number in range(900):
        data[8:12] = number.to_bytes(4, "big")
        subscriber.receive(bytes(data), subscriber._group, bus.now_ns)
    bus.run_ms(199)
    assert len(bus.sent_of(POSITION_REQUEST)) <= DISTRIBUTOR_POSITION_COUNT_MAX
    bus.run_ms(2000)
    assert len(bus.sent_of(POSITION_REQUEST)) <= 11 * DISTRIBUTOR_POSITION_COUNT_MAX


def test_many_senders_with_different_deadlines_are_advanced_together(bus: Any) -> None:
    publisher = bus.publisher()
    subscriber = bus.subscriber()
    bus.publish(publisher, "/1")
    data = bytearray(bus.sent_of(UPDATE)[0])
    data[20:24] = (7).to_bytes(4, "big")
    looks = 0
    for number in range(2000):
        if number < 900:
            data[8:12] = number.to_bytes(4, "big")
            subscriber.receive(bytes(data), subscriber._group, bus.now_ns)
        bus.now_ns += MS // 2
        due_ns = subscriber.deadline_ns()
        if due_ns is not None and due_ns <= bus.now_ns:
            looks += 1
            subscriber.advance(bus.now_ns)
    assert looks < 200, "in a second"


def test_a_flood_of_position_requests_causes_few_answers(bus: Any) -> None:
    publisher = bus.publisher()
    bus.publish(publisher, "/1")
    bus.run_ms(10)
    subscriber = bus.subscriber()
    bus.publish(publisher, "/2")
    bus.run_ms(0)
    (request,) = bus.sent_of(POSITION_REQUEST)
    bus.sent.clear()
    for _ in range(1000):
        publisher.receive(request, subscriber._group, bus.now_ns)
    bus.settle()
    assert len(bus.sent_of(POSITION)) < DISTRIBUTOR_POSITION_COUNT_MAX


# -- senders that cannot be asked


def java(bus: Any, connection: GroupConnection) -> GroupConnection:
    """Let a connection be a Java program to the others."""
    mine = connection.identity
    connection._sender.become(replace(mine, application_id=5), bus.now_ns)
    return connection


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
@pytest.mark.parametrize("listened_ms", [0, 100, 5000, 60_000])
def test_the_lost_start_of_a_java_sender_is_requested_or_reported(
    bus: Any, listened_ms: int, skew_ms: int
) -> None:
    subscriber = bus.subscriber()
    bus.run_ms(listened_ms)
    bus.wall_offset_ns += skew_ms * MS
    publisher = java(bus, bus.join())
    bus.drop = losing_all(CONFIGURATION, HEARTBEAT)
    publisher.open_publisher(bus.now_ns)
    bus.settle()
    bus.drop = losing_from(publisher, UPDATE, count=3)
    bus.publish(publisher, *numbered())
    bus.run_ms(100)
    unknown = [(one.first_seq, one.stop_seq) for one in bus.events_of(subscriber, StartUnknown)]
    if unknown:
        assert listened_ms < 9000
        assert unknown == [(1, 4)]
        assert bus.subjects(subscriber) == numbered()[3:]
    else:
        assert bus.subjects(subscriber) == numbered()
    assert bus.sent_of(POSITION_REQUEST) == []


def test_a_late_subscriber_of_a_java_stream_receives_an_event_about_its_start(bus: Any) -> None:
    publisher = java(bus, bus.publisher())
    bus.publish(publisher, *numbered())
    bus.run_ms(60_000)
    subscriber = bus.subscriber()
    bus.run_ms(3000)
    bus.publish(publisher, "/late")
    assert bus.subjects(subscriber) == ["/late"]
    (unknown,) = bus.events_of(subscriber, StartUnknown)
    assert (unknown.first_seq, unknown.stop_seq) == (1, COUNT + 1)
    assert bus.sent_of(REQUEST) == []


def test_a_sender_of_which_only_the_announcement_arrived_is_reported(bus: Any) -> None:
    subscriber = bus.subscriber()
    publisher = bus.join()
    bus.drop = losing_from(publisher, HEARTBEAT, UPDATE)
    publisher.open_publisher(bus.now_ns)
    bus.publish(publisher, "/1")
    bus.members.remove(publisher)
    bus.run_ms(60_000)
    (unknown,) = bus.events_of(subscriber, StartUnknown)
    assert (unknown.first_seq, unknown.stop_seq) == (1, 1)


def test_a_connection_without_its_own_data_requests_nothing_from_itself(bus: Any) -> None:
    connection = bus.join()
    connection._control._hears_own = False
    connection.subscribe("/...", None, bus.now_ns)
    connection.open_publisher(bus.now_ns)
    other = bus.subscriber()
    bus.drop = lambda source, to, data: source is to and data[2] in (UPDATE, RETRANSMISSION)
    bus.publish(connection, "/1", "/2")
    bus.run_ms(20_000)
    assert bus.sent_of(REQUEST) == bus.sent_of(POSITION_REQUEST) == []
    assert bus.events_of(connection, UpdatesLost) == []
    connection.close_publisher(bus.now_ns)
    bus.run_ms(60_000)
    assert bus.events[connection] == [], "it is not a sender to itself"
    assert len(bus.events_of(other, SenderFound)) == 1


# -- at random


@given(
    skew_ms=st.integers(-(2**32), 2**32),
    joins_ms=st.integers(0, 9000),
    first_ms=st.integers(0, 9000),
    lost_count=st.integers(0, 30),
    gaps_ms=st.lists(st.sampled_from([0, 1, 50, 500, 4000]), min_size=1, max_size=12),
    is_closed=st.booleans(),
)
def test_only_updates_after_the_subscription_are_delivered(
    skew_ms: int,
    joins_ms: int,
    first_ms: int,
    lost_count: int,
    gaps_ms: list[int],
    is_closed: bool,
) -> None:
    """A subscriber joins at one time, and a publisher starts at another, before or after. The first
    datagrams of the publisher that the subscriber would receive are lost."""
    bus = Bus()
    start_ns = bus.now_ns
    publisher = subscriber = None
    wanted = []
    losing = LosesFirst(lost_count)
    for at_ms in sorted({joins_ms, first_ms}):
        bus.run_ms(max(0, at_ms - (bus.now_ns - start_ns) // MS))
        if at_ms == joins_ms:
            subscriber = bus.subscriber()
            losing.target = subscriber
        if at_ms == first_ms:
            bus.wall_offset_ns += skew_ms * MS
            losing.source = publisher = bus.join()
            bus.drop = losing
            publisher.open_publisher(bus.now_ns)
            bus.settle()
        if publisher is not None:
            for number, gap_ms in enumerate(gaps_ms):
                subject = f"/{at_ms}/{number}"
                bus.run_ms(gap_ms)
                bus.publish(publisher, subject)
                if subscriber is not None:
                    wanted.append(subject)
            # More than the clocks of two computers drift apart in all this time.
            bus.run_ms(100)
    assert publisher is not None
    assert subscriber is not None
    if is_closed:
        publisher.close(bus.now_ns)
    bus.run_ms(60_000)
    got = bus.subjects(subscriber)
    if bus.events_of(subscriber, StartUnknown):
        # So much was lost that no answer arrived before the publisher was gone.
        assert lost_count > 1
        assert got == wanted[len(wanted) - len(got) :]
    elif losing.count < 0:
        assert got == wanted


class LosesFirst:
    """Drops the first `count` datagrams from one connection to another, whatever they are."""

    def __init__(self, count: int) -> None:
        self.source: GroupConnection | None = None
        self.target: GroupConnection | None = None
        self.count = count

    def __call__(self, source: GroupConnection, to: GroupConnection, _data: bytes) -> bool:
        if source is not self.source or to is not self.target:
            return False
        self.count -= 1
        return self.count >= 0
