"""Large JSON messages in steps: values are encoded as they are parsed, and checked as at once."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.errors import DecodeError
from skerry.limits import JSON_PIECE_BYTES, VECTOR_COUNT_MAX
from skerry.protocol.access.json.wire import JsonWire

TYPES = skerry.define_types(
    """
    enum Colour { 1: red }
    struct Part { 1: vector<uint8> few; 2: string name; }
    struct All {
        1: [key] uint32 id; 2: string text; 3: bytes raw; 4: Colour colour; 5: uuid uuid;
        6: Part part; 7: vector<Part> parts; 8: vector<float64> floats; 9: vector<string> words;
        10: any any; 11: bool flag; 12: vector<bytes> raws;
    }
    """
)
ALL: Any = TYPES.All
HEADER = '{"typeName": "All", "attributes": 8190}'


def read(text: str, piece_bytes: int) -> bytes:
    reading = JsonWire({"All": ALL.descriptor}).begin_reading(
        text.encode(), piece_bytes=piece_bytes
    )
    while reading.message is None:
        reading.step(1)
    assert reading.message[0].type_name == "All"
    return reading.message[1]


@pytest.mark.parametrize("piece_bytes", [16, 30, 100, JSON_PIECE_BYTES])
@pytest.mark.parametrize(
    "fields",
    [
        '"id": 1, "text": "x,]}", "colour": 1, "flag": true',
        '"flag": null, "unknown": {"a": [1, {"b": 2}], "c": [[[[1]]]]}, "id": 1',
        '"parts": [{"few": [1, 2], "name": "a"}, {"few": []}, {}], "id": 3',
        '"part": {"name": "in", "more": [[[1]]], "few": [1]}, "id": 3, "floats": [1, inf, null]',
        '"any": {"more": [[1]], "typeName": "Part", "payload": "oAAA"}, "id": 4, "words": ["b"]',
        '"raws": ["AAEC", ""], "raw": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "id": 5',
        '"uuid": "12345678-1234-5678-1234-567812345678", "id": 6',
    ],
)
def test_it_is_encoded_as_at_once(fields: str, piece_bytes: int) -> None:
    text = f"[{HEADER}, {{{fields}}}]"
    ((_, payload),) = JsonWire({"All": ALL.descriptor}).feed(text.encode())
    assert read(text, piece_bytes) == payload
    assert ALL.decode(payload).id is not None


@pytest.mark.parametrize("piece_bytes", [16, 30, 100, JSON_PIECE_BYTES])
@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "1",
        "[]",
        f"[{HEADER}]",
        f"[{HEADER}, {{}}, 1]",
        f"[{HEADER}, {{}}, {{}}]",
        f"[{HEADER}, [1, 2, 3, 4, 5, 6, 7, 8, 9]]",
        f"[{HEADER}, 1]",
        "[[], {}]",
        '[{"attributes": 1}, {}]',
        '[{"typeName": "Nobody", "attributes": 1}, {}]',
        f'[{HEADER}, {{"text": [[[[1]]]]}}]',
        f'[{HEADER}, {{"part": [[[[1]]]]}}]',
        f'[{HEADER}, {{"parts": {{"a": [[[1]]]}}}}]',
        f'[{HEADER}, {{"parts": [[[[[1]]]]]}}]',
        f'[{HEADER}, {{"floats": [[[[[1]]]]]}}]',
        f'[{HEADER}, {{"any": {{"typeName": [[[1]]], "payload": "AA"}}}}]',
        f'[{HEADER}, {{"colour": {{"a": [[[1]]]}}}}]',
        f'[{HEADER}, {{"id": -1}}]',
        f'[{HEADER}, {{"words": [1]}}]',
    ],
)
def test_faults_are_found_as_in_one_call(text: str, piece_bytes: int) -> None:
    with pytest.raises(DecodeError) as at_once:
        JsonWire({"All": ALL.descriptor}).feed(text.encode())
    with pytest.raises(DecodeError) as in_steps:
        read(text, piece_bytes)
    assert in_steps.value.type_name == at_once.value.type_name
    assert in_steps.value.field == at_once.value.field


@pytest.mark.slow
def test_a_vector_has_a_bound() -> None:
    most = f'[{HEADER}, {{"floats": [{"1," * (VECTOR_COUNT_MAX - 1)}1]}}]'
    assert len(read(most, JSON_PIECE_BYTES)) == 9 * VECTOR_COUNT_MAX + 7
    with pytest.raises(DecodeError, match=f"elements, the limit is {VECTOR_COUNT_MAX}"):
        read(most.replace("[1,", "[1,1,"), JSON_PIECE_BYTES)
