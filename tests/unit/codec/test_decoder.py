"""Bytes to objects: what is read, and everything that is refused, with the field and the place."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

import cbor2
import pytest

from skerry.codec.decoder import decode_value
from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.errors import DecodeError
from skerry.limits import (
    PAYLOAD_BYTES_MAX,
    SKIP_DEPTH_MAX,
    STRUCT_COUNT_MAX,
    STRUCT_ENTRY_COUNT_MAX,
    VECTOR_COUNT_MAX,
)
from skerry.objects.typeset import TypeSet, define_types

Same = Callable[..., Any]
MakeCodec = Callable[[Any], Any]


def entry(types: TypeSet, name: str, value: str) -> bytes:
    tag = types.Everything.descriptor.field(name).tag
    return b"\xa1" + bytes(cbor2.dumps(tag)) + bytes.fromhex(value)


def one(same: Same, types: TypeSet, name: str, value: str) -> Any:
    """The value of one field from its hex, or the error."""
    result = same(types.Everything, "decode", entry(types, name, value))
    return result if isinstance(result, str) else getattr(result, name)


def refused(same: Same, types: TypeSet, name: str, value: str) -> str:
    """What an error says, the same in decoding as in checking."""
    data = entry(types, name, value)
    said = same(types.Everything, "decode", data)
    assert isinstance(said, str), f"{value} was read as {said!r}"
    for method in ("split", "normalize", "key"):
        assert same(types.Everything, method, data) == said
    return said.removeprefix("DecodeError: Everything.")


# -- values


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("b", "f5", True),
        ("b", "f4", False),
        ("i8", "387f", -128),
        ("i8", "187f", 127),
        ("i16", "397fff", -32768),
        ("i32", "3a7fffffff", -(2**31)),
        ("i64", "3b7fffffffffffffff", -(2**63)),
        ("i64", "1b7fffffffffffffff", 2**63 - 1),
        ("u8", "18ff", 255),
        ("u16", "19ffff", 65535),
        ("u32", "1affffffff", 2**32 - 1),
        ("u64", "1bffffffffffffffff", 2**64 - 1),
        ("u64", "1b8000000000000000", 2**63),
        ("f16", "f93e00", 1.5),
        ("f32", "f93e00", 1.5),
        ("f32", "fa3fc00000", 1.5),
        ("f64", "f93e00", 1.5),
        ("f64", "fa3fc00000", 1.5),
        ("f64", "fb3ff8000000000000", 1.5),
        ("tp", "f93e00", 1.5),
        ("stp", "fa3fc00000", 1.5),
        ("dur", "fbbff8000000000000", -1.5),
        ("f64", "fb7ff0000000000000", math.inf),
        ("s", "60", ""),
        ("s", "62c3bc", "ü"),
        ("s", "61ff", "\udcff"),
        ("data", "4100", b"\x00"),
        ("id", "50000102030405060708090a0b0c0d0e0f", UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")),
        ("ps", "1affffffff", PropertySet(2**32 - 1)),
        ("any", "82615441a0", AnyObject("T", b"\xa0")),
        ("any", "826040", AnyObject("", b"")),
        ("ref", "8261548105", Ref("T", b"\x81\x05")),
        ("keyed", "820561" + "61", Ref("Keyed", b"\x82\x05\x61a")),
        ("numbers", "80", []),
        ("numbers", "8201190100", [1, 256]),
        ("texts", "8260616e", ["", "n"]),
        ("bools", "82f4f5", [False, True]),
        ("floats", "82f93e00fb3ff8000000000000", [1.5, 1.5]),
        ("blobs", "814100", [b"\x00"]),
    ],
)
def test_values_are_read(same: Same, types: TypeSet, name: str, value: str, expected: Any) -> None:
    found = one(same, types, name, value)
    assert found == expected
    assert type(found) is type(expected)


def test_elements_and_structs_are_read(same: Same, types: TypeSet) -> None:
    assert one(same, types, "color", "02") is types.Color.green
    assert one(same, types, "color", "190002") is types.Color.green
    assert one(same, types, "colors", "8218c801") == [types.Color.blue, types.Color.red]
    assert one(same, types, "inner", "a0") == types.Inner()
    assert one(same, types, "inner", "a2181e18ff01f4") == types.Inner(high=255, flag=False)
    assert one(same, types, "inners", "82a1026178a0") == [types.Inner(label="x"), types.Inner()]


def test_a_number_that_is_none_is_read_too(make_codec: MakeCodec, types: TypeSet) -> None:
    codec = make_codec(types.Everything)
    for name, value in (("f16", "f97e00"), ("f32", "fa7fc00000"), ("f64", "fb7ff8000000000000")):
        obj = codec.decode(entry(types, name, value))
        assert math.isnan(getattr(obj, name))
        assert codec.encode(obj) == entry(types, name, value)


@pytest.mark.parametrize("size", [0, 22, 23, 24, 25, 255, 256, 65535, 65536])
def test_text_and_bytes_of_any_length(same: Same, types: TypeSet, size: int) -> None:
    assert one(same, types, "s", cbor2.dumps("x" * size).hex()) == "x" * size
    assert one(same, types, "data", cbor2.dumps(b"x" * size).hex()) == b"x" * size


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("u8", "1805", 5),
        ("u16", "1805", 5),
        ("u32", "1a00000005", 5),
        ("u64", "1b0000000000000005", 5),
        ("i16", "390005", -6),
        ("s", "7b000000000000000161", "a"),
        ("data", "580161", b"a"),
        ("numbers", "9a0000000105", [5]),
    ],
)
def test_longer_heads_than_needed_are_read(
    same: Same, types: TypeSet, name: str, value: str, expected: Any
) -> None:
    assert one(same, types, name, value) == expected


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("b", "01", "b: expected a bool, found an unsigned number at byte 2"),
        ("b", "f6", "b: expected a bool, found null at byte 2"),
        ("i8", "1880", "i8: 128 is out of the range of int8 at byte 2"),
        ("i8", "3880", "i8: -129 is out of the range of int8 at byte 2"),
        ("i8", "190001", "i8: a number wider than int8 at byte 2"),
        ("i64", "1b8000000000000000", "i64: 9223372036854775808 is out of the range of int64"),
        ("i64", "3bffffffffffffffff", "i64: -18446744073709551616 is out of the range of int64"),
        ("i64", "fb3ff8000000000000", "i64: expected int64, found a float at byte 2"),
        ("u8", "20", "u8: expected uint8, found a negative number at byte 2"),
        ("u8", "190001", "u8: a number wider than uint8 at byte 2"),
        ("u16", "1a00000001", "u16: a number wider than uint16 at byte 2"),
        ("u32", "1b0000000000000001", "u32: a number wider than uint32 at byte 2"),
        ("u32", "6101", "u32: expected uint32, found text at byte 2"),
        ("u64", "c200", "u64: expected uint64, found a tag at byte 2"),
        ("ps", "1b0000000100000000", "ps: a number wider than property_set at byte 2"),
        ("ps", "20", "ps: expected property_set, found a negative number at byte 2"),
        ("f16", "fa3fc00000", "f16: a number wider than float16 at byte 2"),
        ("f32", "fb3ff8000000000000", "f32: a number wider than float32 at byte 2"),
        ("f64", "05", "f64: expected float64, found an unsigned number at byte 2"),
        ("f64", "f6", "f64: expected float64, found null at byte 2"),
        ("tp", "1a65000000", "tp: expected timepoint, found an unsigned number at byte 2"),
        ("s", "4161", "s: expected text, found bytes at byte 2"),
        ("s", "7f6161ff", "s: an indefinite length is not allowed at byte 2"),
        ("data", "6161", "data: expected bytes, found text at byte 2"),
        ("data", "8101", "data: expected bytes, found an array at byte 2"),
        ("id", "4f" + "00" * 15, "id: a uuid has 16 bytes, found 15 at byte 2"),
        ("id", "51" + "00" * 17, "id: a uuid has 16 bytes, found 17 at byte 2"),
        ("any", "80", "any: expected a type name and bytes at byte 2"),
        ("any", "83615441a000", "any: expected a type name and bytes at byte 2"),
        ("any", "82415441a0", "any: expected text, found bytes at byte 3"),
        ("any", "82615461a0", "any: expected bytes, found text at byte 5"),
        ("ref", "8105", "ref: expected a type name and a key at byte 2"),
        ("ref", "82615405", "ref: expected the key of an object at byte 5"),
        ("ref", "82615481f6", "ref: a key does not hold null at byte 6"),
        ("keyed", "a0", "keyed: expected the key of an object at byte 2"),
        ("keyed", "811805", "keyed: the key is not in its shortest form at byte 3"),
        ("color", "03", "color: Color has no element with tag 3 at byte 2"),
        ("color", "20", "color: expected an unsigned number, found a negative number at byte 2"),
        ("inner", "80", "expected a map, found an array at byte 3"),
        ("inner", "bf01f5ff", "an indefinite length is not allowed at byte 3"),
        ("inner", "a10105", "flag: expected a bool, found an unsigned number at byte 5"),
        ("numbers", "9f01ff", "numbers: an indefinite length is not allowed at byte 3"),
        ("numbers", "8120", "numbers: expected uint32, found a negative number at byte 4"),
        ("numbers", "81f6", "numbers: expected uint32, found null at byte 4"),
        ("texts", "8101", "texts: expected text, found an unsigned number at byte 4"),
        ("inners", "81a2", "the bytes end before the counted entries at byte 4"),
    ],
)
def test_values_of_another_form_are_refused(
    same: Same, types: TypeSet, name: str, value: str, why: str
) -> None:
    said = refused(same, types, name, value).removeprefix("DecodeError: Inner: ")
    assert said.removeprefix("DecodeError: Inner.").startswith(why)


@pytest.mark.parametrize("head", ["1c", "1d", "1e", "1f", "3c", "5c", "7d", "9e", "bf", "dc", "fc"])
def test_reserved_heads_are_refused_everywhere(same: Same, types: TypeSet, head: str) -> None:
    for field in types.Everything.descriptor.fields:
        assert "at byte" in refused(same, types, field.name, head + "00" * 16)


# -- structs


def test_fields_may_be_in_any_order(same: Same, types: TypeSet) -> None:
    obj = types.Keyed(value=0.5, text="t", first=1, second="s")
    entries = {1: 0.5, 2: 1, 3: "t", 7: "s"}
    for order in ((1, 2, 3, 7), (3, 7, 2, 1), (7, 3, 2, 1), (2, 1, 7, 3)):
        data = cbor2.dumps({tag: entries[tag] for tag in order})
        assert same(types.Keyed, "decode", data) == obj


def test_fields_that_are_not_there_are_unset(same: Same, types: TypeSet) -> None:
    obj = same(types.Keyed, "decode", b"\xa0")
    assert obj == types.Keyed()
    assert obj.text is None
    assert same(types.Keyed, "decode", b"\xa1\x02\x05") == types.Keyed(first=5)


UNKNOWN = [
    5,
    -(2**40),
    2**64 - 1,
    1.5,
    True,
    None,
    "",
    "x" * 23,
    "x" * 24,
    "x" * 70000,
    b"x" * 300,
    [],
    [1] * 23,
    [1] * 24,
    ["x" * 30] * 300,
    dict.fromkeys(range(30), "x" * 30),
    cbor2.CBORTag(5, [1, 2]),
    [[[["x" * 100]]], {1: {2: [3]}}],
]


@pytest.mark.parametrize("value", UNKNOWN, ids=lambda value: repr(value)[:16])
@pytest.mark.parametrize("tag", [0, 4, 23, 30, 32, 255, 256, 2**32, 2**63 - 1])
def test_unknown_tags_are_skipped_whatever_their_size(
    same: Same, types: TypeSet, tag: int, value: Any
) -> None:
    obj = types.Keyed(text="t", first=1)
    for entries in (
        {tag: value, 3: "t", 2: 1},
        {3: "t", tag: value, 2: 1},
        {3: "t", 2: 1, tag: value},
    ):
        assert same(types.Keyed, "decode", cbor2.dumps(entries)) == obj
    inside = {24: {31 if tag == 30 else tag: value, 2: "t"}}
    found = same(types.Everything, "decode", cbor2.dumps(inside))
    assert found == types.Everything(inner=types.Inner(label="t"))


def test_a_known_tag_in_a_longer_form_is_that_tag(same: Same, types: TypeSet) -> None:
    assert same(types.Single, "decode", bytes.fromhex("a1180105")) == types.Single(id=5)
    assert same(types.Single, "decode", bytes.fromhex("a119000105")) == types.Single(id=5)
    assert same(types.Single, "decode", bytes.fromhex("b8010105")) == types.Single(id=5)
    assert same(types.Single, "decode", bytes.fromhex("b900010105")) == types.Single(id=5)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "Single: the bytes end before the value at byte 0"),
        ("05", "Single: expected a map, found an unsigned number at byte 0"),
        ("80", "Single: expected a map, found an array at byte 0"),
        ("f6", "Single: expected a map, found null at byte 0"),
        ("bf0105ff", "Single: an indefinite length is not allowed at byte 0"),
        ("a1", "Single: the bytes end before the counted entries at byte 0"),
        ("a101", "Single.id: the bytes end before the value at byte 2"),
        ("a201050206", None),
        ("a201050106", "Single.id: tag 1 comes twice at byte 4"),
        ("a2010518" + "0106", "Single.id: tag 1 comes twice at byte 5"),
        ("a0a0", "Single: 1 bytes follow the object at byte 1"),
        ("a1010500", "Single: 1 bytes follow the object at byte 3"),
        ("a12005", "Single: expected an unsigned number, found a negative number at byte 1"),
        ("a1616105", "Single: expected an unsigned number, found text at byte 1"),
        ("a11bffffffffffffffff05", "Single: a tag of 64 bits at byte 1"),
        ("a1029f00ff", "Single: an indefinite length is not allowed at byte 2"),
        ("bb7fffffffffffffff", "Single: the bytes end before the counted entries at byte 0"),
        ("bbffffffffffffffff", "Single: the bytes end before the counted entries at byte 0"),
    ],
)
def test_structs_of_another_form_are_refused(
    same: Same, types: TypeSet, data: str, why: str | None
) -> None:
    said = same(types.Single, "decode", bytes.fromhex(data))
    if why is None:
        assert said == types.Single(id=5)
    else:
        assert said == f"DecodeError: {why}"
        assert same(types.Single, "key", bytes.fromhex(data)) == said


def full(types: TypeSet) -> Any:
    return types.Everything(
        b=True,
        i8=-100,
        i16=-1000,
        i32=-100000,
        i64=-(2**40),
        u8=200,
        u16=60000,
        u32=2**31,
        u64=2**63,
        f16=1.5,
        f32=0.25,
        f64=math.pi,
        s="text, and more than a few characters of it",
        data=b"x" * 30,
        id=UUID(int=2**127 + 5),
        tp=1.7e9,
        stp=12.5,
        dur=-0.5,
        ps=PropertySet.of([1, 31]),
        any=AnyObject("Single", b"\xa1\x01\x05"),
        ref=Ref("Single", b"\x81\x05"),
        keyed=Ref("Keyed", b"\x82\x05\x61a"),
        color=types.Color.blue,
        inner=types.Inner(flag=True, label="nested", high=7),
        numbers=[1, 2**31, 3],
        inners=[types.Inner(label="x"), types.Inner()],
        colors=[types.Color.red],
        texts=["a", "ü" * 30],
        floats=[0.5, -0.0],
        bools=[True],
        blobs=[b"", b"y" * 300],
    )


def test_an_object_with_all_kinds_of_fields_is_decoded(same: Same, types: TypeSet) -> None:
    obj = full(types)
    data = same(types.Everything, "encode", obj)
    assert same(types.Everything, "decode", data) == obj
    assert obj.attributes == types.Everything.descriptor.mask


def test_every_prefix_is_refused(same: Same, types: TypeSet) -> None:
    data = full(types).encode()
    for size in range(len(data)):
        said = same(types.Everything, "decode", data[:size])
        assert isinstance(said, str), size
        assert said.startswith("DecodeError"), size
        assert same(types.Everything, "split", data[:size]) == said


def test_an_object_is_read_out_of_the_middle(same: Same, types: TypeSet) -> None:
    inside = full(types).encode()
    data = b"\xff\xff" + inside + b"\xa1\x01\x05"
    obj, stop = same(types.Everything, "decode_from", data, 2)
    assert (obj, stop) == (full(types), 2 + len(inside))
    assert same(types.Single, "decode_from", data, stop) == (types.Single(id=5), len(data))
    assert same(types.Single, "decode_from", data, 0).startswith("DecodeError")
    assert "at byte 6" in same(types.Single, "decode_from", b"\xff\xff\xa2\x01\x05\x01", 2)


def test_one_value_is_read_alone(types: TypeSet) -> None:
    plan = types.Single._codec.plan
    assert decode_value(plan, plan.fields[0], b"\xff\x18\x18\xff", 1) == (24, 3)


@pytest.mark.parametrize("make", [bytearray, memoryview, list, str])
def test_only_bytes_are_read(make_codec: MakeCodec, types: TypeSet, make: Any) -> None:
    data = make("x") if make is str else make(full(types).encode())
    codec = make_codec(types.Everything)
    name = make.__name__
    for read in (codec.decode, codec.split, codec.key, codec.normalize, types.Everything.decode):
        with pytest.raises(TypeError, match=f"bytes object expected; got {name}"):
            read(data)


# -- bounds


@pytest.mark.slow
def test_a_payload_is_read_to_the_limit_and_no_further(make_codec: MakeCodec) -> None:
    cls = define_types("struct Blob { 1: bytes data; 2: bool b; }").Blob
    codec = make_codec(cls)
    size = PAYLOAD_BYTES_MAX - 7
    data = b"\xa1\x01\x5a" + struct.pack(">I", size) + bytes(size)
    assert len(codec.decode(data).data) == size
    assert codec.split(data).present == 2
    data = b"\xa1\x01\x5a" + struct.pack(">I", size + 1) + bytes(size + 1)
    for read in (codec.decode, codec.split, codec.normalize):
        with pytest.raises(DecodeError) as caught:
            read(data)
        over = PAYLOAD_BYTES_MAX + 1
        assert caught.value.detail == f"{over} bytes, the limit is {PAYLOAD_BYTES_MAX}"


def test_entries_are_read_to_the_limit_and_no_further(same: Same, types: TypeSet) -> None:
    most = {100 + n: 0 for n in range(STRUCT_ENTRY_COUNT_MAX)}
    assert same(types.Single, "decode", cbor2.dumps(most)) == types.Single()
    more = cbor2.dumps({**most, 99: 0})
    said = same(types.Single, "decode", more)
    limit = STRUCT_ENTRY_COUNT_MAX
    assert said == f"DecodeError: Single: {limit + 1} entries, the limit is {limit} at byte 0"
    wide = define_types(
        "struct Wide { " + "".join(f"{tag}: uint8 f{tag}; " for tag in range(1, 32)) + "}"
    ).Wide
    assert f"the limit is {limit}" in same(wide, "decode", more)


def test_unknown_values_are_skipped_to_their_depth_and_no_deeper(
    same: Same, types: TypeSet
) -> None:
    deepest = b"\xa1\x02" + b"\x81" * SKIP_DEPTH_MAX + b"\x00"
    assert same(types.Single, "decode", deepest) == types.Single()
    deeper = b"\xa1\x02" + b"\x81" * (SKIP_DEPTH_MAX + 1) + b"\x00"
    assert "nested deeper than 64 levels" in same(types.Single, "decode", deeper)
    endless = b"\xa1\x02" + b"\x81" * 1_000_000
    assert "the bytes end before" in same(types.Single, "decode", b"\xa1\x02\x81")
    assert "nested deeper than 64 levels" in same(types.Single, "decode", endless)


@pytest.mark.slow
def test_a_vector_is_read_to_the_limit_and_no_further(
    make_codec: MakeCodec, types: TypeSet
) -> None:
    codec = make_codec(types.Everything)
    front = b"\xa1\x18\x1d\x9a"
    data = front + struct.pack(">I", VECTOR_COUNT_MAX) + b"\xf4" * VECTOR_COUNT_MAX
    assert len(codec.decode(data).bools) == VECTOR_COUNT_MAX
    assert codec.normalize(data) is data
    data = front + struct.pack(">I", VECTOR_COUNT_MAX + 1) + b"\xf4" * (VECTOR_COUNT_MAX + 1)
    for read in (codec.decode, codec.split):
        with pytest.raises(DecodeError) as caught:
            read(data)
        count = VECTOR_COUNT_MAX + 1
        assert caught.value.detail == f"{count} entries, the limit is {VECTOR_COUNT_MAX}"
        assert caught.value.field == "bools"


@pytest.fixture(scope="module")
def wide_points() -> Any:
    fields = " ".join(f"{tag}: uint8 f{tag};" for tag in range(1, 32))
    return define_types(
        f"struct Point {{ {fields} }} struct Lines {{ 1: vector<Point> a; 2: vector<Point> b; }}"
    )


def empty_points(first: int, second: int) -> bytes:
    vectors = [b"\x9a" + struct.pack(">I", count) + b"\xa0" * count for count in (first, second)]
    return b"\xa2\x01" + vectors[0] + b"\x02" + vectors[1]


@pytest.mark.slow
def test_structs_are_counted_to_the_limit_and_no_further(
    make_codec: MakeCodec, wide_points: Any
) -> None:
    codec = make_codec(wide_points.Lines)
    half = STRUCT_COUNT_MAX // 2
    assert codec.split(empty_points(half, half - 1)).struct_count == STRUCT_COUNT_MAX
    with pytest.raises(DecodeError) as caught:
        codec.decode(empty_points(half, half))
    assert caught.value.detail == f"over {STRUCT_COUNT_MAX} structs, which is the limit"
    assert caught.value.type_name == "Point"


@pytest.mark.slow
def test_a_payload_with_many_structs_is_still_read(make_codec: MakeCodec, types: TypeSet) -> None:
    """One with more bytes than structs may be in it is counted first, and then read as any."""
    obj = types.Everything(inners=[types.Inner(label="x" * 200)] * 6000)
    data = obj.encode()
    assert len(data) > STRUCT_COUNT_MAX
    assert make_codec(types.Everything).decode(data) == obj
