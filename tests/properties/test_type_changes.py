"""Random compatible changes of a type: what a union reads, and a node against a plain dict.

Two versions of the type are compatible whatever they have: each is a selection of the same fields,
with a width for each number, of the same elements, and of the same fields of a struct inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

import skerry
from skerry.codec.projection import project
from skerry.engine.delivery.group_members import CONFLATE_BYTES
from skerry.engine.persistence import Journal, StoredType
from skerry.objects.base import codec_of, key_of
from skerry.objects.classes import class_of
from skerry.schema.model import StructType
from skerry.schema.union import obstacle, reads_all, unite_deep
from tests.unit.engine.conftest import Guest, Harbour

Values = Mapping[int, Any]
"""Values by tag; of a struct inside they are such a mapping, too."""

WIDTHS = ("uint8", "uint16", "uint32")
NUMBERS = (0, 7, 255, 300, 70_000)
KEYS = (1, 2, 255, 300)
ELEMENTS = {1: "sloop", 2: "ketch", 3: "yawl", 4: "cutter"}
TAGS = (2, 3, 4, 5, 6, 7, 8)


@dataclass(frozen=True)
class Version:
    """One of the definitions that programs have."""

    key: int
    number: int
    is_double: bool
    tags: frozenset[int]
    elements: frozenset[int]
    place: frozenset[int]
    depth: int
    flags: str

    def text(self) -> str:
        elements = ", ".join(f"{tag}: {ELEMENTS[tag]}" for tag in sorted(self.elements))
        inside = {1: "float64 lat", 2: "float64 lon", 3: f"{WIDTHS[self.depth]} depth"}
        fields = {
            2: f"{WIDTHS[self.number]} crew",
            3: "string name",
            4: "Rig rig",
            5: "Place place",
            6: "vector<Place> route",
            7: "bool is_new",
            8: "float64 speed" if self.is_double else "float32 speed",
        }
        return (
            f"enum Rig {{ {elements} }}\n"
            f"struct Place {{ {_listed(inside, self.place)} }}\n"
            f"struct Boat [{self.flags}] {{ 1: [key] {WIDTHS[self.key]} id; "
            f"{_listed(fields, self.tags)} }}"
        )

    @property
    def type(self) -> StructType:
        found = boat_class(self).descriptor
        assert isinstance(found, StructType)
        return found

    # -- what a program of this version can say, and what it reads of what others said

    def knows_key(self, key: int) -> bool:
        return fits(key, self.key)

    def can_say(self, tag: int, value: Any) -> bool:
        return tag in self.tags and self._read(tag, value) == value

    def read(self, values: Values) -> dict[int, Any]:
        """The values that a program of this version reads, by tag."""
        found = {tag: self._read(tag, value) for tag, value in values.items() if tag in self.tags}
        return {tag: value for tag, value in found.items() if value is not None}

    def _read(self, tag: int, value: Any) -> Any:
        if tag == 2:
            return value if fits(value, self.number) else None
        if tag == 4:
            return value if value in self.elements else None
        if tag == 5:
            return self._place(value)
        if tag == 6:
            return [self._place(item) for item in value]
        return value

    def _place(self, values: Values) -> dict[int, Any]:
        return {
            tag: value
            for tag, value in values.items()
            if tag in self.place and (tag != 3 or fits(value, self.depth))
        }


def _listed(items: Mapping[int, str], tags: frozenset[int]) -> str:
    return " ".join(f"{tag}: {items[tag]};" for tag in sorted(tags))


def fits(value: int, width: int) -> bool:
    return value < (1 << 8, 1 << 16, 1 << 32)[width]


@cache
def types_of(version: Version) -> Any:
    return skerry.define_types(version.text())


def boat_class(version: Version) -> Any:
    return types_of(version).Boat


NAMES = {2: "crew", 3: "name", 4: "rig", 5: "place", 6: "route", 7: "is_new", 8: "speed"}
PLACE_NAMES = {1: "lat", 2: "lon", 3: "depth"}


def build(version: Version, key: int, values: Values) -> Any:
    """An object of a version."""
    types = types_of(version)

    def place(inside: Values) -> Any:
        return types.Place(**{PLACE_NAMES[tag]: value for tag, value in inside.items()})

    made: dict[str, Any] = {}
    for tag, value in values.items():
        if tag == 4:
            value = types.Rig[ELEMENTS[value]]
        elif tag == 5:
            value = place(value)
        elif tag == 6:
            value = [place(item) for item in value]
        made[NAMES[tag]] = value
    return types.Boat(id=key, **made)


def flat(obj: Any) -> dict[int, Any]:
    """The values of an object by tag, without the key."""

    def place(inside: Any) -> dict[int, Any]:
        names = {f.name for f in inside.descriptor.fields}
        found = {tag: getattr(inside, n) for tag, n in PLACE_NAMES.items() if n in names}
        return {tag: value for tag, value in found.items() if value is not None}

    found: dict[int, Any] = {}
    for item in obj.descriptor.fields:
        value = getattr(obj, item.name)
        if item.is_key or value is None:
            continue
        if item.tag == 4:
            value = value.tag
        elif item.tag == 5:
            value = place(value)
        elif item.tag == 6:
            value = [place(one) for one in value]
        found[item.tag] = value
    return found


# -- what is drawn

versions = st.builds(
    Version,
    key=st.integers(0, 2),
    number=st.integers(0, 2),
    is_double=st.booleans(),
    tags=st.sets(st.sampled_from(TAGS), min_size=1).map(frozenset),
    elements=st.sets(st.sampled_from(sorted(ELEMENTS)), min_size=1).map(frozenset),
    place=st.sets(st.sampled_from(sorted(PLACE_NAMES)), min_size=1).map(frozenset),
    depth=st.integers(0, 2),
    flags=st.sampled_from(["persistent", "cleanup=false"]),
)
places = st.dictionaries(st.sampled_from([1, 2, 3]), st.just(0), max_size=3).flatmap(
    lambda found: st.fixed_dictionaries(
        {t: st.sampled_from(NUMBERS) if t == 3 else st.sampled_from([0.5, -1.25]) for t in found}
    )
)
full_values = st.fixed_dictionaries(
    {},
    optional={
        2: st.sampled_from(NUMBERS),
        3: st.sampled_from(["", "Mary", "x" * 40]),
        4: st.sampled_from(sorted(ELEMENTS)),
        5: places,
        6: st.lists(places, max_size=2),
        7: st.booleans(),
        8: st.sampled_from([0.5, -3.0]),
    },
)


# -- unions


def united(*some: Version) -> StructType:
    def unite(one: StructType, other: StructType) -> StructType:
        found = unite_deep(one, other)
        assert isinstance(found, StructType), found
        return found

    return reduce(unite, [version.type for version in some])


def content(type_: StructType) -> Any:
    """A type without the order of its fields and elements."""
    return {
        item.tag: (item.name, item.is_key, _content(item.type)) for item in type_.fields
    }, type_.flags


def _content(type_: Any) -> Any:
    if isinstance(type_, StructType):
        return content(type_)
    if hasattr(type_, "elements"):
        return {element.tag: element.name for element in type_.elements}
    if hasattr(type_, "element"):
        return [_content(type_.element)]
    return type_.name


@given(versions, versions)
def test_versions_are_compatible_and_their_union_is_the_same_in_any_order(
    one: Version, other: Version
) -> None:
    assert obstacle(one.type, other.type) is None
    assert content(united(one, other)) == content(united(other, one))
    assert united(one, one) == one.type


@given(versions, versions, versions)
def test_a_union_is_the_same_however_it_is_put_together(
    one: Version, other: Version, third: Version
) -> None:
    left, right = united(one, other), united(other, third)
    ahead, behind = unite_deep(left, third.type), unite_deep(one.type, right)
    assert isinstance(ahead, StructType)
    assert isinstance(behind, StructType)
    assert content(ahead) == content(behind)


@given(versions, versions, full_values, st.sampled_from(KEYS))
def test_a_union_reads_all_of_each_and_loses_nothing(
    one: Version, other: Version, values: Values, key: int
) -> None:
    union = united(one, other)
    for version in (one, other):
        assert reads_all(union, version.type)
        said = {tag: v for tag, v in values.items() if version.can_say(tag, v)}
        if version.knows_key(key):
            data = build(version, key, said).encode()
            assert flat(class_of(union).decode(data)) == said


@given(versions, versions, full_values, st.sampled_from(KEYS))
def test_each_reader_gets_from_an_object_what_it_knows(
    writer: Version, reader: Version, values: Values, key: int
) -> None:
    said = {tag: v for tag, v in values.items() if writer.can_say(tag, v)}
    if not writer.knows_key(key):
        return
    # As the node keeps it, which is in the form of the union.
    union = codec_of(class_of(united(writer, reader)))
    data = union.normalize(build(writer, key, said).encode())
    mine, present = project(codec_of(boat_class(reader)).plan, data, reader.type.mask)
    assert present >> 1 & 1 == reader.knows_key(key)
    assert flat(boat_class(reader).decode(mine)) == reader.read(said)


# -- a node


@dataclass
class Disk:
    types: dict[str, StoredType] = field(default_factory=dict)
    objects: dict[bytes, Any] = field(default_factory=dict)


@dataclass
class Program:
    """A client of the node with its version."""

    guest: Guest
    version: Version
    is_reading: bool = False
    where: int | None = None
    """Of a filtered subscription: the number of the crew that it asks for, or more."""
    is_paused: bool = False


class NodeMachine(RuleBasedStateMachine):
    """Programs of many versions come, publish, subscribe and go; the node restarts."""

    programs = Bundle("programs")

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.model: dict[int, dict[int, Any]] = {}
        self.present: list[Program] = []
        self.begin()

    def begin(self) -> None:
        self.harbour = Harbour(journal=Journal(rng=Random(1)))
        for stored in self.disk.types.values():
            self.harbour.node.restored(stored)
        for obj in self.disk.objects.values():
            self.harbour.node.restored(obj)
        self.filler = self.harbour.guest("filler")

    def save(self) -> None:
        journal = self.harbour.node.journal
        assert journal is not None
        batch = journal.take_batch(0, is_urgent=True)
        if batch is not None:
            self.disk.types.update({stored.name: stored for stored in batch.types})
            self.disk.objects.update({put.key: put for put in batch.puts})
            for _, key in batch.drops:
                self.disk.objects.pop(key, None)
            journal.written(batch.number)
            self.harbour.pump()

    @rule(
        target=programs,
        version=versions,
        is_plain=st.booleans(),
        group=st.sampled_from(["", "Boat", "/Boat/*"]),
        is_conflated=st.booleans(),
    )
    def come(self, version: Version, is_plain: bool, group: str, is_conflated: bool) -> Program:
        join = self.harbour.plain if is_plain else self.harbour.guest
        program = Program(join(f"g{len(self.present)}"), version, bool(group))
        program.guest.describe(boat_class(version))
        if group:
            program.guest.join(group, is_conflated=is_conflated)
        self.present.append(program)
        return program

    @rule(
        target=programs,
        version=versions,
        least=st.sampled_from(NUMBERS),
        is_conflated=st.booleans(),
    )
    def select(self, version: Version, least: int, is_conflated: bool) -> Any:
        if 2 not in version.tags or not fits(least, version.number):
            return multiple()
        program = Program(self.harbour.guest("view"), version, where=least)
        cls = boat_class(version)
        program.guest.describe(cls)
        program.guest.open_view(cls, 1, where=f"crew >= {least}", is_conflated=is_conflated)
        self.present.append(program)
        return program

    @rule(program=programs)
    def pause(self, program: Program) -> None:
        if program in self.present and not program.is_paused:
            program.guest.join("Fill")
            program.guest.pause()
            # So much waits then that a subscription that conflates begins to.
            self.filler.publish(Fill(data=bytes(CONFLATE_BYTES + 1)))
            program.is_paused = True

    @rule(program=programs)
    def resume(self, program: Program) -> None:
        if program in self.present and program.is_paused:
            program.is_paused = False
            program.guest.resume()
            program.guest.leave("Fill")

    @rule(program=programs, key=st.sampled_from(KEYS), values=full_values, data=st.data())
    def publish(self, program: Program, key: int, values: Values, data: st.DataObject) -> None:
        version = program.version
        if program not in self.present or not version.knows_key(key):
            return
        said = {tag: value for tag, value in values.items() if version.can_say(tag, value)}
        unset = data.draw(st.sets(st.sampled_from(sorted(version.tags))))
        names = [NAMES[tag] for tag in {*said, *unset}]
        program.guest.publish(build(version, key, said), only=names)
        obj = self.model.setdefault(key, {})
        for tag in unset:
            obj.pop(tag, None)
        obj.update(said)

    @precondition(lambda self: self.model)
    @rule(program=programs, data=st.data())
    def remove(self, program: Program, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        if program in self.present and program.version.knows_key(key):
            program.guest.remove(boat_class(program.version)(id=key))
            del self.model[key]

    @rule(program=consumes(programs), is_polite=st.booleans())
    def go(self, program: Program, is_polite: bool) -> None:
        if program in self.present:
            self.present.remove(program)
            program.guest.goodbye() if is_polite else program.guest.vanish()

    @rule()
    def restart(self) -> None:
        self.save()
        kept = {put.payload: put for put in self.disk.objects.values()}
        self.present.clear()
        self.begin()
        objects = self.harbour.node.cache.objects("Boat")
        assert {entry.payload for _, entry in objects} == set(kept), "nothing is rewritten"
        self.model = {key: v for key, v in self.model.items() if key in self.cached()}

    def cached(self) -> dict[int, dict[int, Any]]:
        """What the node has, read by a definition that knows everything."""
        decoded = [EVERYTHING.decode(e.payload) for _, e in self.harbour.node.cache.objects("Boat")]
        return {obj.id: flat(obj) for obj in decoded}

    @invariant()
    def the_node_has_what_was_published(self) -> None:
        assert self.cached() == self.model

    @invariant()
    def each_program_sees_what_it_knows(self) -> None:
        for program in self.present:
            if program.is_paused:
                continue
            assert program.guest.refusals() == []
            assert not program.guest.is_cut, program.guest.fault
            version = program.version
            if program.is_reading:
                assert self.seen(program, None) == {
                    key: version.read(values)
                    for key, values in self.model.items()
                    if version.knows_key(key)
                }
            if program.where is not None:
                assert self.seen(program, 1) == {
                    key: version.read(values)
                    for key, values in self.model.items()
                    if version.knows_key(key) and values.get(2, -1) >= program.where
                }

    def seen(self, program: Program, number: int | None) -> dict[int, dict[int, Any]]:
        found = program.guest.sees(boat_class(program.version), number).values()
        return {obj.id: flat(obj) for obj in found}

    def teardown(self) -> None:
        self.harbour.check()


Fill = skerry.define_types("struct Fill [cached=false] { 1: bytes data; }").Fill
EVERYTHING = boat_class(
    Version(
        key=2,
        number=2,
        is_double=True,
        tags=frozenset(TAGS),
        elements=frozenset(ELEMENTS),
        place=frozenset(PLACE_NAMES),
        depth=2,
        flags="persistent",
    )
)


ODD_FIELDS = {
    "name": ("2: string name;", "2: uint32 name;", ""),
    "place": ("3: Place place;", "3: vector<Place> place;", ""),
    "more": ("4: bool more;", "5: bool more;", ""),
}
odd_versions = st.builds(
    lambda key, lat, *fields: (
        f"struct Place {{ 1: {lat} lat; }} "
        f"struct Boat {{ 1: [key] {key} id; {' '.join(fields)} 9: bool last; }}"
    ),
    st.sampled_from(["uint32", "uint32", "uint64", "string"]),
    st.sampled_from(["float64", "float64", "string"]),
    *(st.sampled_from(choices) for choices in ODD_FIELDS.values()),
)
odd_types = cache(skerry.define_types)


class OddMachine(RuleBasedStateMachine):
    """Programs with definitions that may be incompatible: what is refused leaves no trace."""

    programs = Bundle("programs")

    def __init__(self) -> None:
        super().__init__()
        self.harbour = Harbour()
        self.watcher = self.harbour.plain("watcher")
        self.watcher.join("Boat")
        self.present: list[tuple[Guest, Any]] = []

    def payloads(self) -> dict[bytes, bytes]:
        return {key: entry.payload for key, entry in self.harbour.node.cache.objects("Boat")}

    @rule(
        target=programs,
        text=odd_versions,
        is_plain=st.booleans(),
        is_reading=st.booleans(),
        has_view=st.booleans(),
    )
    def come(self, text: str, is_plain: bool, is_reading: bool, has_view: bool) -> Any:
        guest = (self.harbour.plain if is_plain else self.harbour.guest)("program")
        cls = odd_types(text).Boat
        before = self.payloads()
        guest.describe(cls)
        if is_reading:
            guest.join("Boat")
        if has_view:
            guest.open_view(cls, 1, where="last = true")
        assert self.payloads() == before
        self.present.append((guest, cls))
        return guest, cls

    @rule(program=programs, key=st.integers(1, 3), last=st.booleans(), has_name=st.booleans())
    def publish(self, program: Any, key: int, last: bool, has_name: bool) -> None:
        guest, cls = program
        if program not in self.present:
            return
        id_ = cls.descriptor.field("id").type.name
        obj = cls(id=str(key) if id_ == "string" else key, last=last)
        if has_name and cls.descriptor.has_field("name"):
            is_text = cls.descriptor.field("name").type.name == "string"
            obj.name = "Mary" if is_text else 7
        before, heard = self.payloads(), len(self.watcher.heard)
        refused = len(guest.refusals())
        guest.publish(obj)
        publish_count = sum(what == "publish" for what, _ in guest.refusals()[refused:])
        if publish_count or guest.is_cut:
            assert "Boat" in guest.fault or not guest.is_cut
            assert self.payloads() == before, "nothing of a refused update is kept"
            assert len(self.watcher.heard) == heard, "nor forwarded"
        else:
            assert cls.decode(self.payloads()[key_of(obj)]).last is last
        if guest.is_cut:
            self.present.remove(program)

    @rule(target=programs, program=programs, text=odd_versions)
    def describe_again(self, program: Any, text: str) -> Any:
        """A connection gets another definition of the same type."""
        guest, _ = program
        if program not in self.present or not guest.connection.renews:
            return multiple()
        before = self.payloads()
        guest.forget()
        cls = odd_types(text).Boat
        guest.describe(cls)
        assert self.payloads() == before
        self.present[self.present.index(program)] = (guest, cls)
        return guest, cls

    @precondition(lambda self: self.payloads())
    @rule(program=programs, data=st.data())
    def remove(self, program: Any, data: st.DataObject) -> None:
        guest, cls = program
        key = data.draw(st.integers(1, 3))
        if program in self.present:
            id_ = cls.descriptor.field("id").type.name
            guest.remove(cls(id=str(key) if id_ == "string" else key))
            if guest.is_cut:
                self.present.remove(program)

    @rule(program=consumes(programs))
    def go(self, program: Any) -> None:
        if program in self.present:
            self.present.remove(program)
            program[0].goodbye()

    @invariant()
    def all_objects_read_by_what_is_served(self) -> None:
        registry = self.harbour.node.registry
        for payload in self.payloads().values():
            class_of(registry["Boat"]).decode(payload)
        used = registry.definitions("Boat")
        assert len(used) <= 1 or all(d.clients or d.is_accepted for d in used)

    @invariant()
    def what_programs_receive_they_can_read(self) -> None:
        for guest, cls in self.present:
            for item in (*guest.items("Boat"), *guest.items("Boat", 1)):
                cls.decode(item.payload)

    def teardown(self) -> None:
        self.harbour.check()


TestNode = pytest.mark.slow(NodeMachine.TestCase)
NodeMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestOddNode = pytest.mark.slow(OddMachine.TestCase)
OddMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
