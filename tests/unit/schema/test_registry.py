"""The types that a program knows: one definition per name, conflicts, limits."""

from __future__ import annotations

import pytest

from skerry.errors import LimitExceeded, SchemaMismatchError
from skerry.limits import CONFLICT_COUNT_MAX, TYPE_COUNT_MAX
from skerry.schema.check import define
from skerry.schema.model import EnumElement, EnumType, NamedType, StructType
from skerry.schema.registry import Conflict, Registry

TEXT = """
enum Kind { 1: cargo, 2: tanker }
struct Position { 1: float64 lat; 2: float64 lon; }
struct Vessel { 1: [key] uint32 mmsi; 2: Position position; 3: Kind kind; }
"""


def type_of(name: str, text: str = TEXT) -> NamedType:
    return next(type_ for type_ in define(text).types if type_.name == name)


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    made.add(type_of("Vessel"), origin="fleet.dots")
    return made


def test_a_type_is_known_with_all_types_inside(registry: Registry) -> None:
    assert list(registry) == ["Position", "Kind", "Vessel"]
    assert len(registry) == 3
    assert registry["Vessel"] == type_of("Vessel")
    assert "Ship" not in registry
    with pytest.raises(KeyError):
        registry["Ship"]


def test_an_equal_type_changes_nothing(registry: Registry) -> None:
    other = type_of("Vessel", "/// Documented.\n" + TEXT.replace("tanker", "tanker = 80"))
    assert other != registry["Vessel"]
    registry.add(other, origin="client 7")
    assert registry["Vessel"] == type_of("Vessel")
    assert registry.conflicts == ()


def test_another_definition_is_refused_and_noted(registry: Registry) -> None:
    other = type_of("Vessel", TEXT.replace("uint32 mmsi", "uint64 mmsi"))
    with pytest.raises(SchemaMismatchError) as caught:
        registry.add(other, origin="client 7")
    assert str(caught.value) == (
        "two definitions of Vessel: the one from fleet.dots is known, the one from client 7 was"
        " offered (Vessel.mmsi: type widened (uint32 to uint64))"
    )
    assert registry["Vessel"] == type_of("Vessel")
    (conflict,) = registry.conflicts
    assert (conflict.known_from, conflict.offered_from) == ("fleet.dots", "client 7")
    assert (conflict.known, conflict.offered) == (registry["Vessel"], other)


def test_a_type_is_added_with_all_types_inside_or_not_at_all(registry: Registry) -> None:
    text = "struct New { 1: bool b; } enum Kind { 1: ferry } struct Ship { 1: New n; 2: Kind k; }"
    with pytest.raises(SchemaMismatchError, match="two definitions of Kind"):
        registry.add(type_of("Ship", text), origin="client 7")
    assert "New" not in registry
    assert "Ship" not in registry


def test_a_conflict_is_noted_once(registry: Registry) -> None:
    other = type_of("Kind", "enum Kind { 1: ferry }")
    for number in range(3):
        with pytest.raises(SchemaMismatchError):
            registry.add(other, origin=f"client {number}")
    assert [conflict.offered_from for conflict in registry.conflicts] == ["client 0"]


@pytest.mark.parametrize(
    ("known", "offered", "words"),
    [
        (
            "enum T { 1: a }",
            "struct T { 1: bool a; }",
            "T: struct and enum swapped (enum T to struct T)",
        ),
        ("enum T { 1: a }", "enum T { 1: a, 2: b }", "T.b: element added (tag 2)"),
        ("enum T { 1: a, 2: b }", "enum T { 2: b, 1: a }", "T: order changed (tags 2, 1)"),
        (
            "struct T { 1: bool a; }",
            "struct T { 1: [key] bool a; }",
            "T.a: field became a key (key on)",
        ),
        (
            "struct T { 1: bool a; }",
            "struct T [cleanup] { 1: bool a; }",
            "T: cleanup changed (cleanup on)",
        ),
        (
            "struct T { 1: bool a; }",
            'struct T [scope="global"] { 1: bool a; }',
            "T: scope widened (site to global)",
        ),
        (
            "struct T { 1: bool a; 2: bool b; }",
            "struct T { 2: bool b; 1: bool a; }",
            "T: order changed (tags 2, 1)",
        ),
        (
            "enum E { 1: a } struct T { 1: E e; }",
            "enum E { 1: b } struct T { 1: E e; }",
            "a type inside differs",
        ),
    ],
)
def test_the_difference_is_described(known: str, offered: str, words: str) -> None:
    conflict = Conflict(
        known=type_of("T", known), known_from="a", offered=type_of("T", offered), offered_from="b"
    )
    assert conflict.difference().startswith(words)


def enum_of(name: str, label: str = "a") -> EnumType:
    return EnumType(name=name, elements=(EnumElement(tag=1, name=label, value=0),))


def test_the_number_of_types_is_limited() -> None:
    registry = Registry(type_count_max=3)
    registry.add(type_of("Vessel"), origin="a")
    with pytest.raises(LimitExceeded, match="count of types is 4, the limit is 3"):
        registry.add(enum_of("More"), origin="b")
    registry.add(type_of("Vessel"), origin="c")
    assert len(registry) == 3


@pytest.mark.slow
def test_the_default_limit_applies() -> None:
    registry = Registry()
    for number in range(TYPE_COUNT_MAX):
        registry.add(StructType(name=f"T{number}", fields=()), origin="a")
    with pytest.raises(LimitExceeded):
        registry.add(enum_of("More"), origin="b")


def test_noted_conflicts_are_limited() -> None:
    registry = Registry()
    registry.add(enum_of("T"), origin="a")
    for number in range(CONFLICT_COUNT_MAX + 5):
        with pytest.raises(SchemaMismatchError):
            registry.add(enum_of("T", f"l{number}"), origin=f"client {number}")
    assert len(registry.conflicts) == CONFLICT_COUNT_MAX
    assert registry.conflicts[0].offered_from == "client 0", "the oldest stay"
