"""The two framings: recorded streams pass unchanged in any pieces, and faults end them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry import cbor
from skerry.errors import DecodeError, EncodeError
from skerry.limits import FRAME_BYTES_MAX
from skerry.protocol.access.header import Header, read_header, write_header
from skerry.protocol.access.wire import OldWire, Wire

FOLDER = Path(__file__).resolve().parents[3] / "golden" / "dots"
WIRES: dict[str, type[Wire]] = {"v1": OldWire, "v2": Wire}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One direction of a recorded connection."""

    name: str
    framing: str
    frames: list[bytes]
    payloads: list[bytes]
    type_names: list[str]


def read_streams() -> Iterator[Recorded]:
    for path in sorted(FOLDER.glob("*.json")):
        session = json.loads(path.read_text(encoding="utf-8"))
        found: dict[tuple[int, str], Recorded] = {}
        for entry in session.get("frames", ()):
            if "hex" not in entry:
                continue
            key = (entry["connection"], entry["dir"])
            name = f"{session['name']} {key[0]} {key[1]}"
            empty = Recorded(
                name=name, framing=session["framing"], frames=[], payloads=[], type_names=[]
            )
            stream = found.setdefault(key, empty)
            stream.frames.append(bytes.fromhex(entry["hex"]))
            stream.payloads.append(bytes.fromhex(entry["payload_hex"]))
            stream.type_names.append(entry["type"])
        yield from found.values()


STREAMS = list(read_streams())


def pieces(data: bytes, way: str) -> Iterator[bytes]:
    random = Random(len(data))
    while data:
        size = {"whole": len(data), "byte by byte": 1}.get(way) or random.randint(1, 200)
        yield data[:size]
        data = data[size:]


def frame(payload: bytes = b"\xa0", framing: str = "v2", **fields: Any) -> bytes:
    header = Header("T")
    for name, value in fields.items():
        setattr(header, name, value)
    return WIRES[framing]().frame(header, payload)


def around(outer: dict[int, Any], payload: bytes = b"\xa0") -> bytes:
    """A frame of version 1 with any header around."""
    data = cbor.dumps(outer)
    return len(data).to_bytes(2, "little") + data + payload


def refusal(wire: Wire, data: bytes) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        wire.feed(data)
    return caught.value


# -- recorded streams


def test_both_framings_were_recorded() -> None:
    assert {stream.framing for stream in STREAMS} == {"v1", "v2"}
    assert sum(len(stream.frames) for stream in STREAMS) == 479


@pytest.mark.parametrize("way", ["whole", "byte by byte", "random pieces"])
@pytest.mark.parametrize("stream", [pytest.param(s, id=s.name) for s in STREAMS])
def test_recorded_streams_are_read_and_written_again(stream: Recorded, way: str) -> None:
    wire = WIRES[stream.framing]()
    arrived = [pair for p in pieces(b"".join(stream.frames), way) for pair in wire.feed(p)]
    assert [header.type_name for header, _ in arrived] == stream.type_names
    assert [payload for _, payload in arrived] == stream.payloads
    assert [wire.frame(header, payload) for header, payload in arrived] == stream.frames


@pytest.mark.parametrize("framing", ["v1", "v2"])
@given(
    payloads=st.lists(st.binary(max_size=300), max_size=8),
    cuts=st.lists(st.integers(0, 3000), max_size=10),
)
def test_it_makes_no_difference_how_a_stream_is_cut(
    framing: str, payloads: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(frame(payload, framing) for payload in payloads)
    wire = WIRES[framing]()
    arrived: list[bytes] = []
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, stop in itertools.pairwise(bounds):
        arrived += [payload for _, payload in wire.feed(data[start:stop])]
    assert arrived == payloads


# -- writing


def test_version_1_names_the_group_and_only_the_system_has_a_name_space() -> None:
    for name, space in (
        ("RawThing", None),
        ("DotsMsgHello", "SYS"),
        ("DotsMember", "SYS"),
        ("StructDescriptorData", "SYS"),
        ("DotsClient", None),
        ("DotsDescriptorRequest", None),
    ):
        data = OldWire().frame(Header(name), b"\xa1\x01\x02")
        size = int.from_bytes(data[:2], "little")
        outer = cbor.loads(data[2 : 2 + size])
        wanted: dict[int, Any] = {} if space is None else {1: space}
        assert outer == wanted | {2: name, 3: {1: name}, 4: 3}
        assert list(outer) == sorted(outer)


def test_names_that_are_not_utf8_are_preserved_in_both_framings() -> None:
    name = b"\xff\xfeT".decode("utf-8", "surrogateescape")
    for wire in (Wire(), OldWire()):
        ((header, payload),) = wire.feed(wire.frame(Header(name), b"\xa0"))
        assert (header.type_name, payload) == (name, b"\xa0")


@pytest.mark.parametrize("framing", ["v1", "v2"])
def test_a_frame_larger_than_any_peer_accepts_is_not_written(framing: str) -> None:
    with pytest.raises(EncodeError, match="the limit is"):
        frame(bytes(FRAME_BYTES_MAX), framing)


def test_a_header_that_is_too_large_for_version_1_is_not_written() -> None:
    with pytest.raises(EncodeError, match="a header of 70"):
        OldWire().frame(Header("T" * 35_000), b"")


# -- faults


@pytest.mark.parametrize("framing", ["v1", "v2"])
def test_a_frame_over_the_limit_is_refused_before_it_is_there(framing: str) -> None:
    data = frame(bytes(100), framing)
    body = len(data) - (2 if framing == "v1" else 5)
    assert len(WIRES[framing](body).feed(data)) == 1
    head = data[: len(data) - 100]
    error = refusal(WIRES[framing](body - 1), head)
    assert error.detail == f"a frame of {body} bytes, the limit is {body - 1}"


@pytest.mark.parametrize("framing", ["v1", "v2"])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_frame_over_the_limit_is_skipped_and_named(framing: str, step: int) -> None:
    wire = WIRES[framing](1000)
    wire.limit_frames(150, skips_large=True)
    data = frame(b"\xa0", framing) + frame(bytes(200), framing) + frame(b"\xa0", framing)
    payloads = []
    for start in range(0, len(data), step):
        payloads += [payload for _, payload in wire.feed(data[start : start + step])]
    assert payloads == [b"\xa0", b"\xa0"]
    ((name, size),) = wire.take_skipped()
    assert name == wire.feed(frame(b"", framing))[0][0].type_name
    assert 200 < size < 300
    assert wire.take_skipped() == []
    assert wire.held_bytes == 0
    wire.feed(frame(b"\xa0", framing)[:-1])
    assert wire.held_bytes > 0


@pytest.mark.parametrize("framing", ["v1", "v2"])
def test_a_skipped_frame_with_a_malformed_header_has_no_name(framing: str) -> None:
    wire = WIRES[framing](1000)
    wire.limit_frames(10, skips_large=True)
    bad = b"\x80" + bytes(100)
    if framing == "v2":
        assert wire.feed(b"\x1a\x00\x00\x00\x65" + bad) == []
        assert wire.take_skipped() == [("", 101)]


FAULTS = {
    "not a frame": ("v2", b"\x18\x2c", "a frame begins with 0x1a, found 0x18"),
    "header of another kind": ("v2", b"\x1a\x00\x00\x00\x01\x80", "expected a map, found an array"),
    "empty frame": ("v2", b"\x1a\x00\x00\x00\x00", "the bytes end before the value"),
    "no header": ("v1", around({2: "T", 4: 1}), "is missing"),
    "no size": ("v1", around({2: "T", 3: {1: "T"}}), "is missing"),
    "header that is none": ("v1", around({3: [1], 4: 1}), "expected a map, found an array"),
    "size that is none": ("v1", around({3: {1: "T"}, 4: -1}), "expected an unsigned number"),
    "nothing around": ("v1", b"\x00\x00", "the bytes end before the value"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("way", ["whole", "byte by byte", "random pieces"])
def test_transmissions_before_a_fault_are_returned_first(fault: str, way: str) -> None:
    framing, wrong, detail = FAULTS[fault]
    good = [frame(bytes([0xA1, 1, n]), framing) for n in range(3)]
    wire = WIRES[framing]()
    arrived: list[bytes] = []
    with pytest.raises(DecodeError) as caught:
        for piece in [*pieces(b"".join(good) + wrong, way), b""]:
            arrived += [payload for _, payload in wire.feed(piece)]
    assert arrived == [b"\xa1\x01\x00", b"\xa1\x01\x01", b"\xa1\x01\x02"]
    assert caught.value.detail.startswith(detail)
    assert caught.value.type_name in ("frame", "DotsHeader", "DotsTransportHeader")


@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_fault_no_input_is_read(fault: str) -> None:
    framing, wrong, _ = FAULTS[fault]
    wire = WIRES[framing]()
    first = refusal(wire, wrong)
    assert refusal(wire, frame(framing=framing)) is first
    assert refusal(wire, b"") is first


@pytest.mark.parametrize(("tag", "name"), [(3, "dotsHeader"), (4, "payloadSize")])
def test_a_repeated_tag_around_the_header_is_refused(tag: int, name: str) -> None:
    header = b"\x03\xa1\x01\x61T"
    pairs = (header, header, b"\x04\x01") if tag == 3 else (header, b"\x04\x01", b"\x04\x01")
    outer = b"\xa3" + b"".join(pairs)
    error = refusal(OldWire(), len(outer).to_bytes(2, "little") + outer + b"\xa0")
    assert (error.field, error.detail) == (name, f"tag {tag} comes twice")


@pytest.mark.parametrize("size", [2**32, 2**63, 2**64 - 1, 2**64 - 19, 2**64 - 17])
def test_a_size_that_no_object_has_is_refused(size: int) -> None:
    error = refusal(OldWire(), around({3: {1: "T"}, 4: size}))
    assert (error.field, error.detail) == ("payloadSize", "a number that is too large")


def test_the_largest_number_as_size_is_over_the_limit() -> None:
    error = refusal(OldWire(), around({3: {1: "T"}, 4: 2**32 - 1}))
    assert error.detail.startswith("a frame of ")


def test_bytes_behind_the_header_around_are_refused() -> None:
    outer = cbor.dumps({3: {1: "T"}, 4: 1}) + b"\x00"
    error = refusal(OldWire(), len(outer).to_bytes(2, "little") + outer + b"\xa0")
    assert error.detail == "bytes behind the header"


def test_other_fields_around_the_header_are_skipped() -> None:
    outer = {5: 7, 40: "x" * 300, 4: 3, 1: ["no", "name"], 3: {1: "T", 5: 2}, 2: 0.5}
    ((header, payload),) = OldWire().feed(around(outer, b"\xa1\x01\x02"))
    assert (header.type_name, header.sender, payload) == ("T", 2, b"\xa1\x01\x02")


def test_the_size_may_be_in_any_width() -> None:
    outer = b"\xb8\x02\x18\x03\xa1\x01\x61T\x04\x1b\x00\x00\x00\x00\x00\x00\x00\x01"
    ((_, payload),) = OldWire().feed(len(outer).to_bytes(2, "little") + outer + b"\xa0")
    assert payload == b"\xa0"


@given(data=st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for wire in (Wire(), OldWire()):
        try:
            arrived = wire.feed(data)
        except DecodeError as error:
            assert refusal(wire, b"") is error
        else:
            for header, _ in arrived:
                assert read_header(write_header(header), 0)[0].type_name == header.type_name
