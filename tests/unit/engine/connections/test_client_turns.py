"""Clients have turns, and none of them delays the others."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.connections.client_turns import FRESH_TURN_WORK_MAX
from skerry.engine.dispatch.frame_intake import WORK_PER_MESSAGE
from skerry.limits import DELIVERIES_PER_WORK_UNIT, ROUND_WORK_MAX, SELECT_SLICE_COUNT
from skerry.objects.internal import internal_class
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import CloseReason

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour


TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Part [substruct_only] { 1: [key] uint32 id; }
    """
)
Boat, Part = TYPES.Boat, TYPES.Part


@pytest.fixture
def maker(harbour: Harbour) -> Guest:
    guest = harbour.guest("maker")
    guest.describe(Boat)
    return guest


def frame_of(guest: Guest, obj: Any) -> bytes:
    guest.post(obj)
    return guest.connection.take_output()


def echo_request(number: int) -> Any:
    return internal_class("DotsEcho")(request=True, identifier=number)


@pytest.mark.parametrize("wire", [Wire, OldWire], ids=["version 2", "version 1"])
def test_a_client_that_sends_much_is_processed_in_turns_and_held_between_them(
    wire: type[Wire], harbour: Harbour
) -> None:
    maker, other = harbour.guest("maker", wire=wire), harbour.guest("other")
    maker.describe(Boat)
    node, count = harbour.node, 2 * SELECT_SLICE_COUNT + 7
    data = b"".join(frame_of(maker, Boat(id=number)) for number in range(count))
    node.receive(data, maker.address, 0)
    turns = [len(harbour.cached(Boat))]
    node.receive(frame_of(maker, Boat(id=count)), maker.address, 0)
    while node.is_held(maker.address):
        assert node.take_released() == []
        # No subscriber waits for it.
        other.connection.send_message(echo_request(len(turns)), 0.0)
        harbour.carry()
        harbour.carry()
        assert other.messages("DotsEcho")[-1].identifier == len(turns)
        assert node.deadline_ns() == 0
        node.advance(0)
        turns.append(len(harbour.cached(Boat)))
    assert node.take_released() == [maker.address]
    assert [boat.id for boat in harbour.cached(Boat)] == list(range(count + 1))
    assert len(turns) >= 3
    steps = [after - before for before, after in pairwise([0, *turns])]
    assert max(steps) <= SELECT_SLICE_COUNT
    assert node.statistics().received_count >= count


def test_queued_input_of_a_lost_client_is_processed(harbour: Harbour, maker: Guest) -> None:
    count = 2 * SELECT_SLICE_COUNT
    data = b"".join(frame_of(maker, Boat(id=number)) for number in range(count))
    harbour.node.receive(data, maker.address, 0)
    maker.is_mute = True
    harbour.node.stream_closed(maker.address, CloseReason.LOST, 0)
    assert harbour.node.statistics().client_count == 1
    harbour.pump()
    assert len(harbour.cached(Boat)) == count
    assert harbour.node.statistics().client_count == 0


def test_queued_input_of_a_disconnected_client_is_dropped(harbour: Harbour, maker: Guest) -> None:
    count = 2 * SELECT_SLICE_COUNT
    data = b"".join(frame_of(maker, Boat(id=100_000 + number)) for number in range(count))
    harbour.node.receive(data[: len(data) // 2] + b"\xff" + data, maker.address, 0)
    harbour.pump()
    assert maker.is_cut
    assert len(harbour.cached(Boat)) == count // 2
    assert harbour.node.deadline_ns() != 0


def test_a_client_that_sends_little_has_its_turn_before_those_that_send_much(
    harbour: Harbour,
) -> None:
    crowd = [harbour.guest(f"maker-{number}") for number in range(8)]
    for maker in crowd:
        maker.describe(Boat)
    for number, maker in enumerate(crowd):
        boats = (Boat(id=number * 10_000 + i) for i in range(2 * SELECT_SLICE_COUNT))
        data = b"".join(frame_of(maker, boat) for boat in boats)
        harbour.node.receive(data, maker.address, 0)
    other = harbour.stranger("late")
    harbour.carry()
    harbour.carry()
    other.connection.send_message(echo_request(3), 0.0)
    harbour.node.receive_later(other.connection.take_output(), other.address)
    assert harbour.node.is_held(other.address)
    harbour.node.advance(0)
    assert harbour.node.take_released() == [other.address]
    harbour.carry()
    assert [message.identifier for message in other.messages("DotsEcho")] == [3]


def test_the_first_turn_of_late_input_is_short(harbour: Harbour) -> None:
    crowd = [harbour.guest(f"maker-{number}") for number in range(4)]
    late = harbour.guest("late")
    for maker in (*crowd, late):
        maker.describe(Boat)
    for number, maker in enumerate(crowd):
        boats = (Boat(id=number * 10_000 + i) for i in range(3 * SELECT_SLICE_COUNT))
        harbour.node.receive(b"".join(frame_of(maker, b) for b in boats), maker.address, 0)
    data = b"".join(frame_of(late, Boat(id=100_000 + i)) for i in range(SELECT_SLICE_COUNT))
    harbour.node.receive_later(data, late.address)
    before = len(harbour.cached(Boat))
    harbour.node.advance(0)
    boats_of_late = [boat for boat in harbour.cached(Boat) if boat.id >= 100_000]
    assert 0 < len(boats_of_late) <= FRESH_TURN_WORK_MAX
    # All that wait share what is done before the sockets are read again.
    done = len(harbour.cached(Boat)) - before
    assert ROUND_WORK_MAX // 2 <= done < ROUND_WORK_MAX + SELECT_SLICE_COUNT


def test_messages_to_the_node_count_for_more_than_updates(harbour: Harbour) -> None:
    guest = harbour.guest()
    for number in range(SELECT_SLICE_COUNT):
        guest.connection.send_message(echo_request(number), 0.0)
    harbour.node.receive(guest.connection.take_output(), guest.address, 0)
    harbour.carry()
    answers = guest.messages("DotsEcho")
    assert len(answers) == SELECT_SLICE_COUNT // WORK_PER_MESSAGE
    harbour.pump()
    assert [a.identifier for a in guest.messages("DotsEcho")] == list(range(SELECT_SLICE_COUNT))


def test_the_more_subscribers_the_fewer_updates_in_a_turn(harbour: Harbour, maker: Guest) -> None:
    for number in range(10 * DELIVERIES_PER_WORK_UNIT):
        harbour.guest(f"reader-{number}").join("Boat")
    data = b"".join(frame_of(maker, Boat(id=number)) for number in range(SELECT_SLICE_COUNT))
    harbour.node.receive(data, maker.address, 0)
    assert harbour.node.is_held(maker.address)
    assert len(harbour.cached(Boat)) <= SELECT_SLICE_COUNT // 10


def test_small_updates_of_a_large_object_take_many_turns(harbour: Harbour) -> None:
    """Each of them copies the whole object."""
    cls = skerry.define_types("struct Sheet { 1: [key] uint32 id; 2: bytes b; 3: uint32 n; }").Sheet
    maker = harbour.guest("maker")
    large = frame_of(maker, cls(id=1, b=bytes(2_000_000)))
    node, count = harbour.node, 10
    maker.say_bytes(large)
    updates = [frame_of(maker, cls(id=1, n=number)) for number in range(count)]
    harbour.guest("other").open_view(cls, 1, where="n > 5", fields=["n"])
    node.receive(b"".join(updates), maker.address, 0)
    seen = [harbour.cached(cls)[0].n]
    while node.is_held(maker.address):
        node.advance(0)
        seen.append(harbour.cached(cls)[0].n)
    assert list(dict.fromkeys(seen)) == list(range(count))
    # The same for the large object itself.
    node.receive(large * 3, maker.address, 0)
    turn_count = 1
    while node.is_held(maker.address):
        node.advance(0)
        turn_count += 1
    assert turn_count >= 3
    harbour.pump()
    harbour.check()
