"""Fingerprints: equal if and only if the same is transmitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cbor2
import pytest

from skerry.ids import hash64
from skerry.schema.check import define
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import EnumType, NamedType, Scope, StructType

TEXT = """
enum Kind { 1: cargo, 2: tanker = 80 }
struct Position [substruct_only] { 1: float64 lat; 2: float64 lon; }
struct Vessel [persistent] {
    2: [key] uint32 mmsi;
    1: vector<Position> track;
    3: Kind kind;
    4: Position home;
}
"""


def types_of(text: str) -> dict[str, NamedType]:
    return {type_.name: type_ for type_ in define(text).types}


@pytest.fixture(scope="module")
def types() -> dict[str, NamedType]:
    return types_of(TEXT)


def test_the_definition_is_written_out(types: dict[str, NamedType]) -> None:
    kind = hash64(cbor2.dumps(["Kind", [[1, "cargo"], [2, "tanker"]]]))
    position = hash64(
        cbor2.dumps(
            [
                "Position",
                [True, False, False, False, False, True],
                3,
                [[1, "lat", "float64", False], [2, "lon", "float64", False]],
                [],
            ]
        )
    )
    vessel = hash64(
        cbor2.dumps(
            [
                "Vessel",
                [True, False, True, False, False, False],
                3,
                [
                    [2, "mmsi", "uint32", True],
                    [1, "track", "vector<Position>", False],
                    [3, "kind", "Kind", False],
                    [4, "home", "Position", False],
                ],
                [position, kind],
            ]
        )
    )
    assert fingerprint(types["Kind"]) == kind
    assert fingerprint(types["Position"]) == position
    assert fingerprint(types["Vessel"]) == vessel


def test_the_numbers_never_change(types: dict[str, NamedType]) -> None:
    """They are part of recordings. A change here is a change of the wire."""
    assert {name: fingerprint(type_) for name, type_ in types.items()} == {
        "Kind": 7563388648101349422,
        "Position": 6354343051313954870,
        "Vessel": -263966398305134386,
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("struct Vessel", "/// Documented.\nstruct Vessel"),
        ("tanker = 80", "tanker = 81"),
        ("[key] uint32 mmsi;", '[key, default="5", ctor, deprecated, unit="x"] uint32 mmsi;'),
        ("[persistent]", "[persistent, deprecated]"),
        ("4: Position home;", "4: Position home; 9: [removed] bool gone;"),
        ("[persistent]", '[persistent, scope="site"]'),
        ("Kind kind", "Kind   kind"),
    ],
)
def test_facts_that_are_not_transmitted_do_not_change_the_fingerprint(
    types: dict[str, NamedType], old: str, new: str
) -> None:
    assert old in TEXT
    other = types_of(TEXT.replace(old, new))
    assert fingerprint(other["Vessel"]) == fingerprint(types["Vessel"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Vessel", "Ship"),
        ("mmsi", "id"),
        ("2: [key]", "9: [key]"),
        ("[key] uint32", "uint32"),
        ("[key] uint32", "[key] uint64"),
        ("vector<Position> track", "Position track"),
        ("[persistent]", "[cleanup]"),
        ("[persistent]", "[persistent, cached=false]"),
        ("[persistent]", '[persistent, scope="global"]'),
        ("[persistent]", "[persistent, local]"),
        ("lat", "latitude"),
        ("substruct_only", "cached"),
        ("2: tanker", "3: tanker"),
        ("tanker", "ferry"),
        ("1: cargo,", "1: cargo, 5: ferry,"),
        ("4: Position home;", "4: Position home; 5: bool b;"),
        ("4: Position home;", ""),
    ],
)
def test_facts_that_are_transmitted_change_the_fingerprint(
    types: dict[str, NamedType], old: str, new: str
) -> None:
    assert old in TEXT
    other = types_of(TEXT.replace(old, new))
    ship: Any = other.get("Vessel") or other["Ship"]
    assert fingerprint(ship) != fingerprint(types["Vessel"])


def test_the_order_of_fields_changes_the_fingerprint(types: dict[str, NamedType]) -> None:
    vessel = types["Vessel"]
    assert isinstance(vessel, StructType)
    other = replace(vessel, fields=vessel.fields[::-1])
    assert fingerprint(other) != fingerprint(vessel)


def test_the_effective_scope_counts() -> None:
    plain = StructType(name="T", fields=())
    assert fingerprint(plain) == fingerprint(StructType(name="T", fields=(), scope=Scope.SITE))
    assert fingerprint(plain) != fingerprint(StructType(name="T", fields=(), scope=Scope.SERVER))


def test_an_enum_and_a_struct_of_one_name_differ() -> None:
    assert fingerprint(EnumType(name="T", elements=())) != fingerprint(
        StructType(name="T", fields=())
    )


def test_types_that_use_each_other_many_times_are_hashed_quickly() -> None:
    text = "struct L0 { 1: bool x; }\n"
    for level in range(1, 16):
        fields = "".join(f"{tag}: L{level - 1} f{tag}; " for tag in range(1, 32))
        text += f"struct L{level} {{ {fields} }}\n"
    types, again = types_of(text), types_of(text)
    assert fingerprint(types["L15"]) == fingerprint(again["L15"])
