"""The removal of many objects: slice by slice, and yet as if all went at once."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.delivery.bulk_removal import BULK_REMOVAL_SLICE_COUNT
from skerry.engine.persistence import Journal
from skerry.objects.internal import internal_class
from skerry.protocol.machine import CloseReason

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; 3: int32 speed; }
    struct Guard [cleanup, persistent] { 1: [key] uint32 id; 2: string name; }
    """
)
Boat, Guard = TYPES.Boat, TYPES.Guard
COUNT = 2 * BULK_REMOVAL_SLICE_COUNT + 10


@pytest.fixture
def maker(harbour: Harbour) -> Guest:
    guest = harbour.guest("maker")
    guest.publish(*(Boat(id=number, name="old", speed=1) for number in range(COUNT)))
    return guest


def clear(guest: Guest, *names: str) -> None:
    """Ask for it, and let the node do no more than it does at once."""
    message = internal_class("DotsClearCache")(typeNames=list(names))
    guest.connection.send_message(message, 0.0)
    guest.harbour.carry()


def test_a_large_type_is_cleared_slice_by_slice(harbour: Harbour, maker: Guest) -> None:
    clear(maker, "Boat")
    # To list and to sort the keys counts as some of the removals.
    left = len(harbour.cached(Boat))
    assert COUNT - BULK_REMOVAL_SLICE_COUNT <= left < COUNT
    assert harbour.node.deadline_ns() == harbour.now_ns
    harbour.node.advance(harbour.now_ns)
    assert len(harbour.cached(Boat)) == left - BULK_REMOVAL_SLICE_COUNT
    harbour.pump()
    assert harbour.cached(Boat) == []


def test_what_is_published_meanwhile_is_new_for_everybody(harbour: Harbour, maker: Guest) -> None:
    reader = harbour.guest("reader")
    reader.join("Boat")
    other = harbour.guest("other")
    other.describe(Boat)
    clear(maker, "Boat")
    last, gone = COUNT - 1, COUNT - 2
    other.post(Boat(id=last, speed=7))
    other.post(Boat(id=gone), is_remove=True)
    harbour.carry()
    assert len(harbour.cached(Boat)) > 1
    harbour.pump()
    # As if it had come after all were gone: nothing of the old state is left.
    assert harbour.cached(Boat) == [Boat(id=last, speed=7)]
    assert list(reader.sees(Boat).values()) == [Boat(id=last, speed=7)]


def test_an_object_created_again_is_removed_by_a_second_clear(
    harbour: Harbour, maker: Guest
) -> None:
    clear(maker, "Boat")
    maker.post(Boat(id=COUNT - 1, speed=7))
    harbour.carry()
    clear(maker, "Boat", "Boat")
    harbour.pump()
    assert harbour.cached(Boat) == []


def test_a_client_that_joins_during_a_clear_has_no_objects_in_the_end(
    harbour: Harbour, maker: Guest
) -> None:
    clear(maker, "Boat")
    reader = harbour.guest("reader")
    reader.connection.join("Boat", 0.0)
    harbour.pump()
    assert reader.sees(Boat) == {}


def test_a_clear_is_delivered_and_echoed_after_the_last_object(
    harbour: Harbour, maker: Guest
) -> None:
    maker.join("Boat")
    maker.join("DotsClearCache")
    maker.forget()
    clear(maker, "Boat")
    maker.echo(1)
    assert maker.names() == ["Boat"] * COUNT + ["DotsClearCache", "DotsEcho"]


def test_a_clear_continues_when_its_client_disconnects(harbour: Harbour, maker: Guest) -> None:
    reader = harbour.guest("reader")
    reader.join("DotsClearCache")
    clear(maker, "Boat")
    maker.vanish()
    assert harbour.cached(Boat) == []
    assert reader.names()[-1] == "DotsClearCache"


def test_objects_of_a_disconnected_client_are_removed_in_slices(harbour: Harbour) -> None:
    guard, reader = harbour.guest("guard"), harbour.guest("reader")
    guard.publish(*(Guard(id=number) for number in range(COUNT)))
    reader.join("Guard")
    harbour.node.stream_closed(guard.address, CloseReason.LOST, 0)
    guard.is_mute = True
    assert len(harbour.cached(Guard)) == COUNT - BULK_REMOVAL_SLICE_COUNT
    harbour.pump()
    assert harbour.cached(Guard) == []
    assert reader.sees(Guard) == {}


def test_clients_that_leave_together_share_one_slice(harbour: Harbour) -> None:
    guards = [harbour.guest(f"guard-{number}") for number in range(4)]
    each = BULK_REMOVAL_SLICE_COUNT
    for number, guard in enumerate(guards):
        guard.publish(*(Guard(id=number * each + i) for i in range(each)))
    for guard in guards:
        guard.is_mute = True
        harbour.node.stream_closed(guard.address, CloseReason.LOST, 0)
    assert len(harbour.cached(Guard)) >= 3 * each
    harbour.node.advance(harbour.now_ns)
    assert len(harbour.cached(Guard)) >= 2 * each
    harbour.pump()
    assert harbour.cached(Guard) == []


def test_the_objects_of_a_client_that_leaves_are_found_by_an_index(harbour: Harbour) -> None:
    other, guard = harbour.guest("other"), harbour.guest("guard")
    other.publish(*(Guard(id=number) for number in range(100)))
    guard.publish(*(Guard(id=number, name="mine") for number in range(7)))
    other.publish(Guard(id=3, name="taken over"))
    index = harbour.node.cache.type_cache("Guard").by_writer
    assert index is not None
    assert {writer: len(keys) for writer, keys in index.items()} == {
        other.client_id: 94,
        guard.client_id: 6,
    }
    guard.vanish()
    assert len(harbour.cached(Guard)) == 94
    assert list(index) == [other.client_id]
    # Objects of other types stay when their writer goes, so nothing is kept for them.
    assert harbour.node.cache.type_cache("Boat").by_writer is None


def test_a_clear_of_many_types_removes_one_slice_at_a_time(harbour: Harbour, maker: Guest) -> None:
    maker.publish(*(Guard(id=number) for number in range(COUNT)))
    total = 2 * COUNT
    clear(maker, "Boat", "Guard")
    while total:
        left = len(harbour.cached(Boat)) + len(harbour.cached(Guard))
        assert total - left <= BULK_REMOVAL_SLICE_COUNT
        total = left
        harbour.node.advance(harbour.now_ns)


def test_a_node_that_ends_stores_that_they_are_gone(
    make_harbour: Callable[..., Harbour],
) -> None:
    journal = Journal(rng=Random(1))
    harbour = make_harbour(journal=journal)
    guard = harbour.guest("guard")
    guard.publish(*(Guard(id=number) for number in range(COUNT)))
    harbour.node.farewell(harbour.now_ns)
    batch: Any = journal.take_batch(0)
    assert (len(batch.puts), len(batch.drops)) == (0, COUNT)
