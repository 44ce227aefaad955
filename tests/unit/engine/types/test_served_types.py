"""Served types: unions of accepted definitions, and types that use each other."""

from __future__ import annotations

from skerry.engine.types.served_types import (
    Definition,
    ServedType,
    ServedTypes,
    UnionConflict,
    part_names,
    with_flags,
)
from skerry.schema.check import define
from skerry.schema.fingerprint import fingerprint
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType, StructType

TEXT = """\
enum Kind { 1: cargo }
struct Place { 1: float64 lat; }
struct Boat { 1: [key] uint32 id; 2: Place place; 3: Kind kind; }
struct Fleet { 1: [key] uint32 id; 2: vector<Boat> boats; }
"""


def types(text: str) -> dict[str, NamedType]:
    return {type_.name: type_ for type_ in define(text).types}


def accept(served: ServedTypes, type_: NamedType, *, is_owned: bool = True) -> Definition:
    known = served.setdefault(type_.name, ServedType(type_.name, ""))
    definition = known.definitions.setdefault(fingerprint(type_), Definition(type_))
    served.accept(known, type_, is_owned=is_owned)
    return definition


def served_types(text: str = TEXT) -> tuple[ServedTypes, list[str]]:
    outdated: list[str] = []
    served = ServedTypes(outdated.append)
    for type_ in types(text).values():
        accept(served, type_)
    outdated.clear()
    return served, outdated


def test_a_changed_type_outdates_the_served_types_that_use_it() -> None:
    served, outdated = served_types()
    assert served.served("Fleet") == types(TEXT)["Fleet"]
    grown = TEXT.replace("float64 lat;", "float64 lat; 2: float64 lon;")
    accept(served, types(grown)["Place"])
    assert outdated == ["Place", "Boat", "Fleet"]
    assert served.served("Fleet") == types(grown)["Fleet"]
    accept(served, types(grown)["Place"])
    assert outdated == ["Place", "Boat", "Fleet"], "it is accepted already"


def test_a_type_without_a_served_form_is_not_outdated_again() -> None:
    served, outdated = served_types()
    served.served("Boat")
    accept(served, types("enum Kind { 1: cargo, 2: tanker }")["Kind"])
    assert outdated == ["Kind", "Boat"], "Fleet was not served since"


def test_the_union_shrinks_when_a_definition_is_dropped() -> None:
    served, _ = served_types("struct Boat { 1: [key] uint32 id; }")
    wider = accept(served, types("struct Boat { 1: [key] uint32 id; 2: string name; }")["Boat"])
    assert served["Boat"].accepted[1] is wider
    assert not served["Boat"].has_clients
    served.drop(served["Boat"], wider)
    union = served["Boat"].union
    assert isinstance(union, StructType)
    assert [item.name for item in union.fields] == ["id"]


def test_flags_are_those_of_owned_definitions() -> None:
    served, _ = served_types("struct Boat { 1: [key] uint32 id; }")
    other = types("struct Boat [persistent] { 1: [key] uint32 id; 2: string name; }")["Boat"]
    accept(served, other, is_owned=False)
    union = served["Boat"].union
    assert isinstance(union, StructType)
    assert not union.flags.persistent
    assert len(union.fields) == 2
    flagged = with_flags(union, other)
    assert isinstance(flagged, StructType)
    assert flagged.flags.persistent


def test_types_know_the_types_that_use_them() -> None:
    served, _ = served_types()
    assert served.users_above("Kind") == ["Boat", "Fleet"]
    assert served.reached_from(frozenset({"Boat"})) == {"Boat", "Place", "Kind"}
    assert list(part_names(types(TEXT)["Boat"])) == ["Place", "Kind"]
    fleet = types(TEXT)["Fleet"]
    assert isinstance(fleet, StructType)
    assert (served.depth(fleet), served.height("Place"), served.height("Fleet")) == (3, 2, 0)
    (boat,) = served["Boat"].accepted
    (place,) = served["Place"].accepted
    (around, outer) = served.definitions_around(place)
    assert (around, outer.type.name) == (boat, "Fleet")


def test_internal_types_are_served_too() -> None:
    served, _ = served_types()
    assert served.served("DotsHeader") is internal_types()["DotsHeader"]
    assert "DotsHeader" not in served


def test_a_conflict_is_decided_unless_stated_otherwise() -> None:
    assert UnionConflict("tag 1", None).is_decided
