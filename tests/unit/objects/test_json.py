"""Objects as JSON and back."""

from __future__ import annotations

import json
import math
from typing import Any
from uuid import UUID

import pytest

from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.errors import DecodeError, EncodeError
from skerry.limits import ENUM_ELEMENT_COUNT_MAX
from skerry.objects.classes import class_of
from skerry.objects.json import (
    dump,
    from_json_values,
    load,
    to_json_values,
    value_from_json_values,
    value_to_json_values,
)
from skerry.objects.typeset import TypeSet
from skerry.schema.model import EnumElement, EnumType, Field, StructType, VectorType

ID = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")


def test_an_object_has_its_set_fields_by_name(types: TypeSet) -> None:
    vessel = types.Vessel(mmsi=5, kind=types.Kind.tanker, track=[types.Position(lat=0.5)])
    text = '{"mmsi": 5, "kind": "tanker", "track": [{"lat": 0.5}], "flags": []}'
    assert vessel.to_json() == dump(vessel) == text
    assert types.Vessel.from_json(text) == load(types.Vessel, text.encode()) == vessel
    assert to_json_values(vessel) == json.loads(text)


VALUES: list[tuple[str, Any, Any]] = [
    ("b", True, True),
    ("i", -(2**63), -(2**63)),
    ("u", 2**64 - 1, 2**64 - 1),
    ("f", 0.5, 0.5),
    ("d", 0.1, 0.1),
    ("d", math.inf, "inf"),
    ("d", -math.inf, "-inf"),
    ("h", 65504.0, 65504.0),
    ("s", 'ü"\n', 'ü"\n'),
    ("s", "\udcff", "\udcff"),
    ("data", b"\x00\xff", "00ff"),
    ("id", ID, str(ID)),
    ("tp", 1.5, 1.5),
    ("stp", 1.5, 1.5),
    ("dur", -1.5, -1.5),
    ("ps", PropertySet(6), 6),
    ("any", AnyObject("T", b"\xa0"), {"type": "T", "payload": "a0"}),
    ("ref", Ref("T", b"\x81\x05"), {"type": "T", "key": "8105"}),
    ("vessel", Ref("Vessel", b"\x81\x05"), {"type": "Vessel", "key": "8105"}),
    ("ids", [ID], [str(ID)]),
]


@pytest.mark.parametrize(("name", "value", "plain"), VALUES)
def test_a_value_of_every_kind(types: TypeSet, name: str, value: Any, plain: Any) -> None:
    obj = types.Values(**{name: value})
    assert to_json_values(obj) == {name: plain}
    again = types.Values.from_json(obj.to_json())
    assert again == obj
    assert type(getattr(again, name)) is type(value)
    plan = types.Values._codec.plan
    field = plan.by_tag[types.Values.descriptor.field(name).tag]
    assert value_to_json_values(field.value, value) == plain
    assert value_from_json_values(plan, field, plain) == value


def test_numbers_that_json_lacks_are_written_as_text(types: TypeSet) -> None:
    obj = types.Values(d=math.nan, tp=math.nan)
    assert obj.to_json() == '{"d": "nan", "tp": "nan"}'
    assert math.isnan(types.Values.from_json(obj.to_json()).d)
    assert types.Values.from_json('{"d": "inf"}') == types.Values(d=math.inf)
    for text in ('{"d": Infinity}', '{"d": NaN}'):
        with pytest.raises(DecodeError, match='is not JSON; write "'):
            types.Values.from_json(text)
    with pytest.raises(DecodeError, match="out of the range of float64"):
        types.Values.from_json('{"d": 1e999}')


def test_duplicate_field_is_rejected(types: TypeSet) -> None:
    with pytest.raises(DecodeError, match="d appears twice"):
        types.Values.from_json('{"d": 1.0, "d": 2.0}')


def test_elements_are_read_by_name_and_by_tag(types: TypeSet) -> None:
    for text in ('{"kind": "tanker"}', '{"kind": 2}'):
        assert types.Values.from_json(text).kind is types.Kind.tanker
    assert types.Values.from_json('{"kinds": ["cargo", 5]}').kinds == [
        types.Kind.cargo,
        types.Kind.sailing,
    ]


def test_null_means_unset_and_absent_too(types: TypeSet) -> None:
    assert types.Vessel.from_json('{"mmsi": 5, "name": null}') == types.Vessel(mmsi=5, flags=None)


def test_times_are_read_as_seconds_and_as_text(types: TypeSet) -> None:
    assert types.Values.from_json('{"tp": "1970-01-01T00:00:01.5Z"}') == types.Values(tp=1.5)
    for text in ("1970-01-01T00:00:01", "soon", ""):
        with pytest.raises(
            DecodeError, match=r"Values\.tp: .* is not an ISO 8601 time with a time zone"
        ):
            from_json_values(types.Values, {"tp": text})


def test_integers_serve_as_floats(types: TypeSet) -> None:
    found = types.Values.from_json('{"d": 5, "tp": 0}')
    assert (found.d, found.tp) == (5.0, 0.0)
    assert type(found.d) is float


REFUSED: list[tuple[str, str]] = [
    ("", "Values: not JSON"),
    ("{", "Values: not JSON"),
    ('{"d": inf}', "Values: not JSON"),
    ("[" * 100_000, "Values: not JSON"),
    ('{"a":' * 100_000, "Values: not JSON"),
    ("5", "Values: expected an object with fields, got int 5"),
    ("null", "Values: expected an object with fields, got null"),
    ("[]", r"Values: expected an object with fields, got list \[\]"),
    ('{"dat": 1}', r"Values: there is no field dat; did you mean data\?"),
    ('{"speed": 1}', "Values: there is no field speed$"),
    ('{"b": 1}', r"Values\.b: expected bool, got int 1"),
    ('{"i": 1.0}', r"Values\.i: expected int64, got float 1\.0"),
    ('{"i": true}', r"Values\.i: expected int64, got bool True"),
    ('{"i": 9223372036854775808}', r"Values\.i: 9223372036854775808 is out of the range of int64"),
    ('{"u": -1}', r"Values\.u: -1 is out of the range of uint64"),
    ('{"u": "5"}', r"Values\.u: expected uint64, got str '5'"),
    ('{"f": 1e39}', r"Values\.f: 1e\+39 is out of the range of float32"),
    ('{"d": "1"}', r"Values\.d: expected float64, got str '1'"),
    ('{"d": true}', r"Values\.d: expected float64, got bool True"),
    ('{"d": 1' + "0" * 400 + "}", r"Values\.d: 10+ is out of the range of float64"),
    ('{"s": 5}', r"Values\.s: expected string, got int 5"),
    (r'{"s": "\ud800"}', r"Values\.s: .* has a surrogate that is not a character"),
    ('{"data": "?"}', r"Values\.data: expected bytes as pairs of hexadecimal digits"),
    ('{"data": 5}', r"Values\.data: expected bytes as pairs of hexadecimal digits"),
    ('{"data": "ü"}', r"Values\.data: expected bytes as pairs of hexadecimal digits"),
    ('{"id": "x"}', r"Values\.id: 'x' is not a uuid"),
    ('{"id": 5}', r"Values\.id: 5 is not a uuid"),
    ('{"ps": -1}', r"Values\.ps: -1 is out of the range of property_set"),
    ('{"ps": 4294967296}', r"Values\.ps: .* is out of the range of property_set"),
    ('{"ps": true}', r"Values\.ps: expected property_set, got bool True"),
    ('{"ps": [1]}', r"Values\.ps: expected property_set, got list"),
    ('{"any": "x"}', r'Values\.any: expected \{"type": \.\.\., "payload": \.\.\.\}'),
    ('{"any": {"type": "T"}}', r"Values\.any: expected"),
    ('{"any": {"type": 5, "payload": ""}}', r"Values\.any: expected the name of a type, got int 5"),
    (
        '{"ref": {"type": "T", "key": "?"}}',
        r"Values\.ref: expected bytes as pairs of hexadecimal digits",
    ),
    ('{"ref": {"type": "T", "key": ""}}', r"Values\.ref: .* is not a canonical key"),
    ('{"vessel": {"type": "T", "key": "8105"}}', r"Values\.vessel: expected a reference to Vessel"),
    ('{"kind": "ship"}', r"Values\.kind: Kind has no 'ship'; it has cargo, tanker, sailing$"),
    ('{"kind": 3}', r"Values\.kind: Kind has no 3; it has"),
    ('{"kind": true}', r"Values\.kind: Kind has no True; it has"),
    ('{"kind": [1]}', r"Values\.kind: Kind has no \[1\]; it has"),
    ('{"kinds": "cargo"}', r"Values\.kinds: expected a list, got str 'cargo'"),
    ('{"kinds": [null]}', r"Values\.kinds: Kind has no None; it has"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=lambda text: text[:30])
def test_invalid_json_is_rejected(types: TypeSet, text: str, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        types.Values.from_json(text)


def test_invalid_utf8_is_rejected(types: TypeSet) -> None:
    with pytest.raises(DecodeError, match="not JSON"):
        types.Values.from_json(b"\xff\xff")


def test_error_inside_a_struct_names_its_field(types: TypeSet) -> None:
    with pytest.raises(DecodeError, match=r"^Position\.lat: expected float64, got str 'x'$"):
        types.Vessel.from_json('{"position": {"lat": "x"}}')
    with pytest.raises(DecodeError, match=r"^Position: there is no field la; did you mean lat\?$"):
        types.Vessel.from_json('{"track": [{"la": 1}]}')


def test_a_fault_of_a_struct_field_names_the_field_it_was_given_to(types: TypeSet) -> None:
    with pytest.raises(DecodeError) as caught:
        from_json_values(types.Vessel, {"position": 5})
    assert str(caught.value) == "Vessel.position: expected an object with fields, got int 5"
    with pytest.raises(DecodeError, match=r"^Vessel\.track: expected an object with fields"):
        from_json_values(types.Vessel, {"track": [5]})
    with pytest.raises(DecodeError, match=r"there is no field 5$"):
        from_json_values(types.Position, {5: 1})


def test_a_value_that_does_not_fit_is_not_written(types: TypeSet) -> None:
    for facts, why in (
        ({"kind": 5}, r"Values\.kind: expected Kind, got int 5"),
        ({"d": "x"}, r"Values\.d: expected float64, got str 'x'"),
        ({"data": "x"}, r"Values\.data: expected bytes, got str 'x'"),
        ({"kinds": 5}, r"Values\.kinds: expected vector<Kind>, got int 5"),
    ):
        with pytest.raises(EncodeError, match=why):
            types.Values(**facts).to_json()


def test_largest_enum_is_fast() -> None:
    elements = tuple(
        EnumElement(tag=n + 1, name=f"e{n}", value=n) for n in range(ENUM_ELEMENT_COUNT_MAX)
    )
    enum = EnumType(name="Large", elements=elements)
    cls = class_of(StructType(name="Many", fields=(Field(tag=1, name="x", type=VectorType(enum)),)))
    names = [f"e{n % ENUM_ELEMENT_COUNT_MAX}" for n in range(20_000)]
    found = from_json_values(cls, {"x": names})
    assert to_json_values(found) == {"x": names}
    with pytest.raises(DecodeError, match=r"Large has no 'other'; it has e0, e1, .*e19, \.\.\.$"):
        from_json_values(cls, {"x": ["other"]})
