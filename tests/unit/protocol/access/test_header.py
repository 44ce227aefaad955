"""The header: the bytes are those of its type, and wrong bytes are refused by name."""

from __future__ import annotations

import itertools
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry import cbor
from skerry.codec.values import PropertySet
from skerry.errors import DecodeError
from skerry.limits import STRUCT_ENTRY_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import ABSENT, NEVER, Header, read_header, write_header

FIELDS = {
    "sent_time": "sentTime",
    "server_sent_time": "serverSentTime",
    "attributes": "attributes_",
    "sender": "sender",
    "from_cache": "fromCache",
    "remove_obj": "removeObj",
    "is_from_myself": "isFromMyself",
    "subscription_id": "subscriptionId",
    "subject": "subject",
    "sequence": "sequence",
    "position": "position",
    "node": "node",
}
"""What a header may have besides the name of its type, and how the type calls it."""

SAMPLE = {
    "sent_time": 1794727021.7554953,
    "server_sent_time": 0.0,
    "attributes": 0xC0000006,
    "sender": 1,
    "from_cache": 0,
    "remove_obj": 0,
    "is_from_myself": 1,
    "subscription_id": 0xFFFFFFFF,
    "subject": "/Größe/1",
    "sequence": 2**63 - 1,
    "position": 24,
    "node": -(2**63),
}

uint32 = st.integers(0, 2**32 - 1)
upto63 = st.integers(0, 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
values = st.fixed_dictionaries(
    {},
    optional={
        "sent_time": st.floats().filter(lambda time: time != NEVER),
        "server_sent_time": st.floats().filter(lambda time: time != NEVER),
        "attributes": uint32,
        "sender": uint32,
        "from_cache": uint32,
        "remove_obj": st.integers(0, 1),
        "is_from_myself": st.integers(0, 1),
        "subscription_id": uint32,
        "subject": texts,
        "sequence": upto63,
        "position": upto63,
        "node": st.integers(-(2**63), 2**63 - 1).filter(bool),
    },
)


def header_of(name: str, fields: dict[str, Any]) -> Header:
    header = Header(name)
    for field, value in fields.items():
        setattr(header, field, value)
    return header


def object_of(name: str, fields: dict[str, Any]) -> Any:
    obj = internal_class("DotsHeader")(typeName=name)
    for field, value in fields.items():
        if field == "attributes":
            value = PropertySet(value)
        elif field in ("remove_obj", "is_from_myself"):
            value = bool(value)
        setattr(obj, FIELDS[field], value)
    return obj


def fields_of(header: Header) -> dict[str, Any]:
    absent: dict[str, Any] = dict.fromkeys(FIELDS, ABSENT)
    absent |= {"sent_time": NEVER, "server_sent_time": NEVER, "subject": "", "node": 0}
    found = {field: getattr(header, field) for field in FIELDS}
    return {field: value for field, value in found.items() if value != absent[field]}


def refusal(data: bytes) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        read_header(data, 0)
    assert caught.value.type_name == "DotsHeader"
    return caught.value


def entries(*pairs: bytes) -> bytes:
    return bytes([0xA0 | len(pairs)]) + b"".join(pairs)


# -- the same bytes as the type


def test_every_combination_of_fields_has_the_bytes_of_the_type() -> None:
    seen = 0
    for chosen in itertools.product((False, True), repeat=len(SAMPLE)):
        fields = dict(itertools.compress(SAMPLE.items(), chosen))
        data = write_header(header_of("RawThing", fields))
        assert data == object_of("RawThing", fields).encode()
        header, stop = read_header(data, 0)
        assert stop == len(data)
        assert header.type_name == "RawThing"
        assert fields_of(header) == fields
        seen += 1
    assert seen == 2 ** len(FIELDS)


@given(name=texts, fields=values)
def test_any_header_has_the_bytes_of_the_type(name: str, fields: dict[str, Any]) -> None:
    data = write_header(header_of(name, fields))
    assert data == object_of(name, fields).encode()
    header, stop = read_header(data, 0)
    assert stop == len(data)
    assert header.type_name == name
    assert write_header(header) == data


@given(name=st.binary(max_size=300), subject=st.binary(min_size=1, max_size=300))
def test_text_that_is_not_utf8_passes_as_it_is(name: bytes, subject: bytes) -> None:
    data = b"\xa2\x01" + text(name) + b"\x14" + text(subject)
    header, stop = read_header(data, 0)
    assert stop == len(data)
    assert write_header(header) == data
    assert internal_class("DotsHeader").decode(data).typeName == header.type_name


def text(content: bytes) -> bytes:
    return cbor.dumps("x" * len(content))[: -len(content) or None] + content


def test_a_fresh_header_has_nothing_but_its_type() -> None:
    assert fields_of(Header("T")) == {}
    assert write_header(Header("T")) == b"\xa1\x01\x61T"


def test_an_empty_map_is_a_header_without_fields() -> None:
    header, stop = read_header(b"\xa0", 0)
    assert (header.type_name, fields_of(header), stop) == ("", {}, 1)


def test_a_header_is_read_from_where_it_begins_to_where_it_ends() -> None:
    data = write_header(header_of("T", SAMPLE))
    header, stop = read_header(b"before" + data + b"\xa1\x01\x02", 6)
    assert stop == 6 + len(data)
    assert fields_of(header) == SAMPLE


def test_entries_may_have_any_order() -> None:
    pairs = [b"\x04\xf5", b"\x17\x20", b"\x01\x61T", b"\x03\x06", b"\x02\xf9\x3c\x00"]
    for order in itertools.permutations(pairs):
        header, _ = read_header(entries(*order), 0)
        assert header.type_name == "T"
        wanted = {"sent_time": 1.0, "attributes": 6, "remove_obj": 1, "node": -1}
        assert fields_of(header) == wanted


# -- other forms of the same


@pytest.mark.parametrize("form", ["05", "1805", "190005", "1a00000005", "1b0000000000000005"])
def test_numbers_may_be_in_any_width(form: str) -> None:
    header, stop = read_header(entries(b"\x05" + bytes.fromhex(form)), 0)
    assert header.sender == 5
    assert stop == 2 + len(form) // 2


@pytest.mark.parametrize(
    "data",
    [
        b"\xb8\x01\x01\x61T",
        b"\xb9\x00\x01\x01\x61T",
        b"\xa1\x18\x01\x61T",
        b"\xa1\x1b\x00\x00\x00\x00\x00\x00\x00\x01\x61T",
        b"\xa1\x01\x78\x01T",
        b"\xa1\x01\x7b\x00\x00\x00\x00\x00\x00\x00\x01T",
    ],
)
def test_heads_may_be_in_any_width(data: bytes) -> None:
    header, stop = read_header(data, 0)
    assert header.type_name == "T"
    assert stop == len(data)


@pytest.mark.parametrize("form", [">Be", ">Bf", ">Bd"])
@pytest.mark.parametrize("tag", [2, 7])
def test_times_may_be_floats_of_any_width(form: str, tag: int) -> None:
    first = {">Be": 0xF9, ">Bf": 0xFA, ">Bd": 0xFB}[form]
    data = entries(bytes([tag]) + struct.pack(form, first, 1.5))
    header, stop = read_header(data, 0)
    assert stop == len(data)
    assert fields_of(header) == {"sent_time" if tag == 2 else "server_sent_time": 1.5}


def test_times_may_be_no_numbers() -> None:
    for value in (math.inf, -math.inf, math.nan):
        data = entries(b"\x02\xfb" + struct.pack(">d", value))
        header, _ = read_header(data, 0)
        assert repr(header.sent_time) == repr(value)


# -- unknown fields


@pytest.mark.parametrize("tag", [0, 10, 19, 24, 31, 32, 63, 64, 255, 65536, 2**32, 2**63 - 1])
@pytest.mark.parametrize(
    "value",
    [0, -1, 2**64 - 1, "", "x" * 24, b"y" * 300, [1] * 30, {1: [{2: "z"}]}, None, True, 0.5],
    ids=repr,
)
def test_unknown_tags_are_skipped_whatever_they_hold(tag: int, value: Any) -> None:
    unknown = cbor.dumps(tag) + cbor.dumps(value)
    data = entries(b"\x01\x61T", unknown, b"\x05\x07", unknown)
    header, stop = read_header(data, 0)
    assert stop == len(data)
    assert (header.type_name, fields_of(header)) == ("T", {"sender": 7})


def test_a_tag_of_64_bits_is_refused() -> None:
    assert refusal(entries(b"\x1b\x80" + bytes(7) + b"\x00")).detail == "a tag of 64 bits"


def test_more_entries_than_a_type_can_have_are_refused() -> None:
    def data(count: int) -> bytes:
        return b"\xb8" + bytes([count]) + b"\x0a\x00" * count

    assert read_header(data(STRUCT_ENTRY_COUNT_MAX), 0)[1] == 2 + 2 * STRUCT_ENTRY_COUNT_MAX
    assert refusal(data(STRUCT_ENTRY_COUNT_MAX + 1)).detail == "32 entries, the limit is 31"


# -- wrong bytes


@pytest.mark.parametrize("field", ["typeName", *FIELDS.values()])
def test_a_repeated_tag_is_refused(field: str) -> None:
    field = field.removesuffix("_")
    data = write_header(header_of("T", SAMPLE))
    tag = internal_class("DotsHeader").descriptor.field(field).tag
    value = dict(cbor.loads(data))[tag]
    pair = cbor.dumps(tag) + cbor.dumps(value)
    error = refusal(entries(pair, pair))
    assert (error.field, error.detail) == (field, f"tag {tag} comes twice")


@pytest.mark.parametrize(
    ("pair", "field", "detail"),
    [
        ("0140", "typeName", "expected text, found bytes"),
        ("01f6", "typeName", "expected text, found null"),
        ("1401", "subject", "expected text, found an unsigned number"),
        ("0200", "sentTime", "expected timepoint, found an unsigned number"),
        ("07f6", "serverSentTime", "expected timepoint, found null"),
        ("0320", "attributes", "expected an unsigned number, found a negative number"),
        ("0380", "attributes", "expected an unsigned number, found an array"),
        ("0401", "removeObj", "expected a bool, found an unsigned number"),
        ("04f6", "removeObj", "expected a bool, found null"),
        ("0660", "isFromMyself", "expected a bool, found text"),
        ("05f4", "sender", "expected an unsigned number, found a bool"),
        ("08fb", "fromCache", "expected an unsigned number, found a float"),
        ("0960", "subscriptionId", "expected an unsigned number, found text"),
        ("1520", "sequence", "expected an unsigned number, found a negative number"),
        ("1620", "position", "expected an unsigned number, found a negative number"),
        ("1760", "node", "expected an unsigned number, found text"),
        ("017f", "typeName", "an indefinite length is not allowed"),
        ("051c", "sender", "a reserved head (0x1c) is not allowed"),
    ],
)
def test_a_value_of_another_kind_is_refused(pair: str, field: str, detail: str) -> None:
    error = refusal(entries(bytes.fromhex(pair)))
    assert (error.field, error.detail) == (field, detail)
    assert error.offset == 2


@pytest.mark.parametrize("tag", [3, 5, 8, 9])
def test_numbers_have_32_bits(tag: int) -> None:
    names = {3: "attributes", 5: "sender", 8: "from_cache", 9: "subscription_id"}
    largest, _ = read_header(entries(bytes([tag]) + cbor.dumps(2**32 - 1)), 0)
    assert fields_of(largest) == {names[tag]: 2**32 - 1}
    for number in (2**32, 2**63, 2**64 - 1):
        error = refusal(entries(bytes([tag]) + cbor.dumps(number)))
        assert error.detail == "a number that is too large"


@pytest.mark.parametrize("tag", [21, 22, 23])
def test_counts_and_nodes_have_63_bits(tag: int) -> None:
    names = {21: "sequence", 22: "position", 23: "node"}
    largest, _ = read_header(entries(bytes([tag]) + cbor.dumps(2**63 - 1)), 0)
    assert fields_of(largest) == {names[tag]: 2**63 - 1}
    error = refusal(entries(bytes([tag]) + cbor.dumps(2**63)))
    assert (error.field, error.detail) == (names[tag], "a number that is too large")


def test_a_node_is_not_below_its_64_bits() -> None:
    smallest, _ = read_header(entries(b"\x17" + cbor.dumps(-(2**63))), 0)
    assert smallest.node == -(2**63)
    assert refusal(entries(b"\x17" + cbor.dumps(-(2**63) - 1))).field == "node"


@pytest.mark.parametrize("first", [0x00, 0x20, 0x40, 0x60, 0x80, 0xC0, 0xF6, 0xBF])
def test_a_header_is_a_map_of_known_length(first: int) -> None:
    assert refusal(bytes([first]) + bytes(40)).field == ""


@pytest.mark.parametrize("tag", [1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 22, 23])
def test_bytes_that_end_before_a_value_are_refused_for_that(tag: int) -> None:
    error = refusal(b"\xa1" + cbor.dumps(tag))
    assert error.detail == "the bytes end before the value"
    fields = internal_class("DotsHeader").descriptor.fields
    assert [error.field] == [field.name for field in fields if field.tag == tag]


def test_no_beginning_of_a_header_is_a_header() -> None:
    data = write_header(header_of("RawThing", SAMPLE))
    for size in range(len(data)):
        refusal(data[:size])


@given(fields=values, data=st.data())
def test_bytes_of_any_kind_are_read_or_refused(fields: dict[str, Any], data: st.DataObject) -> None:
    changed = bytearray(write_header(header_of("RawThing", fields)))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        header, stop = read_header(bytes(changed), 0)
    except DecodeError as error:
        assert error.type_name == "DotsHeader"
        assert 0 <= error.offset <= len(changed)
    else:
        assert 0 < stop <= len(changed)
        again = write_header(header)
        assert write_header(read_header(again, 0)[0]) == again


def test_the_value_of_absent_times_is_refused() -> None:
    data = internal_class("DotsHeader")(typeName="T", sentTime=NEVER).encode()
    with pytest.raises(DecodeError, match="no time that was or will be"):
        read_header(data, 0)
