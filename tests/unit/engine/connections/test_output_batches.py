"""Updates for a client that receives a stream are delayed a little, to be sent with others."""

from __future__ import annotations

import pytest

import skerry
from skerry.engine.dispatch.client_queue import (
    BATCH_BYTES,
    BATCH_COUNT,
    BATCH_COUNT_MIN,
    BATCH_GAP_NS,
    BATCH_UNDELAYED_COUNT_MAX,
    BATCH_UNDELAYED_COUNT_MIN,
    ClientQueue,
    Tally,
)
from skerry.protocol.access.wire import Wire
from tests.unit.engine.conftest import Guest, Harbour

MS = 1_000_000
TYPES = skerry.define_types(
    """
    struct Price { 1: [key] uint32 id; 2: float64 bid; }
    struct Trade { 1: [key] uint32 id; }
    """
)
Price, Trade = TYPES.Price, TYPES.Trade


def streaming(count: int = BATCH_COUNT_MIN) -> ClientQueue:
    """A lane that has just sent so many updates at once."""
    queue = ClientQueue(2, Wire(), [])
    put(queue, count)
    assert not queue.is_delayed(0, MS)
    hand_out(queue, 0)
    return queue


def hand_out(queue: ClientQueue, now_ns: int) -> bytes:
    queue.note_batch(now_ns)
    return queue.take()


def put(queue: ClientQueue, count: int, size: int = 10) -> None:
    for _ in range(count):
        queue.deliver(bytes(size), Tally())


def test_updates_that_follow_a_batch_are_delayed_until_they_are_due() -> None:
    queue = streaming()
    put(queue, 1)
    assert queue.is_delayed(MS, MS)
    assert queue.batch_due_ns == 2 * MS
    put(queue, 1)
    assert queue.is_delayed(2 * MS - 1, MS)
    assert not queue.is_delayed(2 * MS, MS)
    assert len(hand_out(queue, 2 * MS)) == 20
    assert queue.batch_due_ns == 0


@pytest.mark.parametrize(
    ("count", "now_ns", "delay_ns"),
    [
        (BATCH_COUNT_MIN - 1, MS, MS),
        (BATCH_COUNT_MIN, BATCH_GAP_NS + 1, MS),
        (BATCH_COUNT_MIN, MS, 0),
    ],
    ids=["after few updates", "after a pause", "where no delay is configured"],
)
def test_updates_that_are_not_a_stream_are_not_delayed(
    count: int, now_ns: int, delay_ns: int
) -> None:
    queue = streaming(count)
    put(queue, BATCH_COUNT_MIN)
    assert not queue.is_delayed(now_ns, delay_ns)


def test_a_message_of_the_protocol_is_not_delayed_and_ends_a_delay() -> None:
    queue = streaming()
    put(queue, 1)
    assert queue.is_delayed(1, MS)
    queue.add(b"an answer")
    assert not queue.is_delayed(1, MS)
    assert hand_out(queue, 1).endswith(b"an answer")


@pytest.mark.parametrize("size", [10, BATCH_BYTES // 8])
def test_enough_updates_or_bytes_end_a_delay(size: int) -> None:
    queue = streaming()
    put(queue, 1, size)
    assert queue.is_delayed(1, MS)
    put(queue, min(BATCH_COUNT, BATCH_BYTES // size) - 2, size)
    assert queue.is_delayed(1, MS)
    put(queue, 1, size)
    assert not queue.is_delayed(1, MS)


def test_single_updates_in_quick_succession_are_a_stream() -> None:
    queue = ClientQueue(2, Wire(), [])
    for number in range(BATCH_COUNT_MIN):
        put(queue, 1)
        assert not queue.is_delayed(number * MS, MS)
        hand_out(queue, number * MS)
    put(queue, 1)
    assert queue.is_delayed(BATCH_COUNT_MIN * MS, MS)


def test_slow_single_updates_are_not_a_stream() -> None:
    queue = ClientQueue(2, Wire(), [])
    for number in range(10 * BATCH_COUNT_MIN):
        put(queue, 1)
        assert not queue.is_delayed(number * BATCH_GAP_NS // 2, MS)
        hand_out(queue, number * BATCH_GAP_NS // 2)


def test_a_client_that_publishes_meanwhile_is_not_delayed() -> None:
    queue = streaming()
    queue.source.sequence += 1
    put(queue, 1)
    assert not queue.is_delayed(1, MS)
    hand_out(queue, 1)
    put(queue, 1)
    assert queue.is_delayed(2, MS)


def undelayed_count(queue: ClientQueue) -> int:
    """Writes up to the next one that is delayed."""
    for count in range(BATCH_UNDELAYED_COUNT_MAX + 1):
        put(queue, BATCH_COUNT_MIN)
        if queue.is_delayed(MS, MS):
            return count
        hand_out(queue, MS)
    raise AssertionError("no write is delayed")


def test_a_delay_that_gained_nothing_is_repeated_later_each_time() -> None:
    queue = streaming()
    assert undelayed_count(queue) == 0
    for wanted in (BATCH_UNDELAYED_COUNT_MIN, 12, 36, BATCH_UNDELAYED_COUNT_MAX, 60):
        hand_out(queue, MS)
        assert undelayed_count(queue) == wanted
    put(queue, 1)
    hand_out(queue, MS)
    assert undelayed_count(queue) == 0, "that one gained something"
    hand_out(queue, MS)
    assert undelayed_count(queue) == BATCH_UNDELAYED_COUNT_MIN


class Market:
    """A node with a reader that receives a stream, and two publishers."""

    def __init__(self) -> None:
        self.harbour = Harbour(batch_delay_ns=MS)
        self.reader = self.harbour.guest("reader")
        self.reader.join("Price")
        self.harbour.pump()
        self.writers = [self.harbour.guest(f"writer{n}") for n in range(2)]
        self.publish(self.writers[0], BATCH_COUNT_MIN)

    def publish(self, writer: Guest, count: int) -> None:
        writer.publish(*[Price(id=number, bid=1.0) for number in range(count)])

    def received(self) -> int:
        return len([a for a in self.reader.heard if a.header.type_name == "Price"])


def test_delayed_updates_are_sent_when_they_are_due() -> None:
    market = Market()
    assert market.received() == BATCH_COUNT_MIN
    market.publish(market.writers[0], 2)
    market.publish(market.writers[1], 3)
    assert market.received() == BATCH_COUNT_MIN
    node = market.harbour.node
    assert node.batch_due_ns() == node.deadline_ns() == MS
    market.harbour.wait(0.001)
    assert market.received() == BATCH_COUNT_MIN + 5
    assert node.batch_due_ns() is None
    market.harbour.check()


def test_a_full_batch_for_one_reader_ends_the_delays_of_all() -> None:
    market = Market()
    narrow = market.harbour.guest("narrow")
    narrow.join("Trade")
    market.harbour.pump()
    writer, node = market.writers[0], market.harbour.node
    writer.publish(*[Trade(id=number) for number in range(BATCH_COUNT_MIN)])
    writer.publish(Trade(id=0))
    assert node.batch_due_ns() is not None
    assert len(trades(narrow)) == BATCH_COUNT_MIN
    market.publish(writer, 1)
    market.publish(writer, BATCH_COUNT)
    assert node.batch_due_ns() is None
    assert len(trades(narrow)) == BATCH_COUNT_MIN + 1
    market.harbour.check()


def trades(reader: Guest) -> list[object]:
    return [a for a in reader.heard if a.header.type_name == "Trade"]


def test_a_reader_that_asks_gets_everything_before_the_answer() -> None:
    market = Market()
    market.publish(market.writers[0], 2)
    market.reader.echo(7)
    market.harbour.pump()
    assert market.received() == BATCH_COUNT_MIN + 2
    market.harbour.check()


def test_delayed_updates_of_a_reader_that_ends_are_accounted_for() -> None:
    market = Market()
    market.publish(market.writers[0], 2)
    market.reader.vanish()
    market.harbour.wait(0.001)
    assert market.harbour.node.batch_due_ns() is None
    assert market.harbour.row("Price").expired == 2
    market.harbour.check()
