"""Objects in the JSON of the WebSocket dialect: each kind of field, there and back, and refused."""

from __future__ import annotations

import json
import math
from typing import Any
from uuid import UUID

import pytest

import skerry
from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.errors import DecodeError
from skerry.objects.base import codec_of
from skerry.protocol.access.json.objects import object_from_plain, object_text

TYPES = skerry.define_types(
    """
    enum Colour { 1: red, 7: blue = 99 }
    struct Part [substruct_only] { 1: bool flag; 2: string label; }
    struct Ship { 1: [key] uint32 id; }
    struct All {
        1: bool b; 2: int8 i8; 3: uint64 u64; 4: int64 i64; 5: float16 f16; 6: float32 f32;
        7: float64 f64; 8: string str; 9: bytes data; 10: uuid uid; 11: timepoint tp;
        12: steady_timepoint stp; 13: duration dur; 14: property_set ps; 15: any a;
        16: instance_ref ref; 17: instance_ref<Ship> ship; 18: Colour color; 19: Part sub;
        20: vector<int32> vi; 21: vector<float64> vf; 22: vector<Part> vsub; 23: vector<Colour> vc;
    }
    """
)
ALL: Any = TYPES.All
PLAN = codec_of(ALL).plan
UID = UUID("00112233-4455-6677-8899-aabbccddeeff")

VALUES: list[tuple[str, Any, str]] = [
    ("b", True, "true"),
    ("b", False, "false"),
    ("i8", -128, "-128"),
    ("u64", 2**64 - 1, "18446744073709551615"),
    ("i64", -(2**63), "-9223372036854775808"),
    ("f16", 0.5, "0.5"),
    ("f32", 0.0, "0.0"),
    ("f64", 1e300, "1e+300"),
    ("str", 'quote " \\ \n \x01 ä 🚢', '"quote \\" \\\\ \\n \\u0001 ä 🚢"'),
    ("data", b"\x00\xff\x10", '"AP8Q"'),
    ("data", b"", '""'),
    ("uid", UID, f'"{UID}"'),
    ("tp", 1700000000.5, "1700000000.5"),
    ("stp", 2.0, "2.0"),
    ("dur", -0.25, "-0.25"),
    ("ps", PropertySet(2**31 + 2), "2147483650"),
    ("a", AnyObject("Ship", b"\xa0"), '{ "typeName": "Ship", "payload": "oA==" }'),
    ("ref", Ref("Ship", b"\x81\x01"), '{ "typeName": "Ship", "key": "gQE=" }'),
    ("ship", Ref("Ship", b"\x81\x01"), '{ "typeName": "Ship", "key": "gQE=" }'),
    ("color", TYPES.Colour.blue, "7"),
    ("sub", TYPES.Part(flag=True), '{ "flag": true }'),
    ("sub", TYPES.Part(), "{ }"),
    ("vi", [1, -2], "[ 1, -2 ]"),
    ("vi", [], "[ ]"),
    ("vsub", [TYPES.Part(label="x"), TYPES.Part()], '[ { "label": "x" }, { } ]'),
    ("vc", [TYPES.Colour.red], "[ 1 ]"),
]


@pytest.mark.parametrize(("name", "value", "text"), VALUES)
def test_value_has_its_text(name: str, value: Any, text: str) -> None:
    obj = ALL(**{name: value})
    whole = object_text(PLAN, obj)
    assert whole == f'{{ "{name}": {text} }}'
    again = object_from_plain(PLAN, json.loads(whole))
    assert again == obj
    assert again.encode() == obj.encode()


def test_fields_are_in_the_order_of_the_type() -> None:
    obj = ALL(str="x", i8=1, b=True)
    assert object_text(PLAN, obj) == '{ "b": true, "i8": 1, "str": "x" }'


def test_any_order_is_accepted_and_unknown_names_are_skipped() -> None:
    obj = object_from_plain(PLAN, {"str": "x", "nobody": [{"knows": 1}], "b": True})
    assert obj == ALL(b=True, str="x")


def test_null_is_unset() -> None:
    assert object_from_plain(PLAN, {"b": None, "sub": {"flag": None}}) == ALL(sub=TYPES.Part())


@pytest.mark.parametrize("name", ["f16", "f32", "f64", "tp", "stp", "dur"])
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinity_is_written_as_by_the_cpp_host(name: str, value: float) -> None:
    obj = ALL(**{name: value})
    assert object_text(PLAN, obj) == f'{{ "{name}": {value} }}'
    assert object_from_plain(PLAN, {name: value}) == obj


def test_nan_is_written_as_by_the_cpp_host() -> None:
    assert object_text(PLAN, ALL(vf=[math.nan], f64=math.nan)) == '{ "f64": nan, "vf": [ nan ] }'
    assert math.isnan(object_from_plain(PLAN, {"f64": math.nan}).f64)


def test_strict_text_is_json() -> None:
    obj = ALL(f64=math.nan, tp=math.inf, vf=[-math.inf, math.nan, 1.0])
    text = object_text(PLAN, obj, is_strict=True)
    plain = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert plain == {"f64": None, "tp": math.inf, "vf": [-math.inf, None, 1.0]}
    again = object_from_plain(PLAN, plain)
    assert again.tp == math.inf
    assert again.vf[0] == -math.inf
    assert math.isnan(again.vf[1])


def test_an_integer_beyond_all_floats_is_an_infinity() -> None:
    assert object_from_plain(PLAN, {"f64": 10**400, "dur": -(10**400)}) == ALL(
        f64=math.inf, dur=-math.inf
    )


def test_a_float_may_be_written_as_an_integer() -> None:
    obj = object_from_plain(PLAN, {"f64": 5, "tp": 1700000000})
    assert type(obj.f64) is float
    assert obj == ALL(f64=5.0, tp=1.7e9)


def test_a_uuid_may_have_large_letters() -> None:
    assert object_from_plain(PLAN, {"uid": str(UID).upper()}) == ALL(uid=UID)


REFUSED: list[tuple[str, Any, str]] = [
    ("f64", True, "expected float64, got bool True"),
    ("f64", "1.0", "expected float64, got str '1.0'"),
    ("tp", [], "expected timepoint"),
    ("color", 2, "Colour has no element with tag int 2"),
    ("color", True, "Colour has no element with tag bool True"),
    ("color", "blue", "Colour has no element with tag str 'blue'"),
    ("color", [], "Colour has no element"),
    ("uid", str(UID).replace("-", ""), "is not a uuid"),
    ("uid", "{" + str(UID) + "}", "is not a uuid"),
    ("uid", 5, "is not a uuid"),
    ("data", "AP8", "expected bytes in base64"),
    ("data", "AP8Q\n", "expected bytes in base64"),
    ("data", "ä", "expected bytes in base64"),
    ("data", [1, 2], "expected bytes in base64"),
    ("a", "Ship", 'expected { "typeName": ..., "payload": ... }'),
    ("a", {"typeName": 1, "payload": ""}, 'expected { "typeName"'),
    ("a", {"typeName": "Ship"}, "expected bytes in base64, got null"),
    ("ref", {"typeName": "Ship", "payload": "gQE="}, "expected bytes in base64, got null"),
    ("sub", [], "expected an object with fields, got list []"),
    ("sub", 1, "expected an object with fields"),
    ("vi", {"0": 1}, "expected a list, got dict"),
    ("vsub", [None], "expected an object with fields, got null"),
    ("vc", [None], "Colour has no element with tag null"),
]


@pytest.mark.parametrize(("name", "plain", "detail"), REFUSED)
def test_value_of_another_form_is_refused(name: str, plain: Any, detail: str) -> None:
    with pytest.raises(DecodeError) as caught:
        object_from_plain(PLAN, {name: plain})
    assert caught.value.type_name == "All"
    assert caught.value.field == name
    assert detail in str(caught.value)


@pytest.mark.parametrize("plain", [None, [], "x", 1])
def test_an_object_has_fields(plain: Any) -> None:
    with pytest.raises(DecodeError, match="All: expected an object with fields"):
        object_from_plain(PLAN, plain)
