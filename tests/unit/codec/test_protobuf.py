from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.codec.protobuf import (
    BLOB,
    FIXED64,
    VARINT,
    blob_field,
    fixed_field,
    packed_field,
    read_fields,
    read_packed,
    varint_field,
)
from skerry.errors import DecodeError

SIGNED = st.integers(-(1 << 63), (1 << 63) - 1)
NUMBERS = st.integers(1, (1 << 29) - 1)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (varint_field(1, 1), "0801"),
        (varint_field(1, 150), "089601"),
        (varint_field(1, (1 << 64) - 1), "08ffffffffffffffffff01"),
        (varint_field(16, 1), "800101"),
        (varint_field(1, 0), ""),
        (fixed_field(2, -1), "11ffffffffffffffff"),
        (fixed_field(2, 0), ""),
        (blob_field(2, b"testing"), "120774657374696e67"),
        (blob_field(2, b""), ""),
        (blob_field(2, b"", is_repeated=True), "1200"),
        (packed_field(4, [3, -2]), "22100300000000000000feffffffffffffff"),
        (packed_field(4, []), ""),
    ],
)
def test_fields_are_those_of_protocol_buffers(made: bytes, expected: str) -> None:
    assert made.hex() == expected


@given(NUMBERS, st.integers(1, (1 << 64) - 1), SIGNED.filter(bool), st.binary(min_size=1))
def test_what_is_written_is_read(number: int, value: int, signed: int, data: bytes) -> None:
    written = varint_field(number, value) + fixed_field(number, signed) + blob_field(number, data)
    assert read_fields(written) == (
        [(number << 3 | VARINT, value), (number << 3 | FIXED64, signed)],
        [(number << 3 | BLOB, data)],
    )


@given(st.lists(SIGNED, min_size=1))
def test_packed_numbers_are_read(values: list[int]) -> None:
    _, [(_, data)] = read_fields(packed_field(1, values))
    assert read_packed(data) == tuple(values)


def test_a_field_of_32_bits_is_skipped() -> None:
    assert read_fields(bytes.fromhex("0d01000000") + varint_field(2, 5)) == ([(16, 5)], [])


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        ("08", "a number does not end"),
        ("08ffffffffffffffffffff01", "a number does not end"),
        ("1101", "a field exceeds the message"),
        ("0d0101", "a field exceeds the message"),
        ("120501", "a field exceeds the message"),
        ("0b", "wire type 3 is not supported"),
        ("0f", "wire type 7 is not supported"),
    ],
)
def test_malformed_messages_are_refused(data: str, detail: str) -> None:
    with pytest.raises(DecodeError, match=detail):
        read_fields(bytes.fromhex(data))


def test_packed_numbers_of_a_wrong_size_are_refused() -> None:
    with pytest.raises(DecodeError, match="9 bytes of numbers with 8 bytes each"):
        read_packed(bytes(9))


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_fields(data)
    except DecodeError as error:
        assert error.offset >= 0
