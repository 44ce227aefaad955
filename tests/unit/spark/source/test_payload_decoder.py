"""Decodes single payloads by the rules that all decoding follows."""

from __future__ import annotations

import math
from typing import Any
from uuid import UUID

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skerry
from skerry import limits
from skerry.errors import DecodeError
from skerry.objects.classes import class_of
from skerry.schema.model import StructType
from skerry.spark.lake.schema import typed_schema
from skerry.spark.source import payload_decoder
from skerry.spark.source.payload_decoder import UNKNOWN_TAG_MAX, WHOLE_TAG, decode_payload
from tests import strategies

TYPES = skerry.define_types("""
enum Color { 1: red, 5: blue }
struct Point { 1: float64 x; 2: float64 y; }
struct Thing {
    1: [key] uint32 id;
    2: string name;
    3: timepoint seen;
    4: Color color;
    5: vector<Point> way;
    6: uuid label;
    7: any load;
    8: instance_ref<Thing> next;
    9: int8 small;
    10: float32 single;
    11: instance_ref open;
    12: uint64 large;
}
""")
READER = typed_schema([TYPES.Thing.descriptor]).reader


def read(entries: dict[int, Any] | bytes) -> tuple[dict[str, Any], dict[int, bytes]]:
    data = entries if isinstance(entries, bytes) else cbor2.dumps(entries)
    values, unknown = decode_payload(READER, data)
    names = [field.name for field in READER.fields]
    return {n: v for n, v in zip(names, values, strict=True) if v is not None}, unknown


def is_kept_whole(data: bytes) -> bool:
    values, unknown = read(data)
    return not values and unknown == {WHOLE_TAG: data}


def test_values_have_the_types_of_their_columns() -> None:
    obj = TYPES.Thing(
        id=7,
        name="är",
        seen=1.5,
        color=TYPES.Color.blue,
        way=[TYPES.Point(x=1.0), TYPES.Point()],
        label=UUID(int=1),
        load=skerry.AnyObject("Point", b"\xa0"),
        next=skerry.Ref("Thing", b"\x81\x07"),
        small=-128,
        single=0.5,
        open=skerry.Ref("Point", b"\x80"),
        large=2**64 - 1,
    )
    assert read(obj.encode()) == (
        {
            "id": 7,
            "name": "är",
            "seen": 1_500_000,
            "color": "blue",
            "way": [{"x": 1.0, "y": None}, {"x": None, "y": None}],
            "label": "00000000-0000-0000-0000-000000000001",
            "load": {"type": "Point", "payload": b"\xa0"},
            "next": {"type": "Thing", "key": b"\x81\x07"},
            "small": -128,
            "single": 0.5,
            "open": {"type": "Point", "key": b"\x80"},
            "large": 2**64 - 1,
        },
        {},
    )


def test_an_empty_payload_has_no_values() -> None:
    assert read(b"") == ({}, {})
    assert read(b"\xa0") == ({}, {})


def test_unknown_fields_are_kept_encoded() -> None:
    values, unknown = read({1: 7, 20: {"a": [1]}, 900: b"x"})
    assert values == {"id": 7}
    assert unknown == {20: cbor2.dumps({"a": [1]}), 900: cbor2.dumps(b"x")}


def test_a_field_with_unknown_content_is_decoded_and_kept_encoded() -> None:
    values, unknown = read({1: 7, 5: [{1: 1.0, 3: "new"}]})
    assert values == {"id": 7, "way": [{"x": 1.0, "y": None}]}
    assert unknown == {5: cbor2.dumps([{1: 1.0, 3: "new"}])}


def test_text_that_is_not_utf8_is_decoded_with_replacements_and_kept() -> None:
    values, unknown = read(b"\xa1\x02\x63a\xffb")
    assert values == {"name": "a\ufffdb"}
    assert unknown == {2: b"\x63a\xffb"}


@pytest.mark.parametrize(
    "seconds", [math.nan, math.inf, -math.inf, 1e18, payload_decoder.TIME_S_MAX + 1]
)
def test_a_time_outside_the_calendar_is_null_and_kept(seconds: float) -> None:
    values, unknown = read({3: seconds})
    assert values == {}
    assert list(unknown) == [3]


@pytest.mark.parametrize(
    "seconds", [payload_decoder.TIME_S_MIN, payload_decoder.TIME_S_MAX, 0.0000005, 0.0000015]
)
def test_times_are_rounded_to_microseconds_halves_to_even(seconds: float) -> None:
    assert read({3: seconds})[0]["seen"] == round(seconds * 1e6)


def test_an_enum_tag_without_a_name_is_its_number() -> None:
    assert read({4: 3})[0] == {"color": "3"}
    assert read({4: 2**64 - 1})[0] == {"color": str(2**64 - 1)}


@pytest.mark.parametrize(
    "entries",
    [
        {1: -1},
        {1: "7"},
        {1: 2**32},
        {9: 128},
        {9: -129},
        {10: 1e300},
        {2: 5},
        {2: None},
        {4: "blue"},
        {5: {1: 2}},
        {6: b"short"},
        {7: ["Point"]},
        {7: [b"", b""]},
        {8: 5},
        {11: b""},
        {0: 1},
        {UNKNOWN_TAG_MAX + 1: 1},
        {-1: 1},
        dict.fromkeys(range(40, 40 + limits.STRUCT_ENTRY_COUNT_MAX + 1), 0),
        [],
        "text",
    ],
)
def test_a_payload_that_does_not_decode_is_kept_whole(entries: Any) -> None:
    assert is_kept_whole(cbor2.dumps(entries))


@pytest.mark.parametrize(
    "data",
    [
        b"\xa2\x01\x07\x01\x08",  # a tag twice
        b"\xa2\x14\x07\x14\x08",  # an unknown one, too
        b"\xa1\x01\x07\x00",  # bytes behind it
        b"\xa1\x01",
        b"\xa1",
        b"\xbf\xff",  # indefinite length
        b"\xa1\x01\x1c",  # a head that means nothing
        b"\xa1\x02\x7a\xff\xff\xff\xff",  # longer than all there is
        b"\xa1\x05\x9a\xff\xff\xff\xff",
        b"\xa1\x14\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xa1\x08\x81\x18\x07",  # a key not in its shortest form
        b"\xa1\x08\x81\xf6",
        b"\xa1\x14" + b"\x81" * (limits.SKIP_DEPTH_MAX + 1) + b"\x00",
    ],
)
def test_invalid_bytes_are_kept_whole(data: bytes) -> None:
    assert is_kept_whole(data)


def test_values_at_the_limit_of_nesting_are_kept() -> None:
    inside = b"\x81" * limits.SKIP_DEPTH_MAX + b"\x00"
    assert read(b"\xa1\x14" + inside) == ({}, {20: inside})


@pytest.mark.slow
def test_more_elements_or_structs_than_the_limits_are_rejected() -> None:
    count = limits.VECTOR_COUNT_MAX
    assert count + 1 > limits.STRUCT_COUNT_MAX
    points = b"\xa1\x05\x9a" + (count + 1).to_bytes(4, "big") + b"\xa0" * (count + 1)
    assert is_kept_whole(points)
    # As many elements as a vector may have, and the struct around them is one too many.
    assert is_kept_whole(b"\xa1\x05\x9a" + count.to_bytes(4, "big") + b"\xa0" * count)


@pytest.mark.slow
@given(st.data())
def test_it_accepts_and_rejects_the_same_payloads_as_the_codec(
    data: st.DataObject,
) -> None:
    struct = data.draw(strategies.struct_types())
    payload = bytearray(data.draw(strategies.objects_of(struct)).encode())
    if data.draw(st.booleans()) and payload:
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    raw = bytes(payload)
    _, unknown = decode_payload(typed_schema([struct]).reader, raw)
    try:
        class_of(struct).decode(raw)
    except DecodeError:
        is_taken = False
    else:
        is_taken = True
    if is_taken and WHOLE_TAG in unknown:
        # Only these two: tag 0 has a meaning here, and an unknown tag may not come twice.
        assert _has_odd_tags(struct, raw)
    else:
        assert is_taken == (WHOLE_TAG not in unknown)


def _has_odd_tags(struct: StructType, raw: bytes) -> bool:
    reader = typed_schema([struct]).reader
    known = {field.tag for field in reader.fields}
    # cbor2 drops what comes twice, so the count in the head tells more than its keys.
    plain = cbor2.loads(raw)
    head = raw[0] & 0x1F if raw[0] < 0xB8 else raw[1]
    return (
        0 in plain or len(plain) < head or any(t > UNKNOWN_TAG_MAX for t in plain if t not in known)
    )
