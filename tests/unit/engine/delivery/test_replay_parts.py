"""The objects of one topic in a replay."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import pytest

import skerry
from skerry.engine.delivery.replay_parts import (
    FoundPart,
    ListedPart,
    PickedPart,
    ReplayChoice,
    ReplayPart,
    ReplayWalk,
    WholePart,
)
from skerry.engine.dispatch.cache import SHELF_HOLE_COUNT_MAX, Entry
from skerry.engine.dispatch.topics import Topic

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

Boat = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: int32 speed; }").Boat


class Fast(ReplayChoice):
    """Wants what is not slow, and counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def wants(self, entry: Entry) -> bool:
        self.count += 1
        return bool(Boat.decode(entry.payload).speed > 10)


class Every(ReplayChoice):
    """Wants all objects."""

    def wants(self, entry: Entry) -> bool:
        return True


@pytest.fixture
def maker(harbour: Harbour) -> Guest:
    guest = harbour.guest("maker")
    guest.publish(*(Boat(id=number, speed=10 + number % 3) for number in range(9)))
    return guest


@pytest.fixture
def topic(harbour: Harbour, maker: Guest) -> Topic:
    return harbour.node._dispatcher.topics["Boat"]


def key(number: int) -> bytes:
    return bytes([0x81, number])


def notified(part: ReplayPart) -> list[int]:
    found = []
    while not part.is_over():
        entry = part.advance()
        if entry is not None:
            found.append(Boat.decode(entry.payload).id)
    return found


def test_a_walk_returns_the_objects_that_existed_when_it_began(maker: Guest, topic: Topic) -> None:
    walk, type_cache = ReplayWalk(topic.type_cache), topic.type_cache
    first, third = type_cache.objects[key(0)], type_cache.objects[key(2)]
    assert walk.advance() is first
    maker.publish(Boat(id=9))
    maker.remove(Boat(id=1))
    assert [walk.is_ahead(entry) for entry in (first, third, type_cache.objects[key(9)])] == [
        False,
        True,
        False,
    ]
    assert walk.advance() is None, "it is gone"
    assert len(list(walk.ahead())) == 7
    assert not walk.is_over()
    walk.close()
    walk.close()
    assert walk.is_over()
    assert (list(walk.ahead()), walk.is_ahead(third), type_cache.reader_count) == ([], False, 0)


def test_indexes_do_not_change_while_a_walk_is_open(topic: Topic) -> None:
    type_cache, walk = topic.type_cache, ReplayWalk(topic.type_cache)
    known = type_cache.objects[key(0)]
    for _ in range(2 * SHELF_HOLE_COUNT_MAX):
        type_cache.add(b"other", known.with_payload(known.payload, 6))
        type_cache.take(b"other")
    assert len(type_cache.order) == 9 + 2 * SHELF_HOLE_COUNT_MAX
    walk.close()
    type_cache.add(b"other", known.with_payload(known.payload, 6))
    type_cache.take(b"other")
    assert len(type_cache.order) == 9


def test_wanted_objects_are_found_in_slices_and_then_sent(topic: Topic) -> None:
    choice = Fast()
    part = PickedPart(topic, choice)
    assert part.examine(4) == 4
    assert (choice.count, part.is_examined(), topic.type_cache.reader_count) == (4, False, 1)
    assert part.examine(0) == 0
    assert part.examine(100) == 5
    assert part.is_examined()
    assert part.count() == 6
    assert notified(part) == [1, 2, 4, 5, 7, 8]
    part.close()
    assert topic.type_cache.reader_count == 0


def test_what_was_not_examined_is_held_and_what_was_only_if_it_was_found(topic: Topic) -> None:
    part, objects = PickedPart(topic, Fast()), topic.type_cache.objects
    part.examine(3)

    def held() -> list[int]:
        return [n for n in range(9) if part.holds(key(n), objects[key(n)])]

    assert held() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [n for n in range(9) if part.has_found(key(n), objects[key(n)])] == [1, 2]
    for number in (1, 4):
        part.skip(key(number), objects[key(number)])
    assert held() == [2, 3, 5, 6, 7, 8]
    assert not part.holds(key(9), None)
    assert not part.has_found(key(9), None)
    part.examine(100)
    assert held() == [2, 5, 7, 8]
    assert notified(part) == [2, 5, 7, 8]
    part.close()
    assert held() == []


def test_what_is_left_out_is_so_also_where_it_is_found_later(topic: Topic) -> None:
    part = PickedPart(topic, Fast())
    part.examine(3)
    left_out: list[int] = []

    def is_even(_: Topic, entry: Entry) -> bool:
        left_out.append(Boat.decode(entry.payload).id)
        return left_out[-1] % 2 == 0

    assert list(part.excluding(is_even)) == [False, True]
    part.examine(100)
    assert sorted(left_out) == [1, 2, 4, 5, 7, 8]
    assert sum(part.excluding(lambda _, entry: Boat.decode(entry.payload).id == 7)) == 1
    assert notified(part) == [1, 5]


def test_a_whole_part_counts_objects_that_were_sent_before_the_rest_was_counted(
    topic: Topic,
) -> None:
    part, objects = WholePart(topic), topic.type_cache.objects
    part.skip(key(3), objects[key(3)])
    assert sum(part.excluding(lambda _, entry: Boat.decode(entry.payload).id in (3, 5))) == 1
    assert part.count() == 7
    assert not part.holds(key(5), objects[key(5)])
    assert notified(part) == [0, 1, 2, 4, 6, 7, 8]
    assert part.has_found(key(0), objects[key(0)]) is False


@pytest.mark.parametrize("kind", ["listed", "found", "whole", "picked"])
def test_objects_may_change_while_others_are_excluded(
    kind: str, topic: Topic, maker: Guest
) -> None:
    objects = topic.type_cache.objects
    keys = [key(number) for number in range(9)]
    part: ReplayPart
    if kind == "listed":
        part = ListedPart(topic, keys)
    elif kind == "found":
        part = FoundPart(topic, OrderedDict.fromkeys(keys))
    elif kind == "whole":
        part = WholePart(topic)
    else:
        part = PickedPart(topic, Every())
        part.examine(100)
    for _ in range(2):
        first = part.advance()
        assert first is not None
    steps = part.excluding(lambda _, entry: Boat.decode(entry.payload).id % 2 == 0)
    assert [next(steps), next(steps)] == [True, False], "2 and 3"
    for number in (3, 6, 7):
        # Sent before its turn, and removed then.
        part.skip(keys[number], objects[keys[number]])
        maker.remove(Boat(id=number))
    maker.publish(Boat(id=4, speed=99))
    assert sum(steps) == 2, "4 and 8"
    assert sorted(notified(part)) == [5]
    part.close()
    assert list(part.excluding(lambda *_: True)) == []


def test_listed_objects_are_sent_by_their_keys(topic: Topic) -> None:
    part, objects = ListedPart(topic, [key(5), key(1), key(3)]), topic.type_cache.objects
    assert part.count() == 3
    assert part.has_found(key(3), objects[key(3)])
    part.skip(key(3), objects[key(3)])
    assert notified(part) == [1, 5]
    part.close()
    assert part.count() == 0
