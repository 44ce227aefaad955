"""A lane: frames in order, listed while there is something new, and each update accounted for."""

from __future__ import annotations

from skerry.engine.dispatch.client_queue import ClientQueue, Tally
from skerry.protocol.access.wire import OldWire, Wire


def make() -> tuple[ClientQueue, list[ClientQueue]]:
    listed: list[ClientQueue] = []
    return ClientQueue(2, Wire(), listed), listed


def test_frames_are_taken_in_order_and_once() -> None:
    lane, _ = make()
    tally = Tally()
    lane.add(b"one")
    lane.deliver(b"two", tally)
    lane.add(b"three")
    assert lane.size == 11
    assert lane.take() == b"onetwothree"
    assert lane.size == 0
    lane.add(b"four")
    assert lane.take() == b"four"


def test_a_lane_is_listed_once_until_somebody_has_looked() -> None:
    lane, listed = make()
    lane.add(b"one")
    lane.deliver(b"two", Tally())
    assert listed == [lane]
    listed.clear()
    lane.unlisted()
    lane.deliver(b"three", Tally())
    assert listed == [lane]


def test_a_lane_is_listed_again_only_when_something_waits() -> None:
    lane, listed = make()
    lane.relist()
    assert listed == []
    lane.add(b"one")
    lane.unlisted()
    listed.clear()
    lane.relist()
    lane.relist()
    assert listed == [lane]


def test_updates_are_delivered_by_the_tally_of_their_type() -> None:
    lane, _ = make()
    boats, cars = Tally(), Tally()
    for tally in (boats, boats, cars, boats):
        lane.deliver(b"x", tally)
    lane.add(b"a message is no update")
    assert [(t is boats, n) for t, n in lane.runs()] == [(True, 2), (False, 1), (True, 1)]
    assert lane.waiting_count == 4
    lane.take()
    assert (boats.delivered, cars.delivered, lane.tally.delivered) == (3, 1, 4)
    assert (lane.waiting_count, lane.runs()) == (0, [])
    assert (lane.sent_count, lane.sent_bytes) == (5, 4 + len("a message is no update"))


def test_what_nobody_takes_expires() -> None:
    lane, _ = make()
    boats = Tally()
    lane.deliver(b"x", boats)
    lane.deliver(b"y", boats)
    lane.expire()
    assert (boats.expired, lane.tally.expired, boats.delivered) == (2, 2, 0)
    assert (lane.size, lane.waiting_count, lane.sent_bytes) == (0, 0, 0)
    lane.expire()
    assert boats.expired == 2


def test_the_peak_is_of_what_waited_at_once() -> None:
    lane, _ = make()
    lane.add(b"x" * 100)
    lane.take()
    lane.add(b"x" * 30)
    lane.take()
    assert lane.size_peak == 100


def test_only_version_2_takes_the_common_frames() -> None:
    assert ClientQueue(2, Wire(), []).is_framed
    assert not ClientQueue(2, OldWire(), []).is_framed


def test_published_types_are_noted_in_order_and_once() -> None:
    lane, _ = make()
    for name in ("Boat", "Car", "Boat"):
        lane.note_published(name)
    assert list(lane.published) == ["Boat", "Car"]


def test_updates_that_come_together_are_accounted_for_like_single_ones() -> None:
    lane, listed = make()
    boats, cars = Tally(), Tally()
    lane.deliver(b"a", boats)
    lane.deliver_run(b"bc", 2, boats)
    lane.deliver_run(b"def", 3, cars)
    assert [(t is boats, n) for t, n in lane.runs()] == [(True, 3), (False, 3)]
    assert (lane.waiting_count, lane.frame_count, lane.size) == (6, 6, 6)
    assert lane.tally.due == 5, "the first was counted by who delivered it"
    assert listed == [lane]
    assert lane.take() == b"abcdef"
    assert (lane.sent_count, lane.sent_bytes, lane.size_peak) == (6, 6, 6)
    assert (boats.delivered, cars.delivered) == (3, 3)
    lane.deliver_run(b"gh", 2, cars)
    lane.expire()
    assert (cars.expired, lane.size) == (2, 0)
