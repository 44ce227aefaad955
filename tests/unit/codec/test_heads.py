"""Heads of CBOR items: their arguments, counts and lengths, and the way past what is unknown."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest

from skerry.codec import heads
from skerry.errors import DecodeError
from skerry.limits import SKIP_DEPTH_MAX
from skerry.objects.typeset import TypeSet


@pytest.fixture(scope="module")
def plan(types: TypeSet) -> Any:
    return types.Single._codec.plan


BORDERS = [0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1]


@pytest.mark.parametrize("number", BORDERS)
def test_an_argument_of_any_width_is_read(plan: Any, number: int) -> None:
    data = cbor2.dumps(number)
    assert heads.read_argument(plan, None, data, 0, len(data), 0x00) == (number, len(data))
    assert heads.head_size(number) == len(data)


def test_an_argument_of_the_upper_half_is_negative(plan: Any) -> None:
    assert heads.read_argument(plan, None, b"\x1b" + b"\xff" * 8, 0, 9, 0x00) == (-1, 9)
    assert heads.head_size(-1) == 9


@pytest.mark.parametrize("number", BORDERS)
def test_an_argument_that_is_cut_off_is_refused(plan: Any, number: int) -> None:
    data = cbor2.dumps(number)
    for size in range(len(data)):
        with pytest.raises(DecodeError, match="the bytes end"):
            heads.read_argument(plan, None, data[:size], 0, size, 0x00)


def test_an_argument_of_another_kind_is_refused_in_words(plan: Any) -> None:
    with pytest.raises(DecodeError, match="expected an unsigned number, found text at byte 0"):
        heads.read_argument(plan, None, b"\x61a", 0, 2, 0x00)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (0x00, "an unsigned number"),
        (0x20, "a negative number"),
        (0x40, "bytes"),
        (0x60, "text"),
        (0x80, "an array"),
        (0xA0, "a map"),
        (0xC0, "a tag"),
        (0xE0, "a simple value"),
        (0xF4, "a bool"),
        (0xF5, "a bool"),
        (0xF6, "null"),
        (0xF7, "a simple value"),
        (0xF9, "a float"),
        (0xFA, "a float"),
        (0xFB, "a float"),
        (0x1C, "a reserved head (0x1c)"),
        (0x9F, "an indefinite length"),
        (0xFF, "an indefinite length"),
    ],
)
def test_an_item_is_described_by_its_first_byte(first: int, words: str) -> None:
    assert heads.describe(first) == words


def test_a_tag_takes_one_byte_or_more(plan: Any) -> None:
    assert heads.read_tag(plan, b"\x17", 0, 1) == (23, 1)
    assert heads.read_tag(plan, b"\x18\x1f", 0, 2) == (31, 2)
    assert heads.read_tag(plan, b"\x19\x01\x00", 0, 3) == (256, 3)
    with pytest.raises(DecodeError, match="a tag of 64 bits"):
        heads.read_tag(plan, b"\x1b" + b"\xff" * 8, 0, 9)
    with pytest.raises(DecodeError, match="the bytes end before the value"):
        heads.read_tag(plan, b"", 0, 0)


def test_a_count_is_held_against_the_bytes_that_follow(plan: Any) -> None:
    assert heads.read_count(plan, None, b"\x82\x00\x00", 0, 3, 0x80, 2) == (2, 1)
    with pytest.raises(DecodeError, match="before the counted entries"):
        heads.read_count(plan, None, b"\x83\x00\x00", 0, 3, 0x80, 9)
    with pytest.raises(DecodeError, match="before the counted entries"):
        heads.read_count(plan, None, b"\x9b" + b"\xff" * 8, 0, 9, 0x80, 9)


def test_a_count_is_held_against_its_limit(plan: Any) -> None:
    with pytest.raises(DecodeError, match="2 entries, the limit is 1"):
        heads.read_count(plan, None, b"\x82\x00\x00", 0, 3, 0x80, 1)


def test_a_string_has_to_fit(plan: Any) -> None:
    field = plan.fields[0]
    assert heads.read_span(plan, field, b"\x62ab", 0, 3, 0x60) == (3, 1)
    with pytest.raises(DecodeError, match=r"Single\.id: the bytes end inside a string"):
        heads.read_span(plan, field, b"\x62a", 0, 2, 0x60)
    with pytest.raises(DecodeError, match="the bytes end inside a string"):
        heads.read_span(plan, field, b"\x7b" + b"\xff" * 8, 0, 9, 0x60)


SKIPPED: list[Any] = [
    0,
    -1,
    2**64 - 1,
    -(2**64),
    1.5,
    float("nan"),
    True,
    None,
    cbor2.undefined,
    cbor2.CBORSimpleValue(99),
    cbor2.CBORTag(1234, ["x", {}]),
    [],
    {},
    *(b"x" * size for size in (0, 23, 24, 255, 256, 65536)),
    *("ü" * size for size in (0, 11, 12, 127, 128, 32768)),
    *([0] * count for count in (23, 24, 255, 256, 65536)),
    *({n: [] for n in range(count)} for count in (23, 24, 256)),
    [[[1, {"a": [b"", {}]}], "text"], {1: {2: {3: [4]}}}],
]


@pytest.mark.parametrize("value", SKIPPED, ids=lambda value: repr(value)[:20])
def test_any_value_is_skipped_whatever_its_size(plan: Any, value: Any) -> None:
    data = cbor2.dumps(value)
    around = b"\xff" + data + b"\xff"
    assert heads.skip(plan, around, 1, len(around)) == 1 + len(data)


@pytest.mark.parametrize("value", SKIPPED[:-1], ids=lambda value: repr(value)[:20])
def test_a_value_that_is_cut_off_is_not_skipped(plan: Any, value: Any) -> None:
    data = cbor2.dumps(value)
    for size in {*range(min(len(data), 12)), len(data) - 1}:
        with pytest.raises(DecodeError, match="the bytes end"):
            heads.skip(plan, data[:size], 0, size)


@pytest.mark.parametrize("data", [b"\x9f\xff", b"\xbf\xff", b"\x5f\xff", b"\x7f\xff", b"\xff"])
def test_indefinite_lengths_are_not_skipped(plan: Any, data: bytes) -> None:
    with pytest.raises(DecodeError, match="an indefinite length is not allowed"):
        heads.skip(plan, data, 0, len(data))


@pytest.mark.parametrize("nest", [b"\x81", b"\xa1\x00", b"\xc1"])
def test_nesting_is_skipped_to_its_limit_and_no_deeper(plan: Any, nest: bytes) -> None:
    deepest = nest * SKIP_DEPTH_MAX + b"\x00"
    assert heads.skip(plan, deepest, 0, len(deepest)) == len(deepest)
    deeper = nest * (SKIP_DEPTH_MAX + 1) + b"\x00"
    with pytest.raises(DecodeError, match=f"nested deeper than {SKIP_DEPTH_MAX} levels"):
        heads.skip(plan, deeper, 0, len(deeper))


def test_a_claim_of_many_entries_is_refused_at_once(plan: Any) -> None:
    for data in (b"\x9a\xff\xff\xff\xff", b"\xbb\x7f" + b"\xff" * 7, b"\xba\xff\xff\xff\xff"):
        with pytest.raises(DecodeError, match="before the counted entries"):
            heads.skip(plan, data, 0, len(data))


def test_a_key_ends_where_its_array_does(plan: Any) -> None:
    key = cbor2.dumps([1, "a", [b"x"], {1: -5}, 1.5, True])
    data = key + b"\x00"
    assert heads.skip_key(plan, plan.fields[0], data, 0, len(data)) == len(key)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "expected the key of an object"),
        ("01", "expected the key of an object"),
        ("a0", "expected the key of an object"),
        ("81", "the bytes end before the counted entries"),
        ("81f6", "a key does not hold null"),
        ("8181f6", "a key does not hold null"),
        ("81c100", "a key does not hold a tag"),
        ("811801", "the key is not in its shortest form"),
        ("81190001", "the key is not in its shortest form"),
        ("81780161", "the key is not in its shortest form"),
        ("980101", "the key is not in its shortest form"),
        ("9f01ff", "an indefinite length is not allowed"),
    ],
)
def test_a_key_in_any_other_form_is_refused(plan: Any, key: str, why: str) -> None:
    data = bytes.fromhex(key)
    with pytest.raises(DecodeError) as caught:
        heads.skip_key(plan, plan.fields[0], data, 0, len(data))
    assert caught.value.detail == why
