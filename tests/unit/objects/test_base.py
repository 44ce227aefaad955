"""The methods of every object."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import weakref
from typing import Any

import pytest

import skerry
from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.errors import DecodeError
from skerry.objects.base import (
    RESERVED_NAMES,
    Struct,
    build,
    key_of,
    merge,
    pack,
    ref_to,
    selection,
)
from skerry.objects.classes import class_of
from skerry.objects.descriptors import describe, from_description
from skerry.objects.typeset import TypeSet, define_types
from skerry.schema.model import dependencies


def twin_of(cls: Any) -> Any:
    """Another class of the same type, as a program gets it from a descriptor."""
    known: dict[str, Any] = {}
    for type_ in (*dependencies(cls.descriptor), cls.descriptor):
        known[type_.name] = from_description(describe(type_), known)
    return class_of(known[cls.descriptor.name])


def test_fields_that_are_not_given_are_unset(types: TypeSet) -> None:
    vessel = types.Vessel(mmsi=5, name="Aurora")
    assert vessel.mmsi == 5
    assert vessel.position is None
    assert vessel.is_set("name")
    assert not vessel.is_set("position")
    assert list(vessel.attributes) == [1, 2, 7]
    assert type(vessel.attributes) is PropertySet


def test_a_field_is_cleared_by_name_or_by_none(types: TypeSet) -> None:
    vessel = types.Vessel(mmsi=5, name="Aurora", seen=1.0)
    vessel.clear("name")
    vessel.seen = None
    assert vessel == types.Vessel(mmsi=5)


def test_unknown_field_raises_an_error(types: TypeSet) -> None:
    vessel = types.Vessel(mmsi=5)
    for act in (vessel.is_set, vessel.clear, lambda name: vessel.encode([name])):
        with pytest.raises(AttributeError, match=r"Vessel has no field speed; it has mmsi, name,"):
            act("speed")
    with pytest.raises(AttributeError):
        vessel.speed = 5
    with pytest.raises(TypeError, match="speed"):
        types.Vessel(mmsi=5, speed=5)


def test_a_struct_without_a_type_has_no_objects() -> None:
    with pytest.raises(TypeError, match=r"Struct has no type; declare it with @skerry\.struct"):
        Struct()

    class Undecorated(Struct):
        pass

    with pytest.raises(TypeError, match="Undecorated has no type"):
        Undecorated()


def test_objects_round_trip_as_bytes(types: TypeSet) -> None:
    vessel = types.Vessel(mmsi=5, kind=types.Kind.tanker, position=types.Position(lat=52.1))
    again = types.Vessel.decode(vessel.encode())
    assert again == vessel
    assert type(again) is types.Vessel
    with pytest.raises(DecodeError, match="Vessel"):
        types.Vessel.decode(b"\x00")


def test_partial_update_has_the_key_and_the_selected_fields(types: TypeSet) -> None:
    vessel = types.Vessel(mmsi=5, name="Aurora", seen=1.0)
    assert types.Vessel.decode(vessel.encode(["name"])) == types.Vessel(
        mmsi=5, name="Aurora", flags=None
    )
    assert vessel.encode([]) == b"\xa1\x01\x05"
    assert vessel.encode({"position"}) == b"\xa1\x01\x05", "selected and unset means cleared"
    assert selection(types.Vessel, ["name", "seen"]) == PropertySet.of([1, 2, 6])
    with pytest.raises(TypeError, match="expected names of fields, got the str 'name'"):
        vessel.encode("name")


def test_objects_of_one_type_compare_by_their_fields(types: TypeSet) -> None:
    assert types.Vessel(mmsi=5, name="a") == types.Vessel(mmsi=5, name="a")
    assert types.Vessel(mmsi=5, name="a") != types.Vessel(mmsi=5)
    assert types.Position() != types.Vessel()
    assert types.Position(lat=1.0) != (1.0, None)
    assert types.Position(lat=1.0) is not None


def test_classes_of_one_type_have_equal_objects(types: TypeSet) -> None:
    twin = twin_of(types.Vessel)
    assert twin is not types.Vessel
    facts = {"mmsi": 5, "name": "a"}
    mine, other = types.Vessel(**facts, flags=[1]), twin(**facts, flags=[1])
    mine.kind, other.kind = types.Kind.tanker, twin._nested["Kind"].tanker
    mine.position, other.position = types.Position(lat=1.0), twin._nested["Position"](lat=1.0)
    assert mine == other
    assert other == mine
    assert hash(mine) == hash(other)
    assert mine.encode() == other.encode()
    other.name = "b"
    assert mine != other


def test_the_hash_is_that_of_the_key(types: TypeSet) -> None:
    first, second = types.Vessel(mmsi=5, name="a"), types.Vessel(mmsi=5, name="b")
    assert hash(first) == hash(second)
    assert len({first, second, types.Vessel(mmsi=5, name="a")}) == 2
    assert hash(types.Lock(area="x", open=True)) != hash(types.Lock(area="x", open=False))
    assert hash(types.Position(lat=1.0)) == hash(types.Position())


def test_objects_with_keys_of_every_kind_are_hashed() -> None:
    types = define_types(
        "enum E { 1: a } struct N { 1: [key] uint8 x; }"
        "struct T { 1: [key] vector<N> v; 2: [key] E e; 3: [key] any a; 4: [key] N n; }"
    )
    obj = types.T(v=[types.N(x=1)], e=types.E.a, a=AnyObject("N", b"\xa0"), n=types.N(x=2))
    assert hash(obj) == hash(types.T.decode(obj.encode()))
    obj.v = (types.N(x=1),)
    assert hash(obj) == hash(types.T.decode(obj.encode()))


def test_keys_are_canonical(types: TypeSet) -> None:
    assert key_of(types.Vessel(mmsi=5)) == b"\x81\x05"
    assert key_of(types.Lock(area="a", open=True)) == b"\x82\xf5aa", "in tag order"
    assert key_of(types.Lock(area="a")) == b"\x82\xf6aa"
    assert key_of(types.Position(lat=1.0)) == b"\x80"


def test_references_need_the_whole_key(types: TypeSet) -> None:
    assert ref_to(types.Vessel(mmsi=5)) == Ref("Vessel", b"\x81\x05")
    assert ref_to(types.Position()) == Ref("Position", b"\x80")
    with pytest.raises(ValueError, match="has no open, so there can be no reference to it"):
        ref_to(types.Lock(area="a"))


def test_objects_are_packed(types: TypeSet) -> None:
    packed = pack(types.Position(lat=0.5))
    assert packed.type_name == "Position"
    assert skerry.unpack(packed, types.Position) == types.Position(lat=0.5)


def test_copies_are_shallow_or_deep(types: TypeSet) -> None:
    vessel = types.Vessel(mmsi=5, position=types.Position(lat=1.0), flags=[1])
    shallow, deep = copy.copy(vessel), copy.deepcopy(vessel)
    assert shallow == vessel == deep
    vessel.position.lat = 2.0
    vessel.flags.append(2)
    vessel.mmsi = 6
    assert (shallow.mmsi, shallow.position.lat, shallow.flags) == (5, 2.0, [1, 2])
    assert (deep.mmsi, deep.position.lat, deep.flags) == (5, 1.0, [1])


def test_shared_nested_object_stays_shared_in_a_copy(types: TypeSet) -> None:
    place = types.Position(lat=1.0)
    vessel = copy.deepcopy(types.Vessel(mmsi=5, position=place, track=[place]))
    assert vessel.position is vessel.track[0]
    assert vessel.position is not place


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_objects_are_pickled(types: TypeSet, protocol: int) -> None:
    vessel = types.Vessel(
        mmsi=5, kind=types.Kind.tanker, track=[types.Position(lat=1.0)], seen=1.0, flags=None
    )
    again = pickle.loads(pickle.dumps(vessel, protocol))
    assert again == vessel
    assert type(again) is types.Vessel
    assert again.kind is types.Kind.tanker
    assert type(again.track[0]) is types.Position


def test_a_pickled_object_is_read_by_a_program_that_never_saw_the_type(types: TypeSet) -> None:
    vessel = types.Vessel(mmsi=5, kind=types.Kind.tanker, position=types.Position(lat=1.0))
    program = (
        "import pickle, sys; obj = pickle.load(sys.stdin.buffer);"
        "sys.stdout.buffer.write(repr(obj).encode() + b'|' + obj.encode().hex().encode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(vessel), capture_output=True, check=True
    )
    assert done.stdout.decode() == f"{vessel!r}|{vessel.encode().hex()}"


def test_objects_are_matched(types: TypeSet) -> None:
    Vessel, Position = types.Vessel, types.Position  # noqa: N806

    def where(obj: Any) -> Any:
        match obj:
            case Vessel(5, position=Position(lat, None)):
                return lat
            case Vessel(mmsi=mmsi, position=None):
                return mmsi
            case _:
                return "elsewhere"

    assert where(Vessel(mmsi=5, position=Position(lat=1.0))) == 1.0
    assert where(Vessel(mmsi=6)) == 6
    assert where(Vessel(mmsi=6, position=Position())) == "elsewhere"
    assert where(Position()) == "elsewhere"
    assert Vessel.__match_args__ == ("mmsi",), "the fields of its constructor"
    assert Position.__match_args__ == ("lat", "lon")


def test_merging_follows_the_attributes(types: TypeSet) -> None:
    stored = types.Vessel(mmsi=5, name="a", seen=1.0, position=types.Position(lat=1.0, lon=2.0))
    update = types.Vessel(mmsi=5, position=types.Position(lat=3.0), flags=None)
    merged = merge(stored, update)
    assert merged == types.Vessel(mmsi=5, name="a", seen=1.0, position=types.Position(lat=3.0))
    assert stored.position.lon == 2.0, "nothing that was there is changed"
    cleared = merge(stored, update, selection(types.Vessel, ["name", "seen"]))
    assert cleared == types.Vessel(mmsi=5, position=types.Position(lat=1.0, lon=2.0))
    assert merge(stored, update, ["name", "seen"]) == cleared
    with pytest.raises(ValueError, match="an update of another object"):
        merge(stored, types.Vessel(mmsi=6, name="b"))


def test_merging_objects_equals_merging_bytes(types: TypeSet) -> None:
    stored = types.Vessel(mmsi=5, name="a", seen=1.0)
    update = types.Vessel(mmsi=5, name="b", flags=[1, 2])
    for attributes in (0, 2, 4, 0x44, 0xFFFFFFFF):
        data = types.Vessel._codec.merge(stored.encode(), update.encode(), attributes)
        assert merge(stored, update, PropertySet(attributes)).encode() == data


def test_objects_of_two_classes_of_a_type_are_merged(types: TypeSet) -> None:
    twin = twin_of(types.Vessel)
    update = twin(mmsi=5, kind=twin._nested["Kind"].cargo, position=twin._nested["Position"]())
    merged = merge(types.Vessel(mmsi=5, name="a"), update)
    assert type(merged) is types.Vessel
    assert types.Vessel.decode(merged.encode()) == merged
    with pytest.raises(TypeError, match="a Position cannot update a Vessel"):
        merge(types.Vessel(mmsi=5), types.Position())


def test_an_object_is_built_past_its_constructor(types: TypeSet) -> None:
    assert build(types.Position, (1.0, None)) == types.Position(lat=1.0)
    with pytest.raises(ValueError, match="shorter"):
        build(types.Position, (1.0,))


def test_every_name_of_an_object_is_reserved(types: TypeSet) -> None:
    own = {name for name in dir(types.Position) if name not in ("lat", "lon")}
    assert own - RESERVED_NAMES == {"__match_args__"}, "and fields never begin like that"
    assert {"encode", "decode", "attributes", "descriptor", "self", "_codec"} <= RESERVED_NAMES


# -- classes that a program derives


class Plain:
    """A base that knows nothing of structs."""

    def hello(self) -> str:
        return "hello"


def test_a_derived_class_is_of_the_same_type(types: TypeSet) -> None:
    class Ship(types.Vessel, Plain):  # type: ignore[name-defined,misc]
        def is_near(self) -> bool:
            return bool(self.position.lat > 50)

    ship = Ship(mmsi=5, position=types.Position(lat=52.0))
    again = Ship.decode(ship.encode())
    assert type(again) is Ship
    assert again.is_near()
    assert again.hello() == "hello"
    assert ship == types.Vessel(mmsi=5, position=types.Position(lat=52.0)) == ship
    assert type(copy.copy(ship)) is Ship
    assert type(merge(ship, types.Vessel(mmsi=5))) is Ship
    assert type(types.Vessel.decode(ship.encode())) is types.Vessel, "its base is as it was"
    assert isinstance(Ship.from_json(ship.to_json()), Ship)


def test_a_derived_class_may_have_its_own_way_to_decode(types: TypeSet) -> None:
    class Careful(types.Position):  # type: ignore[name-defined,misc]
        @classmethod
        def decode(cls, data: bytes) -> Any:
            return super().decode(data) if data else cls()

    assert Careful.decode(b"") == types.Position()
    assert Careful.decode(types.Position(lat=1.0).encode()) == types.Position(lat=1.0)


def test_object_has_slots_only_for_its_fields(types: TypeSet) -> None:
    with pytest.raises(TypeError, match="weak reference"):
        weakref.ref(types.Position())

    class Watched(types.Position):  # type: ignore[name-defined,misc]
        __slots__ = ("__weakref__",)

    obj = Watched(lat=1.0)
    reference = weakref.ref(obj)
    assert reference() is obj
    del obj
    gc.collect()
    assert reference() is None


class Cargo(skerry.define_types("struct Cargo { 1: [key] uint32 id; }").Cargo):  # type: ignore[misc]
    """Derived to add behaviour."""


def test_attributes_of_a_derived_class_are_copied_and_pickled() -> None:
    obj = Cargo(id=1)
    obj.label = ["fragile"]
    for twin in (copy.copy(obj), copy.deepcopy(obj), pickle.loads(pickle.dumps(obj))):
        assert type(twin) is Cargo
        assert twin == obj
        assert twin.label == ["fragile"]
    assert copy.deepcopy(obj).label is not obj.label


def test_packed_object_is_unpacked_by_its_own_class_only(types: TypeSet) -> None:
    packed = skerry.pack(types.Position(lat=0.5))
    assert skerry.unpack(packed, types.Position) == types.Position(lat=0.5)
    with pytest.raises(TypeError, match="this is a Position, not a Vessel"):
        skerry.unpack(packed, types.Vessel)


def test_access_to_fields_stays_that_of_slots() -> None:
    # Any of these would make each access a Python call: decoding took three times as long.
    for name in ("__getattr__", "__getattribute__", "__setattr__", "__delattr__"):
        assert name not in vars(skerry.Struct)
