"""The codec of one struct as functions written for it: the fast road, and when it is left."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest

from skerry.codec.generated import GeneratedCodec
from skerry.codec.tables import TableCodec
from skerry.errors import DecodeError, EncodeError
from skerry.objects.classes import class_of
from skerry.objects.typeset import TypeSet, define_types
from skerry.schema.model import Field, Kind, ScalarType, StructType


def wide(count: int) -> Any:
    text = "".join(f"{tag}: uint8 f{tag}; " for tag in range(1, count + 1))
    return define_types(f"struct Wide{count} {{ {text} }}")[f"Wide{count}"]


def test_it_can_all_that_tables_can(types: TypeSet) -> None:
    plan = types.Keyed._codec.plan
    generated, table = GeneratedCodec(plan), TableCodec(plan)
    methods = [name for name in dir(table) if not name.startswith("_")]
    assert [name for name in dir(generated) if not name.startswith("_")] == methods
    data = types.Keyed(first=1, second="s", text="t").encode()
    assert generated.plan is plan
    assert generated.key(data) == generated.key_of(generated.split(data)) == table.key(data)
    assert generated.encode_key(generated.decode(data)) == table.key(data)
    assert generated.normalize(data) == data
    assert generated.merge(data, b"\xa0", 8) == table.merge(data, b"\xa0", 8)


@pytest.mark.parametrize("count", range(1, 32))
def test_a_head_that_is_no_small_count_is_not_taken_for_one(count: int) -> None:
    """0xb9 to 0xbf are heads with longer counts, reserved ones, and a map without end."""
    cls = wide(count)
    codec, table = GeneratedCodec(cls._codec.plan), TableCodec(cls._codec.plan)
    entries = b"".join(cbor2.dumps(tag) + b"\x05" for tag in range(1, count + 1))
    for first in range(0xA0, 0x100):
        data = bytes((first,)) + entries
        try:
            expected: object = table.decode(data)
        except DecodeError as error:
            expected = str(error)
        try:
            found: object = codec.decode(data)
        except DecodeError as error:
            found = str(error)
        assert found == expected, hex(first)
        assert (found == cls.decode(cls(**{f"f{n}": 5 for n in range(1, count + 1)}).encode())) == (
            first == 0xA0 + count and count < 24
        )


def test_values_past_the_middle_are_left_to_the_tables(types: TypeSet) -> None:
    codec = GeneratedCodec(types.Everything._codec.plan)
    obj = types.Everything(s="x" * 24, f64=1, u8=True)
    with pytest.raises(EncodeError, match=r"Everything\.u8: expected uint8, got bool True"):
        codec.encode(obj)
    obj.u8 = None
    assert codec.encode(obj) == TableCodec(codec.plan).encode(obj)


def test_an_object_of_another_class_is_not_encoded(types: TypeSet) -> None:
    for codec in (GeneratedCodec(types.Keyed._codec.plan), TableCodec(types.Keyed._codec.plan)):
        with pytest.raises(AttributeError, match="text"):
            codec.encode(types.Single(id=1))


def test_a_field_that_was_deleted_is_told_alike(types: TypeSet) -> None:
    obj = types.Keyed(first=1)
    del obj.text
    for codec in (GeneratedCodec(types.Keyed._codec.plan), TableCodec(types.Keyed._codec.plan)):
        with pytest.raises(AttributeError, match="text"):
            codec.encode(obj)


@pytest.mark.parametrize("name", ["a\x00b", 'quote"', "back\\slash", "new\nline", "{brace}", "ü"])
def test_names_of_strangers_do_not_reach_the_written_source(name: str) -> None:
    type_ = StructType(
        name=name, fields=(Field(tag=1, name=name, type=ScalarType(Kind.UINT8), is_key=True),)
    )
    cls = class_of(type_)
    codec = GeneratedCodec(cls._codec.plan)
    assert type_.name == codec.plan.name
    obj = codec.decode(b"\xa1\x01\x05")
    assert codec.encode(obj) == b"\xa1\x01\x05"


def test_a_struct_without_fields() -> None:
    cls = class_of(StructType(name="Nothing", fields=()))
    codec = GeneratedCodec(cls._codec.plan)
    assert codec.encode(cls()) == b"\xa0"
    assert codec.encode_only(cls(), -1) == b"\xa0"
    assert codec.decode(b"\xa0") == cls()
    assert codec.decode(b"\xa1\x05\x06") == cls()
    assert codec.key(b"\xa0") == b"\x80"
    for data in (b"", b"\x05", b"\xa1", b"\xa0\x00"):
        with pytest.raises(DecodeError, match="Nothing"):
            codec.decode(data)


def test_nested_structs_have_written_functions_of_their_own(types: TypeSet) -> None:
    codec = GeneratedCodec(types.Everything._codec.plan)
    obj = types.Everything(inner=types.Inner(label="x" * 40, high=200))
    assert codec.decode(codec.encode(obj)) == obj
    derived = type("Derived", (types.Inner,), {})(label="x")
    assert codec.encode(types.Everything(inner=derived)) == bytes.fromhex("a11818a1026178")
