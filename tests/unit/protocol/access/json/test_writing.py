"""JSON for clients of a node: any object becomes text, in steps, in the order of the queue."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

import skerry
from skerry.codec.values import AnyObject
from skerry.limits import JSON_PIECE_BYTES, JSON_STEP_BYTES
from skerry.objects.classes import class_of
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.access.json import writing as json_writing
from skerry.protocol.access.json.wire import JsonWire, cut_messages
from skerry.protocol.access.json.writing import JsonNodeWire
from skerry.schema.model import NamedType
from tests.unit.protocol.access.json.test_wire import BOAT, KNOWN, header_of, some_objects

TYPES = skerry.define_types(
    """
    enum Colour { 1: red }
    struct Part { 1: vector<uint8> few; 2: string name; }
    struct All {
        1: [key] uint32 id; 2: string text; 3: bytes raw; 4: Colour colour; 5: uuid uuid;
        6: Part part; 7: vector<Part> parts; 8: vector<float64> floats; 9: vector<string> words;
        10: any any; 11: bool flag; 12: vector<bytes> raws; 13: property_set set;
    }
    """
)
ALL: Any = TYPES.All
OWN: dict[str, NamedType] = {"All": ALL.descriptor}


def written(wire: JsonNodeWire, *frames: bytes, look_count: int = 100) -> tuple[list[bytes], int]:
    """The messages of queued frames, and the most looks that a step took."""
    writing, texts, most = wire.writing(b"".join(frames)), [], 0
    while not writing.is_done:
        text, looks = writing.step(look_count)
        texts += cut_messages(text)
        most = max(most, looks)
    return texts, most


@pytest.mark.slow
@settings(max_examples=40)
@given(some_objects())
def test_any_object_is_written_in_steps_as_at_once(
    drawn: tuple[dict[str, NamedType], Any],
) -> None:
    known, obj = drawn
    payload, header = obj.encode(), header_of(obj.descriptor.name)
    (expected,) = cut_messages(JsonWire(known).frame(header, payload))
    wire = JsonNodeWire(known)
    assert written(wire, wire.frame(header, payload))[0] == [expected]
    with pytest.MonkeyPatch.context() as patch:
        # Each of them counts as a large one.
        patch.setattr(json_writing, "JSON_STEP_BYTES", 0)
        patch.setattr(json_writing, "JSON_PIECE_BYTES", 4)
        patch.setattr(json_writing, "_BASE64_BYTES", 3)
        patch.setattr(json_writing, "_RUN_COUNT", 2)
        (text,), _ = written(wire, wire.frame(header, payload), look_count=1)
    ((_, found),) = JsonWire(known).feed(text)
    cls = class_of(obj.descriptor)
    assert repr(cls.decode(found)) == repr(cls.decode(payload))


@pytest.mark.parametrize(
    "fields",
    [
        {"floats": [1.5, float("-inf"), -2.0] * 5000},
        {"words": ["word", "", "\n,\\"] * 5000},
        {"parts": [TYPES.Part(few=[1, 2], name="a"), TYPES.Part()] * 2000},
        {"text": "é😀\n" * 20_000},
        {"text": "x" * 100_000, "raw": bytes(range(256)) * 400},
        {"any": AnyObject("Part", b"x" * 50_000), "words": [], "parts": []},
        {"raws": [b"", b"x" * 10_000, b"yz" * 10_000], "flag": True, "colour": 1},
        {"part": TYPES.Part(few=list(range(256)) * 100, name="x" * 9000)},
    ],
)
@pytest.mark.parametrize("has_additions", [False, True])
def test_a_large_object_takes_many_steps(fields: dict[str, Any], has_additions: bool) -> None:
    if "colour" in fields:
        fields = {**fields, "colour": TYPES.Colour.red}
    obj = ALL(id=1, **fields)
    payload, header = obj.encode(), header_of("All", int(obj.attributes))
    assert len(payload) > JSON_STEP_BYTES
    wire, plain = JsonNodeWire(OWN), JsonWire(OWN)
    wire.has_additions = plain.has_additions = has_additions
    small = wire.frame(header, ALL(id=2).encode())
    texts, most = written(wire, small, wire.frame(header, payload), small)
    (expected,) = cut_messages(plain.frame(header, payload))
    assert texts[1] == expected
    assert [json.loads(text)[1] for text in (texts[0], texts[2])] == [{"id": 2}] * 2
    # A step ends after the piece that reaches the count.
    assert 100 <= most <= 100 + max(200, JSON_PIECE_BYTES // 8 + 15)


def test_bytes_that_are_not_text_are_escaped_in_steps_as_at_once() -> None:
    payload = ALL(id=1, text="x\udcff\udc80" * 5000).encode()
    wire = JsonNodeWire(OWN)
    texts, _ = written(wire, wire.frame(header_of("All"), payload))
    assert texts == cut_messages(JsonWire(OWN).frame(header_of("All"), payload))


def test_the_definition_is_that_of_the_time_when_it_was_queued() -> None:
    other = skerry.define_types("struct Boat { 1: [key] uint32 number; 2: string label; }").Boat
    known: dict[str, NamedType] = {"Boat": BOAT.descriptor}
    wire = JsonNodeWire(known)
    payload = BOAT(id=1, name="x").encode()
    frames = [wire.frame(header_of("Boat"), payload)]
    known["Boat"] = other.descriptor
    frames.append(wire.frame(header_of("Boat"), payload))
    texts, _ = written(wire, *frames)
    assert [json.loads(text)[1] for text in texts] == [
        {"id": 1, "name": "x"},
        {"number": 1, "label": "x"},
    ]


@pytest.mark.parametrize("size", [300, 20_000])
def test_a_client_with_our_additions_receives_a_refusal_for_an_object_that_cannot_be_sent(
    size: int,
) -> None:
    wire = JsonNodeWire(KNOWN, frame_bytes_max=size)
    wire.has_additions = True
    large = wire.frame(header_of("Boat"), BOAT(id=1, name="x" * size).encode())
    texts, _ = written(wire, large, wire.frame(header_of("Boat"), BOAT(id=2).encode()))
    header, notified = json.loads(texts[0])
    assert header["typeName"] == "SkerryRefusal"
    assert header["attributes"] == 6
    assert notified["what"] == "Boat"
    assert notified["reason"].endswith(f"bytes as JSON, the limit is {size}")
    assert json.loads(texts[1])[1] == {"id": 2}
    assert not wire.unsendable
    nobody = wire.frame(Header("Nobody"), b"\xa0")
    assert json.loads(written(wire, nobody)[0][0])[1]["what"] == "Nobody"


@pytest.mark.parametrize("size", [300, 20_000])
def test_a_foreign_client_is_closed_for_an_object_that_cannot_be_sent(size: int) -> None:
    wire = JsonNodeWire(KNOWN, frame_bytes_max=size)
    small = wire.frame(header_of("Boat"), BOAT(id=1).encode())
    large = wire.frame(header_of("Boat"), BOAT(id=1, name="x" * size).encode())
    texts, _ = written(wire, small, large, small)
    assert len(texts) == 1
    assert wire.unsendable.startswith("Boat: ")
    assert wire.unsendable.endswith(f"bytes as JSON, the limit is {size}")
    assert wire.frame(header_of("Nobody"), b"\xa0") == b""
    assert wire.unsendable.startswith("Boat")


def test_a_few_messages_are_written_at_once() -> None:
    wire = JsonNodeWire({})
    echo = internal_class("DotsEcho")(data="x" * 100_000)
    frames = [wire.frame(header_of("DotsEcho"), echo.encode())] * 2
    assert len(cut_messages(wire.text(b"".join(frames)))) == 2
