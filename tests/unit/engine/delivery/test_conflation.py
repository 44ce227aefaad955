"""Slots: one for each object that a slow client is to hear of later, bounded, and explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import skerry
from skerry.engine.delivery.conflation import ConflationSlot, ConflationSlots
from skerry.engine.dispatch.cache import TypeCache
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.dispatch.topics import Topic, UpdateInTransit
from skerry.limits import CONFLATED_COUNT_MAX, SELECT_SLICE_COUNT
from skerry.objects.base import codec_of
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import Wire

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour

TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; 3: int32 speed; }
    struct Car { 1: [key] uint32 id; 2: string name; }
    """
)
Boat, Car = TYPES.Boat, TYPES.Car
BULK = "x" * 70_000


class Recipient:
    """Notes what it would tell."""

    def __init__(self, frame_count: int = 1, frame: bytes = b"frame") -> None:
        self.slots: list[tuple[str, bytes, int, int]] = []
        self._frame_count = frame_count
        self._frame = frame
        self.queue: ClientQueue | None = None

    def catch_up(self, topic: Topic, key: bytes, slot: ConflationSlot, now_s: float) -> int:
        self.slots.append((topic.name, key, slot.mask, slot.count))
        if self.queue is not None and self._frame_count:
            self.queue.deliver(self._frame, topic.tally)
        return self._frame_count


def topic_of(cls: type[skerry.Struct]) -> Topic:
    return Topic(
        cls.descriptor,
        codec_of(cls).plan,
        TypeCache(cls.descriptor.name),
        is_cached=True,
        is_persistent=False,
        is_special=False,
    )


def news_of(topic: Topic, obj: skerry.Struct, *, is_remove: bool = False) -> UpdateInTransit:
    header = Header(topic.name)
    header.attributes = int(obj.attributes)
    header.remove_obj = int(is_remove)
    return UpdateInTransit(topic, header, obj.encode(), "")


def test_updates_of_one_object_share_a_slot_and_those_of_others_do_not() -> None:
    queue = ClientQueue(2, Wire(), [])
    slots, notified = ConflationSlots(queue), Recipient()
    boats, cars = topic_of(Boat), topic_of(Car)
    slots.add(notified, news_of(boats, Boat(id=1, name="a")))
    slots.add(notified, news_of(boats, Boat(id=1, speed=1)))
    slots.add(notified, news_of(boats, Boat(id=2)))
    slots.add(notified, news_of(cars, Car(id=1)))
    assert (len(slots), slots.waiting_count) == (3, 4)
    assert slots.has(notified, news_of(cars, Car(id=1)))
    assert not slots.has(notified, news_of(cars, Car(id=2)))
    assert not slots.has(Recipient(), news_of(cars, Car(id=1)))
    slots.drain(1, 0.0)
    assert notified.slots == [
        ("Boat", b"\x81\x01", 0b1110, 2),
        ("Boat", b"\x81\x02", 0b10, 1),
        ("Car", b"\x81\x01", 0b10, 1),
    ]
    assert (boats.tally.conflated, cars.tally.conflated) == (1, 0)
    assert (len(slots), slots.waiting_count) == (0, 0)


def test_after_a_conflated_remove_all_fields_of_a_new_object_are_sent() -> None:
    slots, notified, boats = (
        ConflationSlots(ClientQueue(2, Wire(), [])),
        Recipient(),
        topic_of(Boat),
    )
    slots.add(notified, news_of(boats, Boat(id=1), is_remove=True))
    slots.add(notified, news_of(boats, Boat(id=1, name="again")))
    slots.drain(1, 0.0)
    assert notified.slots == [("Boat", b"\x81\x01", 0b1110, 2)]


def test_draining_stops_when_enough_waits_on_the_lane() -> None:
    queue = ClientQueue(2, Wire(), [])
    slots, notified, boats = ConflationSlots(queue), Recipient(frame=b"x" * 60), topic_of(Boat)
    notified.queue = queue
    for number in range(5):
        slots.add(notified, news_of(boats, Boat(id=number)))
    slots.drain(100, 0.0)
    assert (len(notified.slots), len(slots)) == (2, 3)
    queue.take()
    slots.drain(1000, 0.0)
    assert len(slots) == 0


def test_slots_of_a_left_group_are_dropped_unless_still_wanted() -> None:
    queue = ClientQueue(2, Wire(), [])
    slots, notified, other, boats = ConflationSlots(queue), Recipient(), Recipient(), topic_of(Boat)
    for number in (1, 2):
        slots.add(notified, news_of(boats, Boat(id=number)))
        slots.add(other, news_of(boats, Boat(id=number)))
    slots.forget(notified, lambda update: Boat.decode(update.payload) == Boat(id=2))
    slots.forget(other)
    slots.drain(1, 0.0)
    assert (len(slots), slots.waiting_count) == (0, 0)
    assert (boats.tally.expired, queue.tally.expired) == (3, 3)
    # What the client knew of the object, it may have forgotten.
    assert [(mask, count) for _, _, mask, count in notified.slots] == [(boats.plan.mask, 1)]
    assert other.slots == []


def test_no_slot_is_examined_when_a_client_leaves_and_few_are_in_a_turn() -> None:
    queue = ClientQueue(2, Wire(), [])
    slots, notified, boats = ConflationSlots(queue), Recipient(), topic_of(Boat)
    for number in range(3000):
        slots.add(notified, news_of(boats, Boat(id=number)))
    asked: list[int] = []

    def is_wanted(update: UpdateInTransit) -> bool:
        asked.append(Boat.decode(update.payload).id)
        return False

    for is_known in (True, False, True):
        slots.forget(notified, is_wanted, is_known=is_known)
    assert asked == []
    queue.work_left = 110
    slots.drain(1, 0.0)
    assert asked == list(range(10))
    queue.work_left = SELECT_SLICE_COUNT
    slots.expire(1000)
    assert (len(slots), slots.waiting_count, boats.tally.expired) == (1990, 1990, 1010)


def test_updates_after_a_leave_are_sent_with_all_fields() -> None:
    queue = ClientQueue(2, Wire(), [])
    slots, notified, boats = ConflationSlots(queue), Recipient(), topic_of(Boat)
    for number in (1, 2):
        slots.add(notified, news_of(boats, Boat(id=number, name="a")))
    slots.forget(notified, lambda _: False)
    slots.add(notified, news_of(boats, Boat(id=1, speed=1)))
    slots.drain(1, 0.0)
    assert [(mask, count) for _, _, mask, count in notified.slots] == [(boats.plan.mask, 2)]
    assert boats.tally.expired == 1


def test_updates_in_slots_are_queued_for_their_topic() -> None:
    slots, notified = ConflationSlots(ClientQueue(2, Wire(), [])), Recipient()
    boats = topic_of(Boat)
    for number in (1, 1, 1, 2, 2, 3):
        slots.add(notified, news_of(boats, Boat(id=number)))
    assert boats.tally.queued == slots.waiting_count == 6
    slots.drop(notified, news_of(boats, Boat(id=1)))
    assert boats.tally.queued == 3
    slots.expire(1)
    assert boats.tally.queued == 1
    slots.drain(1, 0.0)
    assert boats.tally.queued == 0


def test_more_than_the_bound_is_too_much() -> None:
    assert ConflationSlots(ClientQueue(2, Wire(), []))._count_max == CONFLATED_COUNT_MAX
    slots, notified, boats = (
        ConflationSlots(ClientQueue(2, Wire(), []), count_max=2),
        Recipient(),
        topic_of(Boat),
    )
    for number in (1, 2, 2):
        slots.add(notified, news_of(boats, Boat(id=number)))
    assert not slots.is_full
    slots.add(notified, news_of(boats, Boat(id=3)))
    assert slots.is_full


@pytest.mark.parametrize("is_view", [False, True])
def test_a_client_that_conflates_too_many_objects_is_cut(
    is_view: bool, make_harbour: Callable[..., Harbour]
) -> None:
    harbour = make_harbour()
    slow, other, maker = (harbour.guest(name) for name in ("slow", "other", "maker"))
    maker.describe(Boat)
    if is_view:
        slow.open_view(Boat, 1, where="id > 0", is_conflated=True)
    else:
        slow.join("Boat", is_conflated=True)
    other.join("Boat")
    harbour.node._table.by_address[slow.address].slots._count_max = 3
    slow.pause()
    maker.publish(Boat(id=1, name=BULK))
    for number in range(2, 5):
        maker.publish(Boat(id=number))
    assert not slow.is_cut
    maker.publish(Boat(id=5))
    assert slow.is_cut_abruptly
    assert [boat.id for boat in other.objects(Boat)] == [1, 2, 3, 4, 5]
    assert harbour.node.statistics().ends == {"slow": 1}
    harbour.check()
