"""Frames with a known header are forwarded like all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import Wire

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour


TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; 3: int32 speed; 4: string cargo; }
    struct Note [cached=false] { 1: uint32 who; 2: uint32 number; }
    struct Spot { 2: [key] string name; 1: [key] uint32 id; 3: float64 height; }
    struct Weather { 1: float64 wind; 2: string text; }
    """
)
Boat, Note, Spot, Weather = TYPES.Boat, TYPES.Note, TYPES.Spot, TYPES.Weather


@pytest.fixture
def maker(harbour: Harbour) -> Guest:
    guest = harbour.guest("maker")
    for cls in (Boat, Note, Spot, Weather):
        guest.describe(cls)
    return guest


@pytest.fixture
def reader(harbour: Harbour) -> Guest:
    guest = harbour.guest("reader")
    for name in ("Boat", "Note", "Spot", "Weather"):
        guest.join(name)
    return guest


def header_for(name: str, attributes: int) -> Header:
    header = Header(name)
    header.sent_time = 1.0
    header.attributes = attributes
    header.remove_obj = 0
    return header


def test_equal_headers_of_several_publishers_are_kept_apart(harbour: Harbour) -> None:
    """Headers that come again take a shorter way; each is still that of its own object."""
    first, second = harbour.guest("first"), harbour.guest("second")
    reader = harbour.guest("reader", extensions=1)
    for name in ("Boat", "Note", "Spot"):
        reader.join(name)
    wanted: list[tuple[str, int, int, int, float]] = []
    for number in range(20):
        guest = (first, second)[number % 3 == 0]
        obj: Any = (Boat(id=number), Note(who=number), Spot(name="x", id=number))[number % 5 % 3]
        if number % 4 == 1 and type(obj) is Boat:
            obj.speed = number
        header = header_for(obj.descriptor.name, int(obj.attributes))
        header.sent_time = 100.0 + number
        harbour.now_ns += 1_000_000_000
        guest.connection.describe(type(obj).descriptor, 0.0)
        guest.say_bytes(guest.connection.take_output() + Wire().frame(header, obj.encode()))
        name, attributes = obj.descriptor.name, int(obj.attributes)
        wanted.append((name, guest.client_id, attributes, number, 100.0 + number))
    heard = [
        (
            item.header.type_name,
            int(item.header.sender),
            int(item.header.attributes),
            int(item.header.server_sent_time) - 1_700_000_001,
            item.header.sent_time,
        )
        for item in reader.heard
        if item.header.type_name in ("Boat", "Note", "Spot")
    ]
    assert heard == wanted


def test_known_headers_follow_new_and_former_subscribers(harbour: Harbour, maker: Guest) -> None:
    first, second, third = (harbour.guest(name) for name in ("first", "second", "third"))
    plain = harbour.plain()
    for step, (guest, action) in enumerate(
        [(first, "join"), (second, "join"), (first, "leave"), (plain, "join"), (third, "view")]
    ):
        maker.publish(Boat(id=step), Boat(id=step))
        if action == "join":
            guest.join("Boat")
        elif action == "leave":
            guest.leave("Boat")
        else:
            guest.open_view(Boat, 1, where="id >= 4")
    maker.publish(Boat(id=9), Boat(id=9))

    def live(guest: Guest, number: int | None = None) -> list[int]:
        items = [i for i in guest.items("Boat", number) if i.header.from_cache < 0]
        return [Boat.decode(item.payload).id for item in items]

    assert live(first) == [1, 1, 2, 2]
    assert live(second) == [2, 2, 3, 3, 4, 4, 9, 9]
    assert live(plain) == [4, 4, 9, 9]
    assert live(third, 1) == [9, 9]


@pytest.mark.parametrize("subject", ["", "/own"])
def test_a_run_of_messages_is_delivered_and_counted_like_single_ones(
    harbour: Harbour, maker: Guest, subject: str
) -> None:
    full, plain = harbour.guest("full", extensions=1), harbour.plain()
    origin = harbour.guest("origin")
    readers = [full, plain]
    frames: list[bytes] = []
    for number in range(500):
        note = Note(who=1, number=number)
        header = header_for("Note", int(note.attributes))
        header.sent_time, header.subject = 1.0 + number, subject
        frames.append(Wire().frame(header, note.encode()))
    for reader in readers:
        reader.join("Note")
    maker.say_bytes(b"".join(frames[:300]))
    # Who wants to know the origin of an update does not take the same frame as others.
    origin.join("Note")
    maker.say_bytes(b"".join(frames[300:]))
    for reader in readers:
        items = reader.items("Note")
        assert [Note.decode(item.payload).number for item in items] == list(range(500))
        assert [item.header.sent_time for item in items] == [1.0 + n for n in range(500)]
        assert {int(item.header.sender) for item in items} == {maker.client_id}
        assert {item.header.subject for item in items} == {"" if reader is plain else subject}
    sequences = [int(item.header.sequence) for item in origin.items("Note")]
    assert sequences == list(range(sequences[0], sequences[0] + 200))
    assert sequences[0] > 300
    row = harbour.row("Note")
    assert (row.due, row.delivered) == (1200, 1200)
    harbour.check()
