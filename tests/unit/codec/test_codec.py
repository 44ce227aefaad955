"""The codec of one struct: each method gives the result of the function that it calls."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest

from skerry.codec import decoder, encoder, pieces
from skerry.codec.codec import Codec
from skerry.errors import DecodeError, EncodeError
from skerry.objects.classes import class_of
from skerry.objects.typeset import TypeSet, define_types
from skerry.schema.model import Field, Kind, ScalarType, StructType
from tests.plan_walk import PlanWalk


def wide(count: int) -> Any:
    text = "".join(f"{tag}: uint8 f{tag}; " for tag in range(1, count + 1))
    return define_types(f"struct Wide{count} {{ {text} }}")[f"Wide{count}"]


def test_methods_equal_the_functions_they_call(types: TypeSet) -> None:
    plan = types.Keyed._codec.plan
    codec = Codec(plan)
    obj = types.Keyed(first=1, second="s", text="t", value=0.5)
    data = obj.encode()
    parts = codec.split(data)
    assert codec.plan is plan
    assert codec.encode(obj) == encoder.encode(plan, obj, -1) == data
    assert codec.encode_only(obj, 8) == encoder.encode(plan, obj, 8) == b"\xa1\x03at"
    assert codec.encode_key(obj) == encoder.encode_key(plan, obj) == b"\x82\x01as"
    assert codec.decode(data) == decoder.decode(plan, data) == obj
    assert codec.decode_from(b"\xff" + data, 1) == (obj, len(data) + 1)
    assert codec.split(b"\xff" + data, 1).stop == len(data) + 1
    assert codec.key(data) == codec.key_of(parts) == pieces.canonical_key(plan, parts)
    assert codec.normalize(data) == pieces.normalize(plan, data) == data
    assert codec.merge(data, data, 8) == pieces.merge(plan, data, data, 8) == data


def test_objects_are_of_the_class_of_the_plan(types: TypeSet) -> None:
    codec = Codec(types.Single._codec.plan)
    assert type(codec.decode(b"\xa0")) is types.Single


@pytest.mark.parametrize("count", range(1, 32))
def test_only_the_right_count_of_fields_is_accepted(count: int) -> None:
    """0xb9 to 0xbf are heads of longer counts, reserved heads, and a map of indefinite length."""
    cls = wide(count)
    codec, walk = Codec(cls._codec.plan), PlanWalk(cls._codec.plan)
    entries = b"".join(cbor2.dumps(tag) + b"\x05" for tag in range(1, count + 1))
    full = cls(**{f"f{n}": 5 for n in range(1, count + 1)})
    for first in range(0xA0, 0x100):
        data = bytes((first,)) + entries
        found = decoded(codec, data)
        assert found == decoded(walk, data), hex(first)
        assert (found == full) == (first == 0xA0 + count and count < 24)


def decoded(codec: Any, data: bytes) -> object:
    try:
        return codec.decode(data)
    except DecodeError as error:
        return str(error)


def test_a_value_of_the_wrong_type_is_rejected(types: TypeSet, make_codec: Any) -> None:
    codec = make_codec(types.Everything)
    obj = types.Everything(s="x" * 24, f64=1, u8=True)
    with pytest.raises(EncodeError, match=r"Everything\.u8: expected uint8, got bool True"):
        codec.encode(obj)


def test_an_object_of_another_class_is_not_encoded(types: TypeSet, make_codec: Any) -> None:
    with pytest.raises(AttributeError, match="text"):
        make_codec(types.Keyed).encode(types.Single(id=1))


def test_an_object_with_a_deleted_field_is_not_encoded(types: TypeSet, make_codec: Any) -> None:
    obj = types.Keyed(first=1)
    del obj.text
    with pytest.raises(AttributeError, match="text"):
        make_codec(types.Keyed).encode(obj)


@pytest.mark.parametrize("name", ["a\x00b", 'quote"', "back\\slash", "new\nline", "{brace}", "ü"])
def test_names_may_have_any_characters(name: str) -> None:
    type_ = StructType(
        name=name, fields=(Field(tag=1, name=name, type=ScalarType(Kind.UINT8), is_key=True),)
    )
    codec = Codec(class_of(type_)._codec.plan)
    assert type_.name == codec.plan.name
    assert codec.encode(codec.decode(b"\xa1\x01\x05")) == b"\xa1\x01\x05"


def test_a_struct_without_fields() -> None:
    cls = class_of(StructType(name="Nothing", fields=()))
    codec = Codec(cls._codec.plan)
    assert codec.encode(cls()) == b"\xa0"
    assert codec.encode_only(cls(), -1) == b"\xa0"
    assert codec.decode(b"\xa0") == cls()
    assert codec.decode(b"\xa1\x05\x06") == cls()
    assert codec.key(b"\xa0") == b"\x80"
    for data in (b"", b"\x05", b"\xa1", b"\xa0\x00"):
        with pytest.raises(DecodeError, match="Nothing"):
            codec.decode(data)


def test_nested_objects_may_be_of_a_derived_class(types: TypeSet, make_codec: Any) -> None:
    codec = make_codec(types.Everything)
    obj = types.Everything(inner=types.Inner(label="x" * 40, high=200))
    assert codec.decode(codec.encode(obj)) == obj
    derived = type("Derived", (types.Inner,), {})(label="x")
    assert codec.encode(types.Everything(inner=derived)) == bytes.fromhex("a11818a1026178")
