"""A lane: frames in order, listed while there is something new, and each update accounted for."""

from __future__ import annotations

from skerry.engine.dispatch.client_queue import ClientQueue, Tally
from skerry.protocol.access.wire import OldWire, Wire


def make() -> tuple[ClientQueue, list[ClientQueue]]:
    listed: list[ClientQueue] = []
    return ClientQueue(2, Wire(), listed), listed


def test_frames_are_taken_in_order_and_once() -> None:
    queue, _ = make()
    tally = Tally()
    queue.add(b"one")
    queue.deliver(b"two", tally)
    queue.add(b"three")
    assert queue.size == 11
    assert queue.take() == b"onetwothree"
    assert queue.size == 0
    queue.add(b"four")
    assert queue.take() == b"four"


def test_a_queue_is_listed_once_until_the_node_takes_it() -> None:
    queue, listed = make()
    queue.add(b"one")
    queue.deliver(b"two", Tally())
    assert listed == [queue]
    listed.clear()
    queue.unlisted()
    queue.deliver(b"three", Tally())
    assert listed == [queue]


def test_a_queue_is_listed_again_only_when_something_waits() -> None:
    queue, listed = make()
    queue.relist()
    assert listed == []
    queue.add(b"one")
    queue.unlisted()
    listed.clear()
    queue.relist()
    queue.relist()
    assert listed == [queue]


def test_updates_are_delivered_by_the_tally_of_their_type() -> None:
    queue, _ = make()
    boats, cars = Tally(), Tally()
    for tally in (boats, boats, cars, boats):
        queue.deliver(b"x", tally)
    queue.add(b"a message is not one")
    assert (boats.queued, cars.queued, queue.queued_count) == (3, 1, 4)
    queue.take()
    assert (boats.delivered, cars.delivered, queue.tally.delivered) == (3, 1, 4)
    assert (boats.queued, cars.queued, queue.queued_count) == (0, 0, 0)
    assert (queue.sent_count, queue.sent_bytes) == (5, 4 + len("a message is not one"))


def test_queued_updates_expire_with_their_client() -> None:
    queue, _ = make()
    boats = Tally()
    queue.deliver(b"x", boats)
    queue.deliver(b"y", boats)
    queue.expire()
    assert (boats.expired, queue.tally.expired, boats.delivered) == (2, 2, 0)
    assert (queue.size, queue.waiting_count, queue.sent_bytes) == (0, 0, 0)
    queue.expire()
    assert boats.expired == 2


def test_updates_that_are_written_as_text_are_queued_until_all_is_written() -> None:
    queue, _ = make()
    boats = Tally()
    queue.deliver(b"x", boats)
    queue.begin_writing()
    queue.deliver(b"y", boats)
    assert (boats.queued, queue.queued_count) == (2, 2)
    queue.written(False, 1)
    assert (boats.queued, queue.queued_count) == (2, 2)
    queue.written(True, 1)
    assert (boats.queued, queue.queued_count, boats.delivered) == (1, 1, 1)
    queue.begin_writing()
    queue.expire()
    assert (boats.queued, queue.queued_count, boats.expired) == (0, 0, 1)


def test_the_peak_is_of_what_waited_at_once() -> None:
    queue, _ = make()
    queue.add(b"x" * 100)
    queue.take()
    queue.add(b"x" * 30)
    queue.take()
    assert queue.size_peak == 100


def test_the_bytes_of_messages_are_counted_without_the_largest_one() -> None:
    queue, _ = make()
    counts = []
    for size in (100, 10, 300):
        queue.add(b"m" * size)
        counts.append(int(queue.message_bytes))
    assert counts == [0, 10, 110]
    queue.take()
    queue.add(b"m")
    assert queue.message_bytes == 0


def test_only_version_2_takes_the_common_frames() -> None:
    assert ClientQueue(2, Wire(), []).is_framed
    assert not ClientQueue(2, OldWire(), []).is_framed


def test_updates_of_one_read_are_accounted_for_like_single_ones() -> None:
    queue, listed = make()
    boats, cars = Tally(), Tally()
    queue.deliver(b"a", boats)
    queue.deliver_run(b"bc", 2, boats)
    queue.deliver_run(b"def", 3, cars)
    assert (boats.queued, cars.queued) == (3, 3)
    assert (queue.waiting_count, queue.frame_count, queue.size) == (6, 6, 6)
    assert queue.tally.due == 5, "the first was counted by who delivered it"
    assert listed == [queue]
    assert queue.take() == b"abcdef"
    assert (queue.sent_count, queue.sent_bytes, queue.size_peak) == (6, 6, 6)
    assert (boats.delivered, cars.delivered) == (3, 3)
    queue.deliver_run(b"gh", 2, cars)
    queue.expire()
    assert (cars.expired, queue.size) == (2, 0)
