"""The beginning of a stream: nothing of a new sender is missing in silence, and a subscriber that
joins late asks for nothing that was published before it."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.protocol.distributor.connection import Connection
from skerry.protocol.distributor.events import LossReason, SenderRemoved, UpdatesLost
from skerry.protocol.distributor.messages import (
    CONFIGURATION,
    GOODBYE,
    HEARTBEAT,
    REQUEST,
    RETRANSMISSION,
    UPDATE,
)

from .conftest import MS

COUNT = 10


def losing_from(publisher: Connection, *kinds: int, count: int = 10**9) -> Any:
    """Drops the first `count` datagrams of these kinds on their way to others."""
    left = {"count": count}

    def drop(source: Connection, to: Connection, data: bytes) -> bool:
        if to is source or data[2] not in kinds or data[4:16] != own(publisher):
            return False
        left["count"] -= 1
        return left["count"] >= 0

    return drop


def losing_all(*kinds: int) -> Any:
    return lambda _source, _to, data: data[2] in kinds


def own(connection: Connection) -> bytes:
    mine = connection.identity
    start = (mine.start_ms & 0xFFFFFFFF).to_bytes(4, "big")
    return mine.address + mine.sender_id.to_bytes(4, "big") + start


def numbered(count: int = COUNT) -> list[str]:
    return [f"/{number}" for number in range(count)]


@pytest.mark.parametrize("listened_ms", [1, 100, 5000, 60_000])
def test_what_a_new_sender_sent_before_its_first_datagram_arrived_is_asked_for(
    bus: Any, listened_ms: int
) -> None:
    subscriber = bus.subscriber()
    bus.run_ms(listened_ms)
    publisher = bus.join()
    bus.drop = losing_all(CONFIGURATION, HEARTBEAT)
    publisher.open_publisher(bus.now_ns)
    bus.settle()
    bus.drop = losing_from(publisher, UPDATE, count=3)
    bus.publish(publisher, *numbered())
    bus.run_ms(100)
    assert bus.subjects(subscriber) == numbered()
    assert bus.events_of(subscriber, UpdatesLost) == []


def test_a_sender_of_another_clock_is_asked_by_who_listened_for_long(bus: Any) -> None:
    subscriber = bus.subscriber()
    bus.run_ms(9000)
    bus.wall_offset_ns -= 3_600_000 * MS
    publisher = bus.join()
    bus.drop = losing_all(CONFIGURATION, HEARTBEAT)
    publisher.open_publisher(bus.now_ns)
    bus.settle()
    bus.drop = losing_from(publisher, UPDATE, count=3)
    bus.publish(publisher, *numbered())
    bus.run_ms(100)
    assert bus.subjects(subscriber) == numbered()


@pytest.mark.parametrize("kind", [HEARTBEAT, GOODBYE])
def test_a_lone_update_is_asked_for_when_only_a_sign_of_life_arrives(bus: Any, kind: int) -> None:
    subscriber = bus.subscriber()
    bus.run_ms(100)
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


def test_what_cannot_be_had_of_a_new_sender_is_told(bus: Any) -> None:
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


@pytest.mark.parametrize("pause_ms", [0, 1, 100, 5000, 60_000])
@pytest.mark.parametrize("first_ms", [0, 100, 20_000])
def test_who_joins_late_asks_for_nothing_that_was_before(
    bus: Any, pause_ms: int, first_ms: int
) -> None:
    publisher = bus.publisher()
    bus.publish(publisher, *numbered())
    bus.run_ms(pause_ms + 1)
    subscriber = bus.subscriber()
    bus.run_ms(first_ms)
    bus.publish(publisher, "/late")
    bus.run_ms(20_000)
    assert bus.subjects(subscriber) == ["/late"]
    assert bus.sent_of(REQUEST) == []
    assert bus.events_of(subscriber, UpdatesLost) == []


def test_who_joins_while_the_publisher_is_away_asks_for_nothing_that_was_before(bus: Any) -> None:
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


def test_who_listens_again_asks_for_nothing_of_the_time_between(bus: Any) -> None:
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


def test_a_sender_that_is_heard_seldom_is_not_taken_for_a_new_one(bus: Any) -> None:
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
    # So many strangers came and went that nobody remembers the publisher.
    data = bus.sent_of(UPDATE)[0]
    for number in range(2001):
        stranger = data[:8] + number.to_bytes(4, "big") + data[12:]
        subscriber.receive(stranger, subscriber._source, bus.now_ns)
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
