"""BSON as Goby programs write it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.codec import bson
from skerry.codec.bson import decode_bson, encode_bson
from skerry.errors import DecodeError, EncodeError
from skerry.limits import JSON_DEPTH_MAX

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.binary(max_size=8)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
)
documents = st.dictionaries(texts, values, max_size=5)


@given(documents)
def test_what_is_written_is_read(document: dict[str, Any]) -> None:
    found = decode_bson(encode_bson(document))
    assert found == document
    assert list(found) == list(document)
    assert repr(found) == repr(document)  # 1, 1.0 and True are not the same


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    for data in (noise, (len(noise) + 4).to_bytes(4, "little") + noise):
        try:
            found = decode_bson(data)
        except DecodeError:
            continue
        assert isinstance(found, dict)


@given(documents, st.randoms(use_true_random=False))
def test_damaged_documents_are_read_or_refused(document: dict[str, Any], rng: Any) -> None:
    data = bytearray(encode_bson(document))
    data[rng.randrange(len(data))] = rng.randrange(256)
    try:
        decode_bson(bytes(data))
    except DecodeError:
        return


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "0500000000"),
        ({"k": 5}, "0c000000106b000500000000"),
        ({"k": 2**31}, "10000000126b00000000800000000000"),
        ({"k": 2**63}, "10000000116b00000000000000008000"),
        ({"k": True}, "09000000086b000100"),
        ({"k": None}, "080000000a6b0000"),
        ({"k": "a"}, "0e000000026b0002000000610000"),
        ({"k": [1]}, "14000000046b000c0000001030000100000000" + "00"),
        ({"k": b"\1"}, "0e000000056b0001000000000100"),
        ({"k": 0.5}, "10000000016b00000000000000e03f00"),
    ],
)
def test_documents_have_these_bytes(value: dict[str, Any], text: str) -> None:
    assert encode_bson(value).hex() == text
    assert decode_bson(bytes.fromhex(text)) == value


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "end in a document"),
        ("0400000000", "cannot have 4 bytes"),
        ("ff00000000", "cannot have 255 bytes"),
        ("0500000001", "cannot have 5 bytes"),
        ("050000000000", "1 bytes follow"),
        ("09000000086b010100", "has no end"),
        ("08000000076b0000", "type 0x07"),
        ("08000000106b0000", "ends after"),
        ("0e000000026b0002000000616200", "does not end with NUL"),
        ("0e000000026b00ff000000610000", "ends after"),
        ("0e000000056b00ff000000000100", "ends after"),
        ("0e000000026b0002000000ff0000", "not UTF-8"),
        ("0d000000036b00050000000000", ""),
        ("0d000000036b00060000000000", "has no end"),
    ],
)
def test_faulty_documents_are_refused(text: str, fault: str) -> None:
    data = bytes.fromhex(text)
    if not fault:
        assert decode_bson(data) == {"k": {}}
        return
    with pytest.raises(DecodeError, match=fault):
        decode_bson(data)


def test_depth_and_count_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    value: Any = {}
    for _ in range(JSON_DEPTH_MAX - 1):
        value = {"a": value}
    assert decode_bson(encode_bson(value)) == value
    with pytest.raises(EncodeError, match="nested"):
        encode_bson({"a": value})
    inner = encode_bson(value)
    size = (len(inner) + 8).to_bytes(4, "little")
    with pytest.raises(DecodeError, match="nested"):
        decode_bson(size + b"\x03a\0" + inner + b"\0")
    monkeypatch.setattr(bson, "JSON_VALUE_COUNT_MAX", 3)
    assert decode_bson(encode_bson({"a": [1, 2]})) == {"a": [1, 2]}
    with pytest.raises(DecodeError, match="more than 3 values"):
        decode_bson(encode_bson({"a": [1, 2, 3]}))


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"a": 2**64}, "64 bits"),
        ({"a": -(2**63) - 1}, "64 bits"),
        ({"a\0": 1}, "NUL"),
        ({"a": "\ud800"}, "surrogates"),
        ({1: 1}, "name of an element"),
        ({"a": {1, 2}}, "not a JSON value"),
    ],
)
def test_what_bson_does_not_have_is_refused(value: Any, fault: str) -> None:
    with pytest.raises(EncodeError, match=fault):
        encode_bson(value)
