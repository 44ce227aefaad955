"""The DOTS wire as it was recorded: every frame is read, understood and written again as it was."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from skerry import cbor
from skerry.codec.codec import Codec
from skerry.codec.frame import FrameCutter, OldFrameCutter, frame, old_frame
from skerry.codec.subjects import default_subject
from skerry.codec.values import PropertySet
from skerry.errors import DecodeError
from skerry.objects.classes import class_of
from skerry.objects.descriptors import describe, from_description
from skerry.objects.enums import EnumBase
from skerry.objects.internal import internal_class
from skerry.objects.json import from_json_values, to_json_values
from skerry.runtime.type_files import load_types
from skerry.schema.fingerprint import fingerprint
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType, dependencies
from tests.old_frames import feed_pairs
from tests.plan_walk import PlanWalk

FOLDER = Path(__file__).resolve().parent / "dots"

ODD_FRAMES = {
    ("error-integer-for-float-property", 7): "refused: an integer for a float",
    ("error-publish-of-unknown-type", 6): "no client described its type",
    ("merge-and-remove", 15): "a float32 for a float64",
    ("merge-and-remove", 16): "another order, and a tag the type does not have",
}
"""Frames that do not come back byte by byte, and why; each has a test of its own."""

DESCRIPTORS = ("StructDescriptorData", "EnumDescriptorData")

MakeCodec = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One frame of a session, with the types that were known when it was sent."""

    session: str
    framing: str
    number: int
    stream: tuple[int, str]
    data: bytes
    prefix: bytes
    header: bytes
    payload: bytes
    readable: dict[str, Any]
    types: dict[str, NamedType]

    @property
    def name(self) -> str:
        return f"{self.session}-{self.number}"

    @property
    def type_name(self) -> str:
        return str(self.readable["type"])

    @property
    def is_odd(self) -> bool:
        return (self.session, self.number) in ODD_FRAMES


def read_sessions() -> Iterator[Recorded]:
    for path in sorted(FOLDER.glob("*.json")):
        session = json.loads(path.read_text(encoding="utf-8"))
        known: dict[str, NamedType] = dict(internal_types())
        for entry in session.get("frames", ()):
            if "hex" not in entry:
                assert entry["event"].startswith("stream closed")
                continue
            recorded = Recorded(
                session=session["name"],
                framing=session["framing"],
                number=entry["n"],
                stream=(entry["connection"], entry["dir"]),
                data=bytes.fromhex(entry["hex"]),
                prefix=bytes.fromhex(entry["size_prefix_hex"]),
                header=bytes.fromhex(entry["header_hex"]),
                payload=bytes.fromhex(entry["payload_hex"]),
                readable=entry,
                types=dict(known),
            )
            yield recorded
            if recorded.type_name in DESCRIPTORS:
                described = internal_class(recorded.type_name).decode(recorded.payload)
                # What was described once keeps its first definition, as in the C++ host.
                known.setdefault(described.name, from_description(described, known))


RECORDED = list(read_sessions())
GOLDEN = load_types(FOLDER / "golden.dots")


@pytest.fixture(params=[Codec, PlanWalk])
def make_codec(request: pytest.FixtureRequest) -> MakeCodec:
    """The codec in use, and the one that is compared with it."""
    kind = request.param
    return lambda cls: kind(cls._codec.plan)


def frames_of(*, framing: str) -> list[Recorded]:
    return [recorded for recorded in RECORDED if recorded.framing == framing]


def regular() -> list[Any]:
    return [pytest.param(r, id=r.name) for r in RECORDED if not r.is_odd]


def find(session: str, number: int) -> Recorded:
    return next(r for r in RECORDED if (r.session, r.number) == (session, number))


# -- the recordings themselves


def test_the_recordings_have_all_that_these_tests_count_on() -> None:
    assert len(RECORDED) == 479
    assert {r.framing for r in RECORDED} == {"v1", "v2"}
    assert all(find(session, number) for session, number in ODD_FRAMES)
    assert {r.type_name for r in RECORDED} >= {"GoldenAll", "GoldenSingleton", "DotsClient"}


# -- frames


def streams(*, framing: str) -> list[list[Recorded]]:
    found: dict[tuple[str, tuple[int, str]], list[Recorded]] = {}
    for recorded in frames_of(framing=framing):
        found.setdefault((recorded.session, recorded.stream), []).append(recorded)
    return list(found.values())


def cuts(data: bytes, way: str) -> Iterator[bytes]:
    if way == "whole":
        yield data
        return
    rng = Random(len(data))
    pos = 0
    while pos < len(data):
        size = 1 if way == "byte by byte" else rng.randrange(1, 400)
        yield data[pos : pos + size]
        pos += size


def read_payload_size(header: bytes) -> int:
    return int(internal_class("DotsTransportHeader").decode(header).payloadSize)


@pytest.mark.parametrize("way", ["whole", "byte by byte", "random pieces"])
def test_streams_of_version_2_are_cut_into_their_frames(way: str) -> None:
    for stream in streams(framing="v2"):
        cutter = FrameCutter()
        data = b"".join(recorded.data for recorded in stream)
        bodies = [body for piece in cuts(data, way) for body in cutter.feed(piece)]
        assert bodies == [recorded.header + recorded.payload for recorded in stream]
        assert cutter.held_bytes == 0


@pytest.mark.parametrize("way", ["whole", "byte by byte", "random pieces"])
def test_streams_of_version_1_are_cut_into_their_frames(way: str) -> None:
    for stream in streams(framing="v1"):
        cutter = OldFrameCutter(read_payload_size)
        data = b"".join(recorded.data for recorded in stream)
        found = [pair for piece in cuts(data, way) for pair in feed_pairs(cutter, piece)]
        assert found == [(recorded.header, recorded.payload) for recorded in stream]
        assert cutter.held_bytes == 0


def test_every_frame_is_put_together_again() -> None:
    for recorded in frames_of(framing="v2"):
        assert frame(recorded.header + recorded.payload) == recorded.data
    for recorded in frames_of(framing="v1"):
        assert old_frame(recorded.header, recorded.payload) == recorded.data


# -- headers


@pytest.mark.parametrize("recorded", regular())
def test_header_is_read_and_written_again(recorded: Recorded, make_codec: MakeCodec) -> None:
    is_old = recorded.framing == "v1"
    name = "DotsTransportHeader" if is_old else "DotsHeader"
    codec = make_codec(internal_class(name))
    header = codec.decode(recorded.header)
    assert codec.encode(header) == recorded.header
    assert codec.split(recorded.header).is_canonical
    if is_old:
        around = readable_fields(header)
        assert around.pop("dotsHeader") == recorded.readable["header"]
        assert around == recorded.readable["transport_header"]
        assert header.payloadSize == len(recorded.payload)
    else:
        assert readable_fields(header) == recorded.readable["header"]


def test_a_header_and_its_object_are_read_out_of_one_body(make_codec: MakeCodec) -> None:
    codec = make_codec(internal_class("DotsHeader"))
    for recorded in frames_of(framing="v2"):
        header, stop = codec.decode_from(recorded.header + recorded.payload, 0)
        assert stop == len(recorded.header)
        assert header.typeName == recorded.type_name


# -- payloads


@pytest.mark.parametrize("recorded", regular())
def test_payload_is_read_and_written_again(recorded: Recorded, make_codec: MakeCodec) -> None:
    cls = class_of(recorded.types[recorded.type_name])
    codec = make_codec(cls)
    obj = codec.decode(recorded.payload)
    assert type(obj) is cls
    assert codec.encode(obj) == recorded.payload
    assert readable_fields(obj) == recorded.readable["payload"]


@pytest.mark.parametrize("recorded", regular())
def test_payload_needs_no_decoding_on_its_way(recorded: Recorded, make_codec: MakeCodec) -> None:
    cls = class_of(recorded.types[recorded.type_name])
    codec = make_codec(cls)
    parts = codec.split(recorded.payload)
    obj = cls.decode(recorded.payload)
    assert parts.is_canonical
    assert parts.present == obj.attributes
    assert codec.normalize(recorded.payload) is recorded.payload
    assert codec.key(recorded.payload) == codec.encode_key(obj)


def test_attributes_are_what_the_header_says(make_codec: MakeCodec) -> None:
    """In the header and not in the payload means cleared; the other way round never happens."""
    cleared = 0
    for recorded in RECORDED:
        if recorded.is_odd or recorded.framing == "v1":
            continue
        named = internal_class("DotsHeader").decode(recorded.header).attributes_
        parts = make_codec(class_of(recorded.types[recorded.type_name])).split(recorded.payload)
        assert parts.present & ~named == 0, recorded.name
        cleared += parts.present != named
    assert cleared > 0


# -- descriptions of types


def described() -> list[Any]:
    return [pytest.param(r, id=r.name) for r in RECORDED if r.type_name in DESCRIPTORS]


@pytest.mark.parametrize("recorded", described())
def test_a_described_type_is_described_in_the_same_bytes(recorded: Recorded) -> None:
    obj = internal_class(recorded.type_name).decode(recorded.payload)
    type_ = from_description(obj, recorded.types)
    assert describe(type_).encode() == recorded.payload
    assert describe(type_) == obj


@pytest.mark.parametrize("recorded", described())
def test_types_of_the_file_are_the_described_ones(recorded: Recorded) -> None:
    obj = internal_class(recorded.type_name).decode(recorded.payload)
    if not obj.name.startswith("Golden"):
        assert obj.name in ("RawEvent", "RawThing", "RoundtripData"), "a type of one guest alone"
        return
    from_file = GOLDEN[obj.name].descriptor
    assert describe(from_file).encode() == recorded.payload
    assert fingerprint(from_file) == fingerprint(from_description(obj, recorded.types))


def test_every_type_of_the_file_was_recorded_but_for_those_of_benchmarks() -> None:
    names = {
        internal_class(r.type_name).decode(r.payload).name
        for r in RECORDED
        if r.type_name in DESCRIPTORS
    }
    assert set(GOLDEN) - names == {"BenchSmall", "BenchEvent"}


def test_what_a_type_needs_was_described_before_it() -> None:
    names = [t.name for t in dependencies(GOLDEN.GoldenAll.descriptor)]
    assert names == ["GoldenColor", "GoldenSub"]
    sent = [
        internal_class(r.type_name).decode(r.payload).name
        for r in RECORDED
        if r.session == "publish-all-types" and r.type_name in DESCRIPTORS
    ]
    assert sent[:3] == [*names, "GoldenAll"]


def test_objects_of_a_described_type_equal_those_of_the_file() -> None:
    recorded = find("publish-all-types", 23)
    dynamic = class_of(recorded.types["GoldenAll"]).decode(recorded.payload)
    loaded = GOLDEN.GoldenAll.decode(recorded.payload)
    assert dynamic == loaded
    assert loaded == dynamic
    assert hash(dynamic) == hash(loaded)
    assert repr(dynamic) == repr(loaded)
    assert dynamic.to_json() == loaded.to_json()
    assert dynamic.color == GOLDEN.GoldenColor.green


# -- values


VALUES = json.loads((FOLDER / "values.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("value", [pytest.param(v, id=v["name"]) for v in VALUES["values"]])
def test_value_alone(value: dict[str, Any], make_codec: MakeCodec) -> None:
    cls = GOLDEN.GoldenAll
    codec = make_codec(cls)
    field = cls.descriptor.field(value["name"])
    assert (field.tag, field.type.name) == (value["tag"], value["type"])
    head = cbor.dumps(field.tag)
    data = b"\xa1" + head + bytes.fromhex(value["value_hex"])
    obj = codec.decode(data)
    assert codec.encode(obj) == data
    assert codec.split(data).value(field.tag) == bytes.fromhex(value["value_hex"])
    assert readable_fields(obj) == {value["name"]: expected_value(value)}


def test_values_together_are_the_object_they_were_cut_from(make_codec: MakeCodec) -> None:
    data = bytes.fromhex(VALUES["map_head_hex"])
    for value in VALUES["values"]:
        data += cbor.dumps(value["tag"]) + bytes.fromhex(value["value_hex"])
    assert data == find("publish-all-types", 23).payload
    codec = make_codec(GOLDEN.GoldenAll)
    assert codec.encode(codec.decode(data)) == data


def expected_value(value: dict[str, Any]) -> Any:
    """That file leaves tags in vectors of structs and enums unnamed."""
    if value["name"] == "vsub":
        names = {"1": "flag", "2": "label"}
        return [{names[tag]: item for tag, item in entry.items()} for entry in value["value"]]
    if value["name"] == "vcolor":
        return [readable(GOLDEN.GoldenColor.of_tag(tag)) for tag in value["value"]]
    return value["value"]


# -- the odd frames


def test_an_integer_for_a_float_is_refused_by_name(make_codec: MakeCodec) -> None:
    recorded = find("error-integer-for-float-property", 7)
    codec = make_codec(class_of(recorded.types["RawThing"]))
    for read in (codec.decode, codec.split, codec.normalize, codec.key):
        with pytest.raises(DecodeError) as caught:
            read(recorded.payload)
        assert (caught.value.type_name, caught.value.field) == ("RawThing", "value")
        assert caught.value.offset == 4
        assert caught.value.detail == "expected float64, found an unsigned number"


def test_an_object_nobody_described_is_read_as_bare_structure() -> None:
    recorded = find("error-publish-of-unknown-type", 6)
    assert recorded.type_name not in recorded.types
    plain = cbor.loads(recorded.payload)
    assert {str(tag): value for tag, value in plain.items()} == recorded.readable["payload"]
    assert cbor.dumps(plain) == recorded.payload


@pytest.mark.parametrize(("sent", "forwarded"), [(15, 20), (16, 21)])
def test_a_form_of_its_own_becomes_what_the_host_forwarded(
    sent: int, forwarded: int, make_codec: MakeCodec
) -> None:
    ours, theirs = find("merge-and-remove", sent), find("merge-and-remove", forwarded)
    codec = make_codec(class_of(ours.types["RawThing"]))
    assert ours.payload != theirs.payload
    assert not codec.split(ours.payload).is_canonical
    assert codec.normalize(ours.payload) == theirs.payload
    assert codec.encode(codec.decode(ours.payload)) == theirs.payload
    assert codec.key(ours.payload) == codec.key(theirs.payload)


def test_the_header_of_an_odd_frame_is_as_regular_as_any() -> None:
    for session, number in ODD_FRAMES:
        recorded = find(session, number)
        header = internal_class("DotsHeader").decode(recorded.header)
        assert header.encode() == recorded.header
        assert readable_fields(header) == recorded.readable["header"]


# -- merge


def replay(session: str, type_name: str, make_codec: MakeCodec) -> Iterator[tuple[Recorded, Any]]:
    """What a cache has of a type at each of its frames from the host, live and replayed alike."""
    cache: dict[bytes, bytes] = {}
    for recorded in RECORDED:
        if (recorded.session, recorded.type_name) != (session, type_name):
            continue
        codec = make_codec(class_of(recorded.types[type_name]))
        header = internal_class("DotsHeader").decode(recorded.header)
        key = codec.key(recorded.payload)
        if recorded.stream[1] != "server->client":
            continue
        if header.fromCache is not None:
            yield recorded, cache.get(key)
        if header.removeObj:
            cache.pop(key, None)
        elif key in cache:
            cache[key] = codec.merge(cache[key], recorded.payload, header.attributes_)
        else:
            cache[key] = codec.normalize(recorded.payload)


def test_merged_objects_are_those_the_host_replays_from_its_cache(make_codec: MakeCodec) -> None:
    compared = 0
    for recorded, merged in replay("merge-and-remove", "RawThing", make_codec):
        if merged is not None:
            assert merged == recorded.payload, recorded.name
            compared += 1
    assert compared == 3, "the second replay, of which two objects were in the first"


def test_merging_objects_gives_what_merging_their_bytes_gives(make_codec: MakeCodec) -> None:
    import skerry

    stored: Any = None
    data = b""
    for number in (12, 18, 19, 20, 21):
        recorded = find("merge-and-remove", number)
        cls = class_of(recorded.types["RawThing"])
        codec = make_codec(cls)
        attributes = internal_class("DotsHeader").decode(recorded.header).attributes_
        update = cls.decode(recorded.payload)
        stored = update if stored is None else skerry.merge(stored, update, attributes)
        data = codec.merge(data, recorded.payload, attributes) if data else recorded.payload
        assert stored.encode() == data
    assert data == find("merge-and-remove", 24).payload


def test_subjects_of_recorded_objects(make_codec: MakeCodec) -> None:
    expected = {
        ("publish-all-types", 23): "/GoldenAll/1/first",
        ("publish-all-types", 30): "/GoldenSingleton",
        ("merge-and-remove", 11): "/RawThing/20",
        ("publish-all-types", 14): "/DotsClient/2",
    }
    for (session, number), subject in expected.items():
        recorded = find(session, number)
        codec = make_codec(class_of(recorded.types[recorded.type_name]))
        assert default_subject(codec.plan, codec.split(recorded.payload)) == subject


# -- JSON


def messages() -> list[dict[str, Any]]:
    session = json.loads((FOLDER / "websocket-json.json").read_text(encoding="utf-8"))
    return [message for message in session["messages"] if "text" in message]


def test_texts_of_the_websocket_are_objects_of_their_types() -> None:
    known: dict[str, NamedType] = dict(internal_types())
    read = 0
    for message in messages():
        if "inf" in message["text"]:
            continue
        plain_header, plain = json.loads(message["text"])
        header = from_json_values(internal_class("DotsHeader"), plain_header)
        cls = class_of(known[header.typeName])
        obj = from_json_values(cls, plain)
        assert without_nulls(plain) == with_tags(obj)
        assert cls.decode(obj.encode()) == obj
        assert from_json_values(cls, to_json_values(obj)) == obj
        assert obj.attributes & ~header.attributes_ == 0
        if header.typeName in DESCRIPTORS:
            known[obj.name] = from_description(obj, known)
        read += 1
    assert read == len(messages()) - 1


def test_the_infinity_of_the_host_is_not_json() -> None:
    (message,) = [message for message in messages() if "inf" in message["text"]]
    payload = message["text"].rpartition(", {")[2].removesuffix(" ]")
    with pytest.raises(DecodeError, match="GoldenAll: not JSON"):
        GOLDEN.GoldenAll.from_json("{" + payload)
    ours = GOLDEN.GoldenAll.from_json("{" + payload.replace("inf", '"inf"'))
    assert ours == GOLDEN.GoldenAll(id=2, name="second", f32=0.0, f64=math.inf)


def without_nulls(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if value is not None}


def with_tags(obj: Any) -> Any:
    """An object as that session writes it: elements by tag."""
    values = zip(obj.descriptor.fields, type(obj)._values(obj), strict=True)
    return {field.name: plain_with_tags(value) for field, value in values if value is not None}


def plain_with_tags(value: Any) -> Any:
    if isinstance(value, EnumBase):
        return value.tag
    if isinstance(value, list):
        return [plain_with_tags(item) for item in value]
    if hasattr(value, "descriptor"):
        return with_tags(value)
    return value


# -- the readable form of the vectors


def readable_fields(obj: Any) -> dict[str, Any]:
    values = zip(obj.descriptor.fields, type(obj)._values(obj), strict=True)
    return {field.name: readable(value) for field, value in values if value is not None}


def readable(value: Any) -> Any:
    if isinstance(value, EnumBase):
        return f"{value.label} (tag {value.tag})"
    if isinstance(value, PropertySet):
        return {"mask": int(value), "tags": list(value)}
    if isinstance(value, UUID):
        return {"bytes_hex": value.bytes.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, list):
        return [readable(item) for item in value]
    if hasattr(value, "descriptor"):
        return readable_fields(value)
    return value
