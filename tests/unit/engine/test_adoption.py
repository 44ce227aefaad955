"""Adoption: which new definitions of a stored type its objects survive, and as which bytes."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.engine.adoption import plan_adoption, with_part
from skerry.errors import DecodeError
from skerry.objects.base import key_of
from skerry.schema.evolve import What
from skerry.schema.model import StructType


def boat(fields: str, *, flags: str = "persistent=true", before: str = "") -> Any:
    return skerry.define_types(f"{before} struct Boat [{flags}] {{ {fields} }}").Boat


OLD = boat("1: [key] uint32 id; 2: string name; 3: float32 speed; 4: uint8 crew;")


def test_added_and_dropped_fields_are_adopted_and_their_bytes_go() -> None:
    new = boat("1: [key] uint32 id; 3: float32 speed; 9: string port;")
    plan = plan_adoption(OLD.descriptor, new.descriptor)
    assert plan.is_possible
    assert plan.reason == ""
    payload = plan.convert(OLD(id=1, name="Maren", speed=2.5, crew=3).encode())
    assert payload == new(id=1, speed=2.5).encode()


def test_what_was_dropped_does_not_come_back_under_a_later_field() -> None:
    second = boat("1: [key] uint32 id;")
    third = boat("1: [key] uint32 id; 2: string harbour;")
    payload = OLD(id=1, name="Maren").encode()
    payload = plan_adoption(OLD.descriptor, second.descriptor).convert(payload)
    payload = plan_adoption(second.descriptor, third.descriptor).convert(payload)
    assert third.decode(payload) == third(id=1)


def test_widened_numbers_are_written_in_their_new_form() -> None:
    new = boat("1: [key] uint64 id; 2: string name; 3: float64 speed; 4: uint16 crew;")
    old = OLD(id=7, name="Maren", speed=2.5, crew=200)
    payload = plan_adoption(OLD.descriptor, new.descriptor).convert(old.encode())
    assert payload == new(id=7, name="Maren", speed=2.5, crew=200).encode()
    assert key_of(new.decode(payload)) == key_of(old)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ("1: [key] uint32 id; 2: uint32 name; 3: float32 speed; 4: uint8 crew;", "Boat.name"),
        ("1: [key] uint32 id; 2: string name; 3: float16 speed; 4: uint8 crew;", "Boat.speed"),
        ("1: [key] uint32 id; 2: [key] string name; 3: float32 speed;", "Boat.name"),
        ("1: uint32 id; 2: string name; 3: float32 speed; 4: uint8 crew;", "Boat.id"),
        ("1: [key] string id; 2: string name; 3: float32 speed; 4: uint8 crew;", "Boat.id"),
        ("1: [key] uint32 id; 3: string name; 2: float32 speed; 4: uint8 crew;", "Boat.name"),
    ],
)
def test_changes_that_break_stored_data_are_refused_with_the_reason(
    fields: str, where: str
) -> None:
    plan = plan_adoption(OLD.descriptor, boat(fields).descriptor)
    assert not plan.is_possible
    assert plan.reason.startswith(where)
    with pytest.raises(AssertionError):
        plan.convert(OLD(id=1).encode())


@pytest.mark.parametrize("flags", ["persistent=false", "persistent=true, cached=false"])
def test_no_definition_makes_stored_objects_vanish(flags: str) -> None:
    new = boat("1: [key] uint32 id; 2: string name; 3: float32 speed; 4: uint8 crew;", flags=flags)
    plan = plan_adoption(OLD.descriptor, new.descriptor)
    assert not plan.is_possible
    assert "remove its objects first" in plan.reason


def test_changed_struct_in_a_key_is_refused_since_keys_are_its_bytes() -> None:
    key = "1: [key] Place place; 2: string name;"
    old = boat(key, before="struct Place [substruct_only] { 1: uint32 x; 2: uint32 y; }")
    new = boat(key, before="struct Place [substruct_only] { 1: uint32 x; }")
    plan = plan_adoption(old.descriptor, new.descriptor)
    assert plan.reason == "Boat: keys are made of Place, which has changed"
    assert plan_adoption(old.descriptor, old.descriptor).is_possible


def test_changed_struct_outside_the_key_is_adopted_inside_and_in_vectors() -> None:
    fields = "1: [key] uint32 id; 2: Place place; 3: vector<Place> track;"
    old = boat(fields, before="struct Place { 1: uint8 x; 2: uint8 y; }")
    new = boat(fields, before="struct Place { 1: uint16 x; }")
    place = old.descriptor.field("place").type
    assert isinstance(place, StructType)
    old_place = skerry.define_types("struct Place { 1: uint8 x; 2: uint8 y; }").Place
    new_place = skerry.define_types("struct Place { 1: uint16 x; }").Place
    old_payload = old(id=1, place=old_place(x=1, y=2), track=[old_place(x=3, y=4)]).encode()
    payload = plan_adoption(old.descriptor, new.descriptor).convert(old_payload)
    assert payload == new(id=1, place=new_place(x=1), track=[new_place(x=3)]).encode()


def test_losses_are_named_and_do_not_forbid() -> None:
    new = boat("1: [key] uint32 id; 2: string name; 3: duration trip; 4: uint8 crew;")
    plan = plan_adoption(OLD.descriptor, new.descriptor)
    assert plan.is_possible
    assert [change.what for change in plan.losses] == [What.FIELD_REPLACED]


def test_bytes_that_are_no_object_are_told() -> None:
    plan = plan_adoption(OLD.descriptor, OLD.descriptor)
    with pytest.raises(DecodeError):
        plan.convert(b"\xff")


def test_new_part_stands_wherever_the_old_one_did() -> None:
    source = """
    enum Flag {{ 1: red {more} }}
    struct Inner {{ 1: Flag flag; 2: vector<Flag> flags; }}
    struct Outer [persistent=true] {{ 1: [key] uint32 id; 2: vector<Inner> inner; 3: Flag own; }}
    """
    old = skerry.define_types(source.format(more="")).Outer.descriptor
    new = skerry.define_types(source.format(more=", 2: green")).Outer.descriptor
    assert with_part(old, new.field("own").type) == new
    assert with_part(old, old.field("own").type) is old
    assert plan_adoption(old, new).is_possible
    assert not plan_adoption(new, old).is_possible
