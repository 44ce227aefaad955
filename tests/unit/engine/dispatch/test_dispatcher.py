"""The way of updates: what every subscriber sees in the end, whatever happened on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from skerry.engine.dispatch.client_queue import TIME_S_MAX
from skerry.limits import CACHE_BYTES_MAX, CACHE_OBJECT_COUNT_MAX
from skerry.objects.base import key_of
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.access.where.filters import make_filter

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
IDS = range(8)
BULK = "x" * 15_000
"""A few objects are more than a replay tells at once and more than conflating waits for."""


def subject_of(number: int) -> str:
    """Half of the objects have subjects of their own."""
    return f"/own/{number}" if number % 2 else ""


GROUPS: dict[str, Callable[[int], bool]] = {
    "Boat": lambda number: number in IDS,
    "/...": lambda number: number in IDS,
    "/own/...": lambda number: number % 2 == 1,
    "/Boat/*": lambda number: number % 2 == 0,
    "/Boat/2": lambda number: number == 2,
    "/own/3": lambda number: number == 3,
}
who = st.integers(0, 2)
boat = st.sampled_from(IDS)
OPERATIONS = st.one_of(
    st.tuples(st.just("publish"), who, boat, st.integers(1, 14), st.integers(0, 9)),
    st.tuples(st.just("publish"), who, boat, st.integers(1, 14), st.integers(0, 9)),
    st.tuples(st.just("remove"), who, boat),
    st.tuples(st.just("note"), who),
    st.tuples(st.just("join"), who, st.sampled_from(sorted(GROUPS)), st.booleans()),
    st.tuples(st.just("leave"), who, st.sampled_from(sorted(GROUPS))),
    st.tuples(st.just("view"), who, st.booleans(), st.integers(0, 2)),
    st.tuples(st.just("leave view"), who),
    st.tuples(st.just("clear"), who),
    st.tuples(st.just("pause"), who),
    st.tuples(st.just("resume"), who),
    st.tuples(st.just("close"), who, st.booleans()),
    st.tuples(st.just("carry"), who),
    st.tuples(st.just("advance"), who),
)
VIEWS = (
    ("speed > 4", None),
    ("speed > 4 or name is null", ("speed",)),
    ("id in (1, 2, 3)", ("name", "speed")),
)


class Party:
    """One client of the model: what it asked for, and what it must see."""

    def __init__(self, guest: Guest, heard_from: int) -> None:
        self.guest = guest
        self.groups: list[str] = []
        self.unsure: set[int] = set()
        """Objects that it may have received by a group it left; it missed later changes."""
        self.filtered_subscriptions: dict[int, int] = {}
        self.view_count = 0
        self.heard_from = heard_from
        guest.join("Note")

    def sure_of(self) -> list[int]:
        chosen = [n for n in IDS if any(GROUPS[group](n) for group in self.groups)]
        return [n for n in chosen if n not in self.unsure]


class Model:
    """A node, three clients, and a dict that says how things should be."""

    def __init__(self, harbour: Harbour) -> None:
        self.harbour = harbour
        self.objects: dict[int, dict[str, Any]] = {}
        self.notes: list[tuple[int, int]] = []
        self.parties = [self.come(f"first {n}") for n in range(3)]

    def come(self, name: str) -> Party:
        return Party(self.harbour.guest(name), len(self.notes))

    def do(self, operation: tuple[Any, ...]) -> None:
        kind, index, *rest = operation
        getattr(self, "do_" + kind.replace(" ", "_"))(index, self.parties[index], *rest)

    def send(self, party: Party) -> None:
        """Without a look at what the node has to say."""
        guest = party.guest
        data = guest.connection.take_output()
        self.harbour.node.receive(data, guest.address, self.harbour.now_ns)

    def do_publish(self, _: int, party: Party, number: int, fields: int, value: int) -> None:
        """Fields that are named and not given are cleared."""
        values = {"name": f"{BULK}{value}", "speed": value, "cargo": f"of {value}"}
        named = [name for bit, name in enumerate(values) if fields >> bit & 1]
        given = {} if fields & 8 else {name: values[name] for name in named}
        party.guest.post(Boat(id=number, **given), only=named, subject=subject_of(number))
        self.send(party)
        known = self.objects.setdefault(number, {})
        for name in named:
            known.pop(name, None)
        known.update(given)

    def do_remove(self, _: int, party: Party, number: int) -> None:
        party.guest.post(Boat(id=number), is_remove=True, subject=subject_of(number))
        self.send(party)
        self.objects.pop(number, None)

    def do_clear(self, _: int, party: Party) -> None:
        message = internal_class("DotsClearCache")(typeNames=["Boat"])
        party.guest.connection.send_message(message, 0.0)
        self.send(party)
        self.objects.clear()

    def do_note(self, index: int, party: Party) -> None:
        note = (index, len(self.notes))
        party.guest.post(Note(who=note[0], number=note[1]))
        self.send(party)
        self.notes.append(note)

    def do_join(self, _: int, party: Party, group: str, is_conflated: bool) -> None:
        party.guest.connection.join(group, 0.0, is_conflated=is_conflated)
        self.send(party)
        if group not in party.groups:
            party.groups.append(group)

    def do_leave(self, _: int, party: Party, group: str) -> None:
        party.guest.connection.leave(group, 0.0)
        self.send(party)
        if group in party.groups:
            party.groups.remove(group)
            still = {n for n in IDS if any(GROUPS[g](n) for g in party.groups)}
            party.unsure |= {n for n in IDS if GROUPS[group](n)} - still

    def do_view(self, _: int, party: Party, is_conflated: bool, which: int) -> None:
        where, fields = VIEWS[which]
        party.view_count += 1
        party.filtered_subscriptions[party.view_count] = which
        party.guest.connection.describe(Boat.descriptor, 0.0)
        wanted = make_filter(Boat.descriptor, where, fields)
        party.guest.connection.join(
            "Boat",
            0.0,
            subscription_id=party.view_count,
            filter_=wanted,
            is_conflated=is_conflated,
        )
        self.send(party)

    def do_leave_view(self, _: int, party: Party) -> None:
        if party.filtered_subscriptions:
            number = next(iter(party.filtered_subscriptions))
            del party.filtered_subscriptions[number]
            party.guest.connection.leave("Boat", 0.0, subscription_id=number)
            self.send(party)

    def do_pause(self, _: int, party: Party) -> None:
        party.guest.pause()

    def do_resume(self, _: int, party: Party) -> None:
        self.harbour.node.resume(party.guest.address, self.harbour.now_ns)

    def do_close(self, index: int, party: Party, is_orderly: bool) -> None:
        if is_orderly:
            party.guest.goodbye()
        else:
            party.guest.vanish()
        self.parties[index] = self.come(f"next {len(self.harbour.guests)}")

    def do_carry(self, _: int, _party: Party) -> None:
        self.harbour.carry()

    def do_advance(self, _: int, _party: Party) -> None:
        self.harbour.node.advance(self.harbour.now_ns)

    # -- in the end

    def settle(self) -> None:
        for party in self.parties:
            party.guest.resume()
        for party in self.parties:
            party.guest.echo(5)
        self.harbour.pump()

    def check(self) -> None:
        assert {boat.id: fields_of(boat) for boat in self.harbour.cached(Boat)} == self.objects
        for party in self.parties:
            assert not party.guest.is_cut, party.guest.fault
            self.check_groups(party)
            self.check_views(party)
            notes = [(note.who, note.number) for note in party.guest.objects(Note)]
            assert notes == self.notes[party.heard_from :]
            assert party.guest.names()[-1] == "DotsEcho"
        self.harbour.check()
        queued = [row.ledger.queued for row in self.harbour.node.statistics().types]
        assert not any(queued)

    def check_groups(self, party: Party) -> None:
        seen = party.guest.sees(Boat)
        for number in party.sure_of():
            found = seen.get(key_of(Boat(id=number)))
            wanted = self.objects.get(number)
            assert (None if found is None else fields_of(found)) == wanted, (number, party.groups)

    def check_views(self, party: Party) -> None:
        for number, which in party.filtered_subscriptions.items():
            seen = party.guest.sees(Boat, number).values()
            assert {b.id: fields_of(b) for b in seen} == self.in_view(which), (number, which)

    def in_view(self, which: int) -> dict[int, dict[str, Any]]:
        chosen = {n: f for n, f in self.objects.items() if is_chosen(which, n, f)}
        names = VIEWS[which][1]
        if names is None:
            return chosen
        return {n: {k: v for k, v in f.items() if k in names} for n, f in chosen.items()}


def is_chosen(which: int, number: int, fields: dict[str, Any]) -> bool:
    is_fast = fields.get("speed", 0) > 4
    return (is_fast, is_fast or "name" not in fields, number in (1, 2, 3))[which]


def fields_of(boat: Any) -> dict[str, Any]:
    names = ("name", "speed", "cargo")
    return {name: getattr(boat, name) for name in names if boat.is_set(name)}


@pytest.mark.slow
@settings(max_examples=150)
@given(operations=st.lists(OPERATIONS, max_size=50))
def test_subscribers_end_up_with_the_objects_of_a_simple_model(
    operations: list[tuple[Any, ...]], make_harbour: Callable[..., Harbour]
) -> None:
    model = Model(make_harbour())
    for operation in operations:
        model.do(operation)
        model.harbour.check()
    model.settle()
    model.check()


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


def test_named_absent_fields_are_cleared_and_the_others_stay(
    harbour: Harbour, maker: Guest, reader: Guest
) -> None:
    maker.publish(Boat(id=1, name="a", speed=1, cargo="c"))
    maker.publish(Boat(id=1, speed=2), only=["name", "speed"])
    assert harbour.cached(Boat) == [Boat(id=1, speed=2, cargo="c")]
    item = reader.items("Boat")[-1]
    assert item.header.attributes == 0b1110
    assert Boat.decode(item.payload) == Boat(id=1, speed=2), "only what was sent is passed on"


def test_fields_that_the_header_does_not_name_are_left_out(
    harbour: Harbour, maker: Guest, reader: Guest
) -> None:
    payload = Boat(id=1, name="a", speed=5).encode()
    for _ in range(3):
        maker.say(header_for("Boat", 0b1010), payload)
    assert reader.objects(Boat) == [Boat(id=1, speed=5)] * 3
    assert harbour.cached(Boat) == [Boat(id=1, speed=5)]


def test_objects_in_other_forms_are_forwarded_in_canonical_form(
    harbour: Harbour, maker: Guest, reader: Guest
) -> None:
    odd = b"\xb8\x02" + b"\x18\x03\x18\x05" + b"\x01\x19\x00\x07"
    for _ in range(3):
        maker.say(header_for("Boat", 0b1010), odd)
    assert [item.payload for item in reader.items("Boat")] == [Boat(id=7, speed=5).encode()] * 3


def test_a_type_without_key_has_one_object(harbour: Harbour, maker: Guest, reader: Guest) -> None:
    maker.publish(Weather(wind=1.0), Weather(text="rain"))
    assert harbour.cached(Weather) == [Weather(wind=1.0, text="rain")]
    maker.remove(Weather())
    assert harbour.cached(Weather) == []
    assert [int(i.header.remove_obj) for i in reader.items("Weather")] == [0, 0, 1]


def test_a_remove_of_an_unknown_object_is_forwarded(
    harbour: Harbour, maker: Guest, reader: Guest
) -> None:
    maker.remove(Boat(id=9))
    (item,) = reader.items("Boat")
    assert (item.header.remove_obj, item.header.attributes) == (1, 2)
    assert item.payload == Boat(id=9).encode()


def test_messages_are_forwarded_and_not_cached(
    harbour: Harbour, maker: Guest, reader: Guest
) -> None:
    maker.publish(Note(who=1), Note(who=1))
    assert len(reader.objects(Note)) == 2
    assert harbour.cached(Note) == []


def test_metadata_of_an_object_names_its_creator_and_last_writer(
    harbour: Harbour, maker: Guest
) -> None:
    other = harbour.guest("other")
    maker.publish(Boat(id=1))
    harbour.wait(0.5)
    other.publish(Boat(id=1, name="x"))
    entry = harbour.node.cache.get("Boat", key_of(Boat(id=1)))
    assert entry is not None
    assert (entry.created_from, entry.modified_from) == (maker.client_id, other.client_id)
    assert entry.modified_ns - entry.created_ns == 500_000_000
    assert entry.sent_ns == 1_000_000_000


def test_all_subscribers_receive_all_updates_in_one_order(harbour: Harbour) -> None:
    makers = [harbour.guest(f"maker {n}") for n in range(3)]
    readers = [harbour.guest(f"reader {n}") for n in range(3)]
    for guest in readers:
        guest.join("Note")
    readers[1].pause()
    for number in range(20):
        makers[number * 7 % 3].publish(Note(who=number * 7 % 3, number=number))
    readers[1].resume()
    heard = [[(note.who, note.number) for note in guest.objects(Note)] for guest in readers]
    assert heard[0] == [(number * 7 % 3, number) for number in range(20)]
    assert heard[1] == heard[2] == heard[0]


@pytest.mark.parametrize("sent_time", [TIME_S_MAX, -TIME_S_MAX, 0.0])
def test_the_largest_times_are_accepted(
    sent_time: float, harbour: Harbour, maker: Guest, reader: Guest
) -> None:
    header = header_for("Boat", 2)
    header.sent_time = sent_time
    for _ in range(2):
        maker.say(header, Boat(id=1).encode())
    assert [item.header.sent_time for item in reader.items("Boat")] == [sent_time] * 2
    entry = harbour.node.cache.get("Boat", key_of(Boat(id=1)))
    assert entry is not None
    assert entry.sent_ns == int(sent_time) * 1_000_000_000


def test_a_cache_has_the_size_of_its_limits_by_default(
    make_harbour: Callable[..., Harbour],
) -> None:
    quotas = make_harbour().node.cache.quotas
    assert (quotas._object_count_max, quotas._bytes_max) == (
        CACHE_OBJECT_COUNT_MAX,
        CACHE_BYTES_MAX,
    )
