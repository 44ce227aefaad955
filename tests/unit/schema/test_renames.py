"""Renamed types are found by their fields and elements."""

from __future__ import annotations

import dataclasses

import pytest

from skerry.schema.check import define
from skerry.schema.model import NamedType
from skerry.schema.renames import RENAME_WORK_MAX, renames


def found(old: str, new: str) -> dict[str, str]:
    return renames(define(old).types, define(new).types)


VESSEL = "struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: float64 lon; }"


@pytest.mark.parametrize(
    "fields",
    [
        "1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: float64 lon;",
        "1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: float64 lon; 5: bool b;",
        "1: [key] uint32 mmsi; 2: string name; 3: float64 lat;",
        "1: [key] uint32 id; 2: string title; 3: float64 x; 4: float64 lon;",
        "1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: string lon;",
    ],
)
def test_a_struct_with_mostly_the_same_fields_is_a_renamed_one(fields: str) -> None:
    assert found(VESSEL, f"struct Ship {{ {fields} }}") == {"Vessel": "Ship"}


@pytest.mark.parametrize(
    "fields",
    [
        "1: [key] uint32 mmsi; 2: string name; 3: bool lat; 4: bool lon;",
        "1: [key] uint32 a; 2: string b; 3: float64 c; 4: float64 d;",
        "1: uint32 mmsi; 2: string name; 6: float64 lat; 7: float64 lon;",
    ],
)
def test_a_struct_with_other_fields_or_other_names_is_another_one(fields: str) -> None:
    assert found(VESSEL, f"struct Ship {{ {fields} }}") == {}


def test_one_more_field_is_allowed_even_if_it_is_half_of_them() -> None:
    assert found("struct A { 1: bool a; }", "struct B { 1: bool a; 2: bool b; }") == {"A": "B"}
    assert found("struct A { 1: bool a; }", "struct B { 1: bool a; 2: bool b; 3: bool c; }") == {}


def test_enums_are_alike_by_tag_and_name() -> None:
    old = "enum Kind { 1: cargo, 2: tanker, 3: tug }"
    assert found(old, "enum Sort { 1: cargo, 2: tanker, 4: ferry }") == {"Kind": "Sort"}
    assert found(old, "enum Sort { 1: cargo, 2: red, 3: green }") == {}
    assert found("enum E { 1: a }", "struct S { 1: bool a; }") == {}


def test_equal_types_are_matched_first_and_then_the_most_similar() -> None:
    old = "struct A { 1: bool a; 2: bool b; 3: bool c; } struct B { 1: bool a; 2: bool b; }"
    new = "struct X { 1: bool a; 2: bool b; } struct Y { 1: bool a; 2: bool b; 3: bool d; }"
    assert found(old, new) == {"B": "X", "A": "Y"}


def test_equal_types_are_matched_in_order() -> None:
    text = "struct {} {{ 1: bool a; }} struct {} {{ 1: bool a; }}"
    assert found(text.format("A", "B"), text.format("X", "Y")) == {"A": "X", "B": "Y"}


def test_fields_of_renamed_types_are_the_same_fields() -> None:
    text = (
        "enum {0} {{ 1: a }} struct {1} {{ 1: {0} k; 2: vector<{0}> v; 3: instance_ref<{1}> r; }}"
    )
    assert found(text.format("E", "S"), text.format("F", "T")) == {"E": "F", "S": "T"}


@pytest.mark.slow
def test_the_search_for_similar_types_stops_at_its_limit_of_work() -> None:
    fields = "".join(f"{tag}: bool a{tag}; " for tag in range(1, 21))
    (old,) = define(f"struct Old {{ {fields} }}").types
    (new,) = define(f"struct New {{ {fields} 21: bool b; }}").types
    (other,) = define(f"struct Other {{ {fields.replace('bool', 'int8')} }}").types

    def named(type_: NamedType, prefix: str, count: int) -> list[NamedType]:
        return [dataclasses.replace(type_, name=f"{prefix}{n}") for n in range(count)]

    came = named(new, "B", 200)
    count = RENAME_WORK_MAX // (200 * (20 + 21))
    assert renames([*named(other, "A", count - 1), old], came) == {"Old": "B0"}
    assert renames([*named(other, "A", count), old], came) == {}
    came.append(dataclasses.replace(old, name="Same"))
    equal = renames([*named(other, "A", count), old], came)
    assert equal == {"Old": "Same"}, "equal ones are found without looking for likeness"
