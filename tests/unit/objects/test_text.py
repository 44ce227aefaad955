"""Objects as text in the manner of the type language."""

from __future__ import annotations

import io
import math
from typing import Any
from uuid import UUID

import pytest

from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.objects.text import object_text, value_text
from skerry.objects.typeset import TypeSet


def test_an_object_reads_like_its_type(types: TypeSet) -> None:
    vessel = types.Vessel(
        mmsi=5,
        name="Aurora",
        kind=types.Kind.tanker,
        position=types.Position(lat=52.5),
        track=[types.Position(), types.Position(lon=-1.0)],
        seen=1700000000.123456,
        flags=[0, 255],
    )
    text = (
        'Vessel{ .mmsi = 5u, .name = "Aurora", .kind = tanker, .position = { .lat = 52.5 },'
        " .track = { { }, { .lon = -1.0 } },"
        ' .seen = "2023-11-14T22:13:20.123+00:00", .flags = { 0u, 255u } }'
    )
    assert repr(vessel) == str(vessel) == object_text(vessel) == text


def test_an_object_without_fields_set(types: TypeSet) -> None:
    assert repr(types.Position()) == "Position{ }"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("b", True, "true"),
        ("b", False, "false"),
        ("i", -5, "-5"),
        ("u", 5, "5u"),
        ("f", 0.5, "0.5f"),
        ("d", 0.5, "0.5"),
        ("d", math.nan, "nan"),
        ("d", -math.inf, "-inf"),
        ("s", 'a"b\\c\n\t', r'"a\"b\\c\n\t"'),
        ("s", "grüß", '"grüß"'),
        ("s", "a\udcff", r'"a\udcff"'),
        ("data", b"\x00\xff", '0x"00ff"'),
        ("id", UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
        ("tp", 0.0, '"1970-01-01T00:00:00.000+00:00"'),
        ("tp", math.inf, "inf"),
        ("tp", 1e18, "1e+18"),
        ("stp", 12.5, "12.5"),
        ("dur", -0.25, "-0.25"),
        ("ps", PropertySet.of([1, 3]), "0b1010u"),
        ("any", AnyObject("T", b"\xa0"), 'T{ 0x"a0" }'),
        ("ref", Ref("T", b"\x81\x05"), 'T@0x"8105"'),
        ("kinds", [], "{ }"),
        ("ids", [UUID(int=5)], '{ "00000000-0000-0000-0000-000000000005" }'),
    ],
)
def test_a_value_of_every_kind(types: TypeSet, name: str, value: Any, text: str) -> None:
    field = types.Values.descriptor.field(name)
    assert value_text(field.type, value) == text
    assert repr(types.Values(**{name: value})) == f"Values{{ .{name} = {text} }}"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("u", "five", "'five'"),
        ("s", 5, "5"),
        ("tp", "now", "'now'"),
        ("kind", 5, "5"),
        ("kinds", 5, "5"),
        ("kinds", [5], "[5]"),
        ("id", b"", "\"b''\""),
        ("u", 10**5000, "a number with too many digits"),
        ("i", 10**5000, "a number with too many digits"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_invalid_value_is_shown_by_repr(types: TypeSet, name: str, value: Any, text: str) -> None:
    assert repr(types.Values(**{name: value})) == f"Values{{ .{name} = {text} }}"


def test_every_object_can_be_printed(types: TypeSet) -> None:
    obj = types.Values(s="\udcff\ud800", any=AnyObject("\udcff", b""), ref=Ref("\udcff", b"\x80"))
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    print(obj, file=out)
    out.flush()
