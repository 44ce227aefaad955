"""Objects to bytes: forms of values, order, selection, and what does not fit."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any
from uuid import UUID

import cbor2
import pytest

from skerry.codec.encoder import encode_value, head
from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.errors import EncodeError
from skerry.limits import PAYLOAD_BYTES_MAX, VECTOR_COUNT_MAX
from skerry.objects.typeset import TypeSet, define_types

Same = Callable[..., Any]
MakeCodec = Callable[[Any], Any]


def encoded(same: Same, obj: Any) -> Any:
    return same(type(obj), "encode", obj)


def one(same: Same, types: TypeSet, name: str, value: Any) -> str:
    """The hex of one field's value, without map and tag; or the error."""
    data = encoded(same, types.Everything(**{name: value}))
    if isinstance(data, str):
        return data
    tag = types.Everything.descriptor.field(name).tag
    front = b"\xa1" + cbor2.dumps(tag)
    assert data.startswith(front)
    return str(data[len(front) :].hex())


RANGES = {
    **{f"i{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    "ps": (0, 2**32 - 1),
}
BORDERS = [0, 1, 23, 24, 127, 128, 255, 256, 32767, 32768, 65535, 65536]
BORDERS += [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize("name", RANGES)
def test_integers_have_their_shortest_form(same: Same, types: TypeSet, name: str) -> None:
    low, high = RANGES[name]
    for number in [low, high, *BORDERS, *(-1 - border for border in BORDERS)]:
        if low <= number <= high:
            assert one(same, types, name, number) == cbor2.dumps(number).hex()


@pytest.mark.parametrize("name", RANGES)
def test_integers_past_their_range_are_refused(same: Same, types: TypeSet, name: str) -> None:
    low, high = RANGES[name]
    kind = types.Everything.descriptor.field(name).type.name
    for number in (low - 1, high + 1, 10**400, -(10**400)):
        said = one(same, types, name, number)
        assert (
            said == f"EncodeError: Everything.{name}: {number!r:.60} is out of the range of {kind}"
        )
    assert "a number with too many digits" in one(same, types, name, 10**5000)


class Small(int):
    """A number of a library of its own."""


class Level(IntEnum):
    LOW = 7


@pytest.mark.parametrize("value", [Small(7), Level.LOW, PropertySet(7)])
def test_kinds_of_int_count_as_numbers(same: Same, types: TypeSet, value: int) -> None:
    assert one(same, types, "u8", value) == "07"
    assert one(same, types, "i64", value) == "07"
    assert one(same, types, "f64", value) == cbor2.dumps(7.0).hex()


@pytest.mark.parametrize("name", ["f16", "f32", "f64", "tp", "stp", "dur"])
@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -2.25, math.inf, -math.inf])
def test_floats_have_the_width_of_their_type(
    same: Same, types: TypeSet, name: str, value: float
) -> None:
    first, code = {"f16": ("f9", ">e"), "f32": ("fa", ">f")}.get(name, ("fb", ">d"))
    assert one(same, types, name, value) == first + struct.pack(code, value).hex()


@pytest.mark.parametrize(
    ("name", "text"), [("f16", "f97e00"), ("f32", "fa7fc00000"), ("f64", "fb7ff8000000000000")]
)
def test_nan_is_a_value_as_any(same: Same, types: TypeSet, name: str, text: str) -> None:
    assert one(same, types, name, math.nan) == text


def test_integers_serve_as_floats(same: Same, types: TypeSet) -> None:
    assert one(same, types, "f64", 3) == cbor2.dumps(3.0).hex()
    assert one(same, types, "tp", 2**63) == cbor2.dumps(float(2**63)).hex()
    assert one(same, types, "f32", 1) == "fa3f800000"


def test_floats_are_rounded_to_their_width_but_not_past_it(same: Same, types: TypeSet) -> None:
    largest = struct.unpack(">f", b"\x7f\x7f\xff\xff")[0]
    halfway = 3.4028235677973366e38
    assert one(same, types, "f32", 0.1) == "fa3dcccccd"
    assert one(same, types, "f32", largest) == "fa7f7fffff"
    assert one(same, types, "f32", math.nextafter(halfway, 0)) == "fa7f7fffff"
    assert "out of the range of float32" in one(same, types, "f32", halfway)
    assert "out of the range of float32" in one(same, types, "f32", -1e39)
    assert one(same, types, "f16", 65504) == "f97bff"
    assert "out of the range of float16" in one(same, types, "f16", 65520.0)
    assert "out of the range of float64" in one(same, types, "f64", 10**400)
    assert "a number with too many digits is out of" in one(same, types, "f64", 10**5000)


@pytest.mark.parametrize("size", [0, 1, 22, 23, 24, 25, 255, 256, 65535, 65536])
def test_text_and_bytes_of_any_length(same: Same, types: TypeSet, size: int) -> None:
    assert one(same, types, "s", "x" * size) == cbor2.dumps("x" * size).hex()
    assert one(same, types, "data", b"x" * size) == cbor2.dumps(b"x" * size).hex()
    assert one(same, types, "s", "ü" * size) == cbor2.dumps("ü" * size).hex()


def test_text_that_is_not_utf_8_is_encoded_unchanged(same: Same, types: TypeSet) -> None:
    assert one(same, types, "s", "a\udcff") == "6261ff"
    said = one(same, types, "s", "\ud800")
    assert said == r"EncodeError: Everything.s: '\ud800' has a surrogate that is not a character"


def test_other_values(same: Same, types: TypeSet) -> None:
    value = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
    assert one(same, types, "b", True) == "f5"
    assert one(same, types, "b", False) == "f4"
    assert one(same, types, "id", value) == "50000102030405060708090a0b0c0d0e0f"
    assert one(same, types, "any", AnyObject("T", b"\xa0")) == "82615441a0"
    assert one(same, types, "ref", Ref("T", b"\x81\x05")) == "8261548105"
    assert one(same, types, "keyed", Ref("Keyed", b"\x82\x05\x61a")) == "82056161"


def test_elements_travel_by_tag(same: Same, types: TypeSet) -> None:
    assert one(same, types, "color", types.Color.green) == "02"
    assert one(same, types, "color", types.Color.blue) == "18c8"
    assert one(same, types, "colors", [types.Color.blue, types.Color.red]) == "8218c801"


def test_nested_structs_decide_for_themselves(same: Same, types: TypeSet) -> None:
    assert one(same, types, "inner", types.Inner()) == "a0"
    assert one(same, types, "inner", types.Inner(high=255, flag=False)) == "a201f4181e18ff"
    inners = [types.Inner(label="x"), types.Inner()]
    assert one(same, types, "inners", inners) == "82a1026178a0"


@pytest.mark.parametrize("count", [0, 1, 23, 24, 255, 256])
def test_vectors_of_any_length(same: Same, types: TypeSet, count: int) -> None:
    numbers = list(range(count))
    assert one(same, types, "numbers", numbers) == cbor2.dumps(numbers).hex()
    assert one(same, types, "numbers", tuple(numbers)) == cbor2.dumps(numbers).hex()
    floats = [0.5] * count
    assert one(same, types, "floats", floats) == cbor2.dumps(floats).hex()


WRONG: dict[str, list[Any]] = {
    "b": [0, 1, "true", b"", []],
    "i8": [True, 1.0, "1", b"1", [], None.__class__],
    "u32": [False, 1.0, "1"],
    "u64": [True, 2.0**63],
    "f16": [True, "1"],
    "f32": [False, "1"],
    "f64": [True, "nan", b""],
    "tp": ["2026-11-15", True],
    "s": [b"x", 1],
    "data": ["x", bytearray(b"x"), memoryview(b"x"), [1]],
    "id": ["00010203-0405-0607-0809-0a0b0c0d0e0f", b"x" * 16],
    "ps": [True, {1}, "1"],
    "any": [b"", Ref("T", b"\x80")],
    "ref": [b"\x80", AnyObject("T", b"\xa0")],
    "color": [2, "green"],
    "inner": [{}, "x"],
    "numbers": [1, "1", {1}, range(3), b"\x01"],
}


@pytest.mark.parametrize("name", WRONG)
def test_values_of_another_type_are_refused(same: Same, types: TypeSet, name: str) -> None:
    kind = types.Everything.descriptor.field(name).type.name
    for value in WRONG[name]:
        said = one(same, types, name, value)
        assert said.startswith(f"EncodeError: Everything.{name}: expected {kind}, got "), said


@pytest.mark.parametrize(
    ("name", "value"),
    [("numbers", [1, "2"]), ("inners", [None]), ("texts", [b""]), ("bools", [1]), ("colors", [1])],
)
def test_elements_of_another_type_are_refused(
    same: Same, types: TypeSet, name: str, value: Any
) -> None:
    said = one(same, types, name, value)
    assert said.startswith(f"EncodeError: Everything.{name}: expected "), said


def test_a_fault_inside_a_struct_is_named_there(same: Same, types: TypeSet) -> None:
    said = one(same, types, "inner", types.Inner(high=256))
    assert said == "EncodeError: Inner.high: 256 is out of the range of uint8"


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (b"", "b'' is not a canonical key: expected the key of an object"),
        (b"\x81\x18\x01", "is not a canonical key: the key is not in its shortest form"),
        (b"\x81\xf6", "is not a canonical key: a key does not hold null"),
        (b"\x80\x00", "has bytes after the key"),
    ],
)
def test_references_hold_canonical_keys(same: Same, types: TypeSet, key: bytes, why: str) -> None:
    assert why in one(same, types, "ref", Ref("T", key))


def test_a_reference_points_to_the_type_its_field_names(same: Same, types: TypeSet) -> None:
    said = one(same, types, "keyed", Ref("Single", b"\x81\x05"))
    assert said == ("EncodeError: Everything.keyed: expected a reference to Keyed, got Single")


def test_equal_types_of_another_origin_serve_as_well(same: Same, types: TypeSet) -> None:
    twins = define_types(
        """
        /// Documented, and so another class.
        enum Color { 1: red, 2: green = 10, 200: blue }
        /// The same.
        struct Inner { 1: bool flag; 2: string label; 30: uint8 high; }
        """
    )
    assert twins.Inner is not types.Inner
    assert one(same, types, "inner", twins.Inner(label="x")) == "a1026178"
    assert one(same, types, "color", twins.Color.green) == "02"
    assert one(same, types, "inners", [twins.Inner()]) == "81a0"


@pytest.mark.parametrize("value", ["", " = 0", " = 7", " = -1"])
def test_an_element_travels_by_its_tag_whatever_its_value(same: Same, value: str) -> None:
    made = define_types(
        f"enum State {{ 1: on = 5, 9: off{value} }} struct Lamp {{ 1: [key] State state; }}"
    )
    lamp = made.Lamp(state=made.State.off)
    assert encoded(same, lamp).hex() == "a10109"
    assert made.Lamp.decode(bytes.fromhex("a10109")) == lamp


def test_types_of_equal_names_alone_do_not_serve(same: Same, types: TypeSet) -> None:
    others = define_types(
        "enum Color { 1: red, 2: verde, 3: blue } struct Inner { 1: bool flag; 2: string label; }"
    )
    assert "expected Inner, got Inner" in one(same, types, "inner", others.Inner(label="x"))
    assert "expected Color, got Color" in one(same, types, "color", others.Color.verde)
    assert one(same, types, "color", others.Color.red) == "01", "the same name and tag"


# -- structs


def test_fields_are_written_in_declaration_order(same: Same, types: TypeSet) -> None:
    obj = types.Keyed(value=0.5, text="t", first=1, second="s")
    assert encoded(same, obj).hex() == "a40361740761730201" + "01fb3fe0000000000000"


@pytest.mark.parametrize("count", [0, 1, 2, 22, 23, 24, 25, 30, 31])
def test_a_struct_of_any_size(same: Same, count: int) -> None:
    names = [f"f{tag}" for tag in range(1, count + 1)]
    text = "".join(f"{tag}: uint8 f{tag}; " for tag in range(1, 32))
    cls = define_types(f"struct Wide {{ {text} }}").Wide
    obj = cls(**dict.fromkeys(names, 5))
    data = encoded(same, obj)
    assert data == cbor2.dumps(dict.fromkeys(range(1, count + 1), 5))
    assert same(cls, "decode", data) == obj


@pytest.mark.parametrize("tags", [[1], [31], [24], [23, 24], list(range(31, 0, -1))])
def test_a_full_struct_with_any_tags(same: Same, tags: list[int]) -> None:
    text = "".join(f"{tag}: uint8 f{tag}; " for tag in tags)
    cls = define_types(f"struct Tagged {{ {text} }}").Tagged
    obj = cls(**{f"f{tag}": tag for tag in tags})
    data = encoded(same, obj)
    assert data == cbor2.dumps({tag: tag for tag in tags})
    assert same(cls, "decode", data) == obj
    assert same(cls, "key", data) == b"\x80"


def test_a_selection_leaves_out_the_rest(same: Same, types: TypeSet) -> None:
    obj = types.Keyed(value=0.5, text="t", first=1, second="s")
    assert same(types.Keyed, "encode_only", obj, 1 << 3 | 1 << 2) == cbor2.dumps({3: "t", 2: 1})
    assert same(types.Keyed, "encode_only", obj, 0) == b"\xa0"
    assert same(types.Keyed, "encode_only", obj, -1) == encoded(same, obj)


def test_a_selection_does_not_look_at_the_rest(same: Same, types: TypeSet) -> None:
    obj = types.Keyed(value="wrong", first=1)
    assert same(types.Keyed, "encode_only", obj, 1 << 2) == b"\xa1\x02\x01"


def test_a_key_is_an_array_in_tag_order(same: Same, types: TypeSet) -> None:
    assert same(types.Keyed, "encode_key", types.Keyed(second="s", first=1)) == b"\x82\x01as"
    assert same(types.Keyed, "encode_key", types.Keyed(second="s")) == b"\x82\xf6as"
    assert same(types.Single, "encode_key", types.Single(id=5)) == b"\x81\x05"
    assert same(types.Singleton, "encode_key", types.Singleton(count=5)) == b"\x80"


@pytest.mark.parametrize("count", [23, 24, 31])
def test_a_key_of_many_fields(same: Same, count: int) -> None:
    text = "".join(f"{tag}: [key] uint8 f{tag}; " for tag in range(1, count + 1))
    cls = define_types(f"struct Keys {{ {text} }}").Keys
    obj = cls(**{f"f{tag}": tag for tag in range(1, count + 1)})
    key = cbor2.dumps(list(range(1, count + 1)))
    assert same(cls, "encode_key", obj) == key
    assert same(cls, "key", obj.encode()) == key


KEYS: dict[str, tuple[Any, Any]] = {
    "bool": (True, True),
    "int64": (-(2**63), -(2**63)),
    "uint64": (2**64 - 1, 2**64 - 1),
    "float16": (1.5, 1.5),
    "string": ("ü", "ü"),
    "bytes": (b"\x00", b"\x00"),
    "uuid": (UUID(int=5), UUID(int=5).bytes),
    "timepoint": (1.1, 1.1),
    "property_set": (PropertySet(6), 6),
    "vector<uint8>": ([1, 2], [1, 2]),
    "any": (AnyObject("T", b"\xa0"), ["T", b"\xa0"]),
    "instance_ref": (Ref("T", b"\x81\x01"), ["T", [1]]),
    "instance_ref<T>": (Ref("T", b"\x81\x01"), [1]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_every_kind(same: Same, kind: str) -> None:
    cls = define_types(f"struct T {{ 1: [key] {kind} k; }}").T
    value, structure = KEYS[kind]
    obj = cls(k=value)
    key = same(cls, "encode_key", obj)
    assert same(cls, "key", obj.encode()) == key
    if kind == "float16":
        assert key == b"\x81\xf9\x3e\x00"
    else:
        assert key == cbor2.dumps([structure])


def test_parts_by_themselves(types: TypeSet) -> None:
    plan = types.Single._codec.plan
    assert encode_value(plan, plan.fields[0], 24) == b"\x18\x18"
    assert [head(0xA0, count).hex() for count in (0, 23, 24, 256)] == ["a0", "b7", "b818", "b90100"]


# -- bounds


@pytest.fixture(scope="module")
def blob() -> Any:
    return define_types("struct Blob { 1: bytes data; 2: bool b; }").Blob


@pytest.mark.slow
def test_an_object_is_encoded_to_the_limit_and_no_further(make_codec: MakeCodec, blob: Any) -> None:
    codec = make_codec(blob)
    obj = blob(data=bytes(PAYLOAD_BYTES_MAX - 7))
    assert len(codec.encode(obj)) == PAYLOAD_BYTES_MAX
    assert len(codec.encode_only(obj, 2)) == PAYLOAD_BYTES_MAX
    obj.data += b"x"
    for encode in (codec.encode, lambda obj: codec.encode_only(obj, 2)):
        with pytest.raises(EncodeError) as caught:
            encode(obj)
        size = PAYLOAD_BYTES_MAX + 1
        assert str(caught.value) == f"Blob: {size} bytes encoded, the limit is {PAYLOAD_BYTES_MAX}"


@pytest.mark.slow
def test_an_object_inside_another_is_not_held_against_the_limit_alone(
    make_codec: MakeCodec, blob: Any
) -> None:
    """The outer object is too large, and it is the one that is named."""
    outer = define_types("struct Blob { 1: bytes data; 2: bool b; } struct Outer { 1: Blob blob; }")
    obj = outer.Outer(blob=outer.Blob(data=bytes(PAYLOAD_BYTES_MAX)))
    with pytest.raises(EncodeError, match=r"^Outer: \d+ bytes encoded"):
        make_codec(outer.Outer).encode(obj)


@pytest.mark.slow
def test_a_vector_is_encoded_to_the_limit_and_no_further(
    make_codec: MakeCodec, types: TypeSet
) -> None:
    codec = make_codec(types.Everything)
    obj = types.Everything(bools=[False] * VECTOR_COUNT_MAX)
    assert len(codec.encode(obj)) == VECTOR_COUNT_MAX + 8
    obj.bools.append(False)
    with pytest.raises(EncodeError) as caught:
        codec.encode(obj)
    count = VECTOR_COUNT_MAX + 1
    assert caught.value.detail == f"{count} elements, the limit is {VECTOR_COUNT_MAX}"
    assert caught.value.field == "bools"
