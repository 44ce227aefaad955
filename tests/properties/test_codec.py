"""Objects and bytes: whatever the type, and whatever comes in.

Objects are compared by their bytes, because a number that is none does not equal itself.
"""

from __future__ import annotations

import math
import pickle
import struct
from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Any
from uuid import UUID

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.codec.codec import Codec
from skerry.codec.encoder import head
from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.errors import CodecError, DecodeError
from skerry.limits import STRUCT_ENTRY_COUNT_MAX
from skerry.objects.base import Struct, build, key_of, merge
from skerry.objects.classes import class_of
from skerry.objects.descriptors import describe, from_description
from skerry.objects.enums import EnumBase
from skerry.objects.json import from_json_values
from skerry.schema.check import define
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import (
    FieldType,
    Kind,
    NamedType,
    RefType,
    StructType,
    VectorType,
    dependencies,
)
from tests.plan_walk import PlanWalk
from tests.strategies import objects_of, struct_types, type_sets

pytestmark = pytest.mark.slow

RICH_TEXT = """
enum Color { 1: red, 2: green, 300: blue }
struct Inner { 2: [key] string label; 1: bool flag; 30: uint8 high; 3: vector<Color> colors; }
struct Rich {
    5: [key] uint64 u;
    1: bool b;
    2: int8 i8;
    3: int64 i64;
    4: float16 f16;
    6: float32 f32;
    7: float64 f64;
    8: [key] string s;
    9: bytes data;
    10: uuid id;
    11: timepoint tp;
    12: property_set ps;
    13: any a;
    14: instance_ref ref;
    15: instance_ref<Rich> rich;
    16: Color color;
    24: Inner inner;
    25: vector<Inner> inners;
    26: vector<float64> floats;
    27: vector<uint16> numbers;
    31: [key] Inner owner;
    28: vector<string> texts;
}
"""
RICH = next(
    type_
    for type_ in define(RICH_TEXT).types
    if isinstance(type_, StructType) and type_.name == "Rich"
)


def codecs(cls: Any) -> tuple[Codec, PlanWalk]:
    return codecs_of(cls)


@lru_cache(maxsize=256)
def codecs_of(cls: Any) -> tuple[Codec, PlanWalk]:
    return Codec(cls._codec.plan), PlanWalk(cls._codec.plan)


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result in a comparable form, or the message of the CodecError, the only error allowed."""
    try:
        result = call(*arguments)
    except CodecError as error:
        return f"{type(error).__name__}: {error}"
    return result.encode() if hasattr(result, "descriptor") else result


@st.composite
def any_objects(draw: st.DrawFn) -> Any:
    """An object of a type drawn for it."""
    types = draw(type_sets(count_max=4))
    structs = [type_ for type_ in types if isinstance(type_, StructType)]
    chosen = draw(st.sampled_from(structs)) if structs else draw(struct_types())
    return draw(objects_of(chosen))


def rich_objects() -> st.SearchStrategy[Any]:
    return objects_of(RICH)


def objects() -> st.SearchStrategy[Any]:
    return any_objects() | rich_objects()


# -- there and back


@given(objects())
def test_an_object_comes_back_from_its_bytes(obj: Any) -> None:
    data = obj.encode()
    again = type(obj).decode(data)
    assert type(again) is type(obj)
    assert again.encode() == data
    assert again.attributes == obj.attributes
    if not has_nan(obj):
        assert again == obj
        assert hash(again) == hash(obj)


@given(objects(), st.integers(-1, 2**32 - 1))
def test_hot_loops_and_plan_walk_agree(obj: Any, mask: int) -> None:
    codec, walk = codecs(type(obj))
    data = codec.encode(obj)
    assert walk.encode(obj) == data
    assert walk.encode_only(obj, mask) == codec.encode_only(obj, mask)
    assert walk.encode_key(obj) == codec.encode_key(obj)
    assert walk.decode(data).encode() == codec.decode(data).encode() == data
    framed = b"\xff" + data + b"\xff"
    assert walk.decode_from(framed, 1)[1] == codec.decode_from(framed, 1)[1] == 1 + len(data)


@given(objects())
def test_another_library_sees_the_same_structure(obj: Any) -> None:
    found = cbor2.loads(obj.encode(), str_errors="replace")
    assert is_same(found, structure(obj))
    assert list(found) == [f.tag for f in obj.descriptor.fields if obj.attributes >> f.tag & 1]


@given(objects())
def test_an_object_comes_back_from_its_json(obj: Any) -> None:
    text = obj.to_json()
    again = type(obj).from_json(text)
    assert again.to_json() == text
    if not has_nan(obj):
        assert again.encode() == obj.encode()


@given(objects())
def test_an_object_comes_back_from_its_pickle(obj: Any) -> None:
    again = pickle.loads(pickle.dumps(obj))
    assert type(again) is type(obj)
    assert again.encode() == obj.encode()


@given(objects())
def test_every_object_can_be_shown(obj: Any) -> None:
    assert repr(obj).startswith(f"{obj.descriptor.name}{{")
    repr(obj).encode()


@given(objects())
def test_the_key_of_bytes_is_the_key_of_the_object(obj: Any) -> None:
    for codec in codecs(type(obj)):
        assert codec.key(obj.encode()) == key_of(obj)
        assert codec.key_of(codec.split(obj.encode())) == key_of(obj)


@given(objects())
def test_a_type_that_travelled_reads_the_same(obj: Any) -> None:
    known: dict[str, NamedType] = {}
    for type_ in (*dependencies(obj.descriptor), obj.descriptor):
        arrived = type(describe(type_)).decode(describe(type_).encode())
        known[type_.name] = from_description(arrived, known)
    twin = class_of(known[obj.descriptor.name])
    again = twin.decode(obj.encode())
    assert fingerprint(twin.descriptor) == fingerprint(obj.descriptor)
    assert again.encode() == obj.encode()
    assert again.to_json() == obj.to_json()
    assert repr(again) == repr(obj)
    if not has_nan(obj):
        assert again == obj


# -- other forms of the same object


@given(objects(), st.integers(0, 2**32))
def test_other_forms_become_the_one_an_encoder_writes(obj: Any, seed: int) -> None:
    data = obj.encode()
    wild = Wild(seed).struct(obj.descriptor, obj)
    for codec in codecs(type(obj)):
        assert codec.normalize(wild) == data
        assert codec.encode(codec.decode(wild)) == data
        assert codec.key(wild) == key_of(obj)
        assert codec.split(wild).present & obj.descriptor.mask == obj.attributes
        assert codec.split(wild).is_canonical == (wild == data)


class Wild:
    """Encodes objects in valid forms that our encoder does not produce."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)

    def struct(self, type_: StructType, obj: Any) -> bytes:
        values = zip(type_.fields, type(obj)._values(obj), strict=True)
        entries = [
            self.head(0x00, field.tag) + self.value(field.type, value)
            for field, value in values
            if value is not None
        ]
        room = min(3, STRUCT_ENTRY_COUNT_MAX - len(entries))
        entries += [self.unknown(type_) for _ in range(self._rng.randint(0, room))]
        if self._rng.random() < 0.5:
            self._rng.shuffle(entries)
        return self.head(0xA0, len(entries)) + b"".join(entries)

    def unknown(self, type_: StructType) -> bytes:
        used = {field.tag for field in type_.fields}
        free = [tag for tag in (*range(32), 99, 300, 2**40) if tag not in used]
        value = self._rng.choice(
            [None, 5, -(2**60), 1.5, "x" * 30, b"y" * 300, [1] * 40, {1: [2, {}]}, True]
        )
        return self.head(0x00, self._rng.choice(free)) + bytes(cbor2.dumps(value))

    def value(self, type_: FieldType, value: Any) -> bytes:
        if isinstance(type_, StructType):
            return self.struct(type_, value)
        if isinstance(type_, VectorType):
            items = [self.value(type_.element, item) for item in value]
            return self.head(0x80, len(items)) + b"".join(items)
        if isinstance(type_, RefType):
            front = b"" if type_.target else b"\x82" + self.text(value.type_name)
            return front + bytes(value.key)
        if isinstance(value, EnumBase):
            return self.head(0x00, value.tag)
        if isinstance(value, float):
            return self.number(type_.kind, value)
        if isinstance(value, bool):
            return b"\xf5" if value else b"\xf4"
        if isinstance(value, int):
            width = WIDTHS[type_.kind]
            return self.head(0x00 if value >= 0 else 0x20, value if value >= 0 else ~value, width)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, AnyObject):
            return b"\x82" + self.text(value.type_name) + self.blob(value.payload)
        return self.blob(value if isinstance(value, bytes) else value.bytes)

    def number(self, kind: Kind, value: float) -> bytes:
        forms = {
            Kind.FLOAT16: ((0xF9, ">e"),),
            Kind.FLOAT32: ((0xFA, ">f"), (0xF9, ">e")),
        }.get(kind, ((0xFB, ">d"), (0xFA, ">f"), (0xF9, ">e")))
        exact = [
            bytes((first,)) + struct.pack(code, value)
            for first, code in forms
            if (first, code) == forms[0] or is_exact(code, value)
        ]
        return self._rng.choice(exact)

    def text(self, value: str) -> bytes:
        data = value.encode("utf-8", "surrogateescape")
        return self.head(0x60, len(data)) + data

    def blob(self, data: bytes) -> bytes:
        return self.head(0x40, len(data)) + data

    def head(self, major: int, argument: int, width_max: int = 8) -> bytes:
        widths = [width for width in (1, 2, 4, 8) if width <= width_max]
        forms = [
            bytes((major | 24 + (1, 2, 4, 8).index(width),)) + argument.to_bytes(width, "big")
            for width in widths
            if argument < 1 << 8 * width
        ]
        if argument < 24:
            forms.append(bytes((major | argument,)))
        return self._rng.choice(forms) if self._rng.random() < 0.4 else min(forms, key=len)


WIDTHS = {
    **{Kind[f"{sign}INT{bits}"]: bits // 8 for sign in ("", "U") for bits in (8, 16, 32, 64)},
    Kind.PROPERTY_SET: 4,
}


def is_exact(code: str, value: float) -> bool:
    if math.isnan(value):
        return False
    try:
        return bool(struct.unpack(code, struct.pack(code, value))[0] == value)
    except OverflowError:
        return False


# -- merging


@st.composite
def histories(draw: st.DrawFn) -> tuple[Any, list[tuple[Any, int]]]:
    """An object, and updates of it with their attributes."""
    first = draw(objects())
    update = st.tuples(objects_of(first.descriptor), st.integers(-1, 2**32 - 1))
    return first, draw(st.lists(update, min_size=1, max_size=5))


@given(histories())
def test_merging_bytes_is_merging_dictionaries(history: tuple[Any, list[tuple[Any, int]]]) -> None:
    first, updates = history
    fields = first.descriptor.fields
    codec, walk = codecs(type(first))
    data, obj, model = first.encode(), first, pieces_of(first)
    for update, attributes in updates:
        changed = pieces_of(update)
        for field in fields:
            if field.is_key or not attributes >> field.tag & 1:
                continue
            model.pop(field.tag, None)
            if field.tag in changed:
                model[field.tag] = changed[field.tag]
        wild = Wild(attributes).struct(update.descriptor, update)
        assert walk.merge(data, wild, attributes) == codec.merge(data, wild, attributes)
        data = codec.merge(data, update.encode(), attributes)
        obj = merge(obj, with_key_of(first, update), PropertySet(attributes & 0xFFFFFFFF))
        assert obj.encode() == data
        assert pieces_of(obj) == model
    expected = b"".join(
        cbor2.dumps(field.tag) + model[field.tag] for field in fields if field.tag in model
    )
    assert data == head(0xA0, len(model)) + expected
    assert key_of(obj) == key_of(first)


def with_key_of(first: Any, update: Any) -> Any:
    """`update` with the key of `first`, since `merge` of objects compares keys."""
    values = zip(type(first)._values(first), type(update)._values(update), strict=True)
    fields = update.descriptor.fields
    return build(
        type(update),
        [old if f.is_key else new for f, (old, new) in zip(fields, values, strict=True)],
    )


def pieces_of(obj: Any) -> dict[int, bytes]:
    parts = codecs(type(obj))[0].split(obj.encode())
    found = {field.tag: parts.value(field.tag) for field in obj.descriptor.fields}
    return {tag: value for tag, value in found.items() if value is not None}


# -- bytes that are not an object


def check_bytes(type_: StructType, data: bytes) -> None:
    """Both codecs give the same result or error, and only bytes that decode can be split."""
    codec, walk = codecs(class_of(type_))
    found = outcome(codec.decode, data)
    assert outcome(walk.decode, data) == found
    if isinstance(found, str):
        assert found.startswith("DecodeError: ")
        assert outcome(codec.split, data) == found or "follow the object" in found
        assert outcome(codec.normalize, data) == outcome(codec.key, data) == found
        return
    obj = codec.decode(data)
    assert codec.split(data).present & type_.mask == obj.attributes
    assert codec.decode(found).encode() == found
    # Python does not distinguish all encodings of NaN.
    if not has_nan(obj):
        assert codec.normalize(data) == found
        assert codec.key(data) == key_of(obj)


@given(st.binary(max_size=200))
def test_random_bytes_bring_a_decode_error_or_an_object(data: bytes) -> None:
    check_bytes(RICH, data)
    check_bytes(RICH, b"\xa1" + data)


@settings(max_examples=300)
@given(rich_objects(), st.data())
def test_mutated_bytes_bring_a_decode_error_or_an_object(obj: Any, data: st.DataObject) -> None:
    encoded = bytearray(obj.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(encoded)))
        kind = data.draw(st.sampled_from(["flip", "drop", "insert", "cut", "repeat"]))
        if kind == "flip" and at < len(encoded):
            encoded[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "drop":
            del encoded[at : at + data.draw(st.integers(1, 4))]
        elif kind == "insert":
            encoded[at:at] = data.draw(st.binary(min_size=1, max_size=4))
        elif kind == "cut":
            del encoded[at:]
        else:
            encoded += encoded[at:]
    check_bytes(RICH, bytes(encoded))


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_random_text_brings_a_decode_error_or_an_object(text: str | bytes) -> None:
    assert outcome(class_of(RICH).from_json, text) is not None


FIELD_NAMES = st.sampled_from([field.name for field in RICH.fields] + ["type", "key", "payload"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELD_NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(FIELD_NAMES, JSON, max_size=4))
def test_random_json_brings_a_decode_error_or_an_object(plain: dict[str, Any]) -> None:
    try:
        obj = from_json_values(class_of(RICH), plain)
    except DecodeError:
        return
    assert class_of(RICH).decode(obj.encode()).encode() == obj.encode()


# -- comparing


def has_nan(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, list):
        return any(map(has_nan, value))
    return isinstance(value, Struct) and any(map(has_nan, type(value)._values(value)))


def structure(value: Any) -> Any:
    """An object as a reader of CBOR sees it that does not know its type."""
    if isinstance(value, EnumBase):
        return value.tag
    if hasattr(value, "descriptor"):
        fields = zip(value.descriptor.fields, type(value)._values(value), strict=True)
        return {field.tag: structure(item) for field, item in fields if item is not None}
    if isinstance(value, list):
        return [structure(item) for item in value]
    if isinstance(value, AnyObject):
        return [structure(value.type_name), value.payload]
    if isinstance(value, Ref):
        return (structure(value.type_name), cbor2.loads(value.key))
    if isinstance(value, PropertySet):
        return int(value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return value.bytes if isinstance(value, UUID) else value


def is_same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        return found == expected or (math.isnan(found) and math.isnan(expected))
    if isinstance(expected, tuple):
        # A reference: with its type in front, or the key alone where the field names the type.
        return is_same(found, list(expected)) or is_same(found, expected[1])
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(is_same, found, expected))
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(
            is_same(found[tag], expected[tag]) for tag in expected
        )
    return bool(found == expected)
