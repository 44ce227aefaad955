"""Defaults: the JSON form of every type, in range and out of it."""

from __future__ import annotations

import pytest

from skerry.schema.check import define
from skerry.schema.model import INTEGER_RANGES, FieldType, Kind, ScalarType, StructType
from skerry.schema.rules.defaults import NO_JSON, TEXT_HINT, TEXT_KINDS, default_fault

TEXT = """
enum Kind { 1: cargo, 2: tanker }
struct Place { 1: float64 lat; 2: Kind kind; }
struct All {
    1: bool bool; 2: float16 float16; 3: float32 float32; 4: float64 float64; 5: string string;
    6: bytes bytes; 7: uuid uuid; 8: timepoint timepoint; 9: steady_timepoint steady_timepoint;
    10: duration duration; 11: any any; 12: instance_ref instance_ref; 13: Kind kind;
    14: Place place; 15: vector<int8> vector; 16: vector<Place> places;
}
"""


def type_of(name: str) -> FieldType:
    found = define(TEXT).types[-1]
    assert isinstance(found, StructType)
    return found.field(name).type


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bool", "true"),
        ("float16", "65504"),
        ("float32", "-3.4e38"),
        ("float64", "1e308"),
        ("float64", "5"),
        ("string", '""'),
        ("bytes", '"00ff"'),
        ("bytes", '""'),
        ("uuid", '"6F1C2A5E-8c3b-4d55-9d1e-0a2b4c6d8e0f"'),
        ("timepoint", "1700000000.25"),
        ("timepoint", '"2026-11-15T14:03:07Z"'),
        ("timepoint", '"2026-11-15T14:03:07.5+01:00"'),
        ("steady_timepoint", "1.5"),
        ("duration", "-1"),
        ("kind", '"tanker"'),
        ("place", '{"lat": 1, "kind": "cargo"}'),
        ("place", "{}"),
        ("vector", "[1, -128]"),
        ("places", '[{"lat": 1}, {}]'),
    ],
)
def test_default_that_fits(name: str, text: str) -> None:
    assert default_fault(type_of(name), text) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bool", "0"),
        ("float16", "65505"),
        ("float32", "3.5e38"),
        ("float64", "1e309"),
        ("float64", "9" * 400),
        ("float64", "true"),
        ("float64", "Infinity"),
        ("string", "abc"),
        ("string", "null"),
        ("bytes", '"0"'),
        ("bytes", '"0g"'),
        ("uuid", '"6f1c2a5e8c3b4d559d1e0a2b4c6d8e0f"'),
        ("timepoint", '"2026-11-15T14:03:07"'),
        ("steady_timepoint", '"2026-11-15T14:03:07Z"'),
        ("duration", '"1s"'),
        ("any", "1"),
        ("instance_ref", "[1]"),
        ("kind", "1"),
        ("kind", '"boat"'),
        ("place", "[]"),
        ("place", '{"lon": 1}'),
        ("place", '{"kind": "boat"}'),
        ("vector", "[128]"),
        ("vector", '"1"'),
        ("places", "[1]"),
        ("vector", "[" * 100_000),
    ],
)
def test_default_that_does_not_fit(name: str, text: str) -> None:
    assert default_fault(type_of(name), text) is not None


@pytest.mark.parametrize("kind", sorted(INTEGER_RANGES))
def test_integers_are_valid_up_to_both_ends_of_their_range(kind: Kind) -> None:
    low, high = INTEGER_RANGES[kind]
    type_ = ScalarType(kind)
    assert default_fault(type_, str(low)) is None
    assert default_fault(type_, str(high)) is None
    assert default_fault(type_, str(low - 1)) == f"{low - 1} is not in {low}..{high}"
    assert default_fault(type_, str(high + 1)) == f"{high + 1} is not in {low}..{high}"
    assert default_fault(type_, "1.0") == "1.0 is not a whole number"
    assert default_fault(type_, "true") == "true is not a whole number"


def test_a_long_value_is_shortened_in_the_message() -> None:
    fault = default_fault(ScalarType(Kind.BOOL), '"' + "x" * 100 + '"')
    assert fault is not None
    assert len(fault) < 70


def test_a_number_that_python_refuses_is_not_json() -> None:
    assert default_fault(ScalarType(Kind.INT32), "1" * 5000) == NO_JSON


def test_the_hint_about_quotes_is_for_texts() -> None:
    assert Kind.STRING in TEXT_KINDS
    assert Kind.INT32 not in TEXT_KINDS
    assert default_fault(ScalarType(Kind.STRING), '"abc"') is None
    assert '"abc"' in TEXT_HINT
