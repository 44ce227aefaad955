"""The hot loops, compared with their reference in Python.

In an uncompiled installation both are the reference: the comparisons are meant for compiled ones.
"""

from __future__ import annotations

import importlib.util
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry import build_info
from skerry.codec import hot_loops
from skerry.codec.encoder import head
from skerry.codec.operation import Operation
from skerry.errors import CodecError, DecodeError
from skerry.limits import (
    HEADER_MEMO_BYTES_MAX,
    HEADER_MEMO_COUNT_MAX,
    PAYLOAD_BYTES_MAX,
    STRUCT_COUNT_MAX,
    VECTOR_COUNT_MAX,
)
from skerry.objects.base import codec_of, key_of
from skerry.objects.typeset import define_types
from tests.unit.codec import reference

TYPES = define_types("""
enum Color { 1: red, 2: green, 200: blue }
struct Inner { 1: bool flag; 2: string label; }
struct Tick [cached=false] {
    1: [key] uint32 id;
    2: uint64 seq;
    3: timepoint time;
    4: float64 bid;
    5: string venue;
    6: int16 change;
    7: Color color;
    8: vector<float32> curve;
    9: Inner inner;
    10: bytes raw;
    11: bool is_last;
    12: uint8 level;
    13: vector<Inner> inners;
}
struct Odd [cached=false] { 1: [key] uint32 id; 2: uuid which; 24: bool late; }
""")
Tick, Inner, Odd, Color = TYPES.Tick, TYPES.Inner, TYPES.Odd, TYPES.Color


# The uncompiled build has only a part of the classes.
IN_USE = hot_loops if build_info.mode() == "compiled" else reference
TWINS = pytest.mark.parametrize("twin", [IN_USE, reference], ids=["in_use", "reference"])


def layout_of(twin: Any, cls: Any) -> Any:
    return twin.StructLayout(codec_of(cls).plan)


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result in a comparable form, or the message of the CodecError, the only error allowed."""
    try:
        result = call(*arguments)
    except CodecError as error:
        return f"{type(error).__name__}: {error}"
    return result.encode() if hasattr(result, "descriptor") else result


def full(**facts: Any) -> Any:
    values = {
        "id": 7,
        "seq": 2**40,
        "time": 1.5e9,
        "bid": -0.5,
        "venue": "ABC",
        "change": -300,
        "color": Color.green,
        "curve": [0.5, -1.0],
        "inner": Inner(flag=True, label="x"),
        "raw": b"\x00" * 30,
        "is_last": False,
        "level": 255,
        "inners": [Inner(), Inner(label="y")],
    }
    return Tick(**{**values, **facts})


TICKS = st.builds(
    Tick,
    id=st.none() | st.integers(-1, 2**32),
    seq=st.none() | st.integers(-1, 2**64) | st.booleans(),
    time=st.none() | st.floats(),
    bid=st.none() | st.floats() | st.integers(),
    venue=st.none() | st.text(max_size=90) | st.just("\udc80") | st.just("\ud800") | st.just(b"x"),
    change=st.none() | st.integers(-(2**15) - 1, 2**15),
    color=st.none() | st.sampled_from(list(Color)) | st.just(1),
    curve=st.none() | st.lists(st.floats(width=32)) | st.lists(st.floats()) | st.just((1.0,)),
    inner=st.none() | st.builds(Inner, flag=st.none() | st.booleans(), label=st.just("x")),
    raw=st.none() | st.binary(max_size=300) | st.just("text"),
    is_last=st.none() | st.booleans() | st.just(1),
    level=st.none() | st.integers(-1, 256),
    inners=st.none() | st.lists(st.builds(Inner, flag=st.booleans()), max_size=3),
)


# -- objects


@pytest.mark.slow
@given(TICKS)
def test_twins_encode_and_reject_alike(obj: Any) -> None:
    assert outcome(layout_of(IN_USE, Tick).encode, obj) == outcome(
        layout_of(reference, Tick).encode, obj
    )


@pytest.mark.slow
@given(TICKS, st.data())
def test_twins_decode_any_bytes_alike(obj: Any, data: Any) -> None:
    try:
        good = obj.encode()
    except CodecError:
        good = full().encode()
    at = data.draw(st.integers(0, len(good)))
    wrong = data.draw(st.binary(max_size=4))
    bad = good[:at] + wrong + good[at + data.draw(st.integers(0, 4)) :]
    for given_bytes in (good, good[:at], bad, good + wrong):
        ours = outcome(layout_of(IN_USE, Tick).decode, given_bytes)
        assert ours == outcome(layout_of(reference, Tick).decode, given_bytes)
        present = layout_of(IN_USE, Tick).check(given_bytes, 0)
        assert present in (-1, layout_of(reference, Tick).check(given_bytes, 0))


@TWINS
def test_a_whole_object_is_decoded(twin: Any) -> None:
    layout, obj = layout_of(twin, Tick), full()
    data = layout.encode(obj)
    assert data == obj.encode()
    again = layout.decode(data)
    assert again == obj
    assert type(again) is Tick
    assert layout.check(b"\xff" + data, 1) == int(obj.attributes)
    assert layout.decode(b"\xa0") == Tick()


@TWINS
def test_similar_texts_in_turn_are_distinguished(twin: Any) -> None:
    layout = layout_of(twin, Tick)
    texts = ["a", "a", "b", "ab", "", "ab", "ä", "a", "ä", "x" * 100, "x" * 100]
    assert [layout.decode(Tick(venue=text).encode()).venue for text in texts] == texts


@TWINS
def test_unusual_values_are_left_to_the_plan_walk(twin: Any) -> None:
    obj = Odd(id=1, late=True)
    assert layout_of(twin, Odd).decode(obj.encode()) == obj
    assert layout_of(twin, Odd).encode(obj) == obj.encode()
    with pytest.raises(TypeError, match="bytes"):
        layout_of(twin, Tick).decode(bytearray(b"\xa0"))


@pytest.mark.slow
@TWINS
def test_the_fast_path_keeps_the_bounds(twin: Any) -> None:
    layout = layout_of(twin, Tick)
    many = head(0x80, VECTOR_COUNT_MAX + 1) + b"\xfa\x00\x00\x00\x00" * (VECTOR_COUNT_MAX + 1)
    with pytest.raises(DecodeError, match="entries, the limit is"):
        layout.decode(b"\xa1\x08" + many)
    assert layout.check(b"\xa1\x08" + many, 0) == -1
    with pytest.raises(DecodeError, match="the bytes end before the counted entries"):
        layout.decode(b"\xa1\x08\x9b" + b"\xff" * 8)
    structs = head(0x80, STRUCT_COUNT_MAX) + b"\xa0" * STRUCT_COUNT_MAX
    with pytest.raises(DecodeError, match="which is the limit"):
        layout.decode(b"\xa1\x0d" + structs)
    assert layout.check(b"\xa1\x0d" + structs, 0) == -1
    with pytest.raises(CodecError, match="the limit is"):
        layout.encode(Tick(raw=bytes(PAYLOAD_BYTES_MAX)))


class Named(Tick):  # type: ignore[misc,valid-type]
    """A class of a program, with its own attributes."""

    note = "none"


class Guarded(Tick):  # type: ignore[misc,valid-type]
    """A class that checks assigned values."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, "***" if name == "venue" and value else value)


class Computed(Tick):  # type: ignore[misc,valid-type]
    """A class that replaces a slot by a property."""

    __slots__ = ()

    @property
    def venue(self) -> Any:
        return "computed"

    @venue.setter
    def venue(self, value: Any) -> None:
        """A computed value cannot be set."""


@TWINS
def test_classes_of_programs_keep_their_behaviour(twin: Any) -> None:
    data = full().encode()
    named = layout_of(twin, Named).decode(data)
    assert type(named) is Named
    assert (named.venue, named.note, named.__dict__) == ("ABC", "none", {})
    assert layout_of(twin, Guarded).decode(data).venue == "***"
    computed = layout_of(twin, Computed).decode(data)
    assert computed.venue == "computed"
    assert Tick.decode(layout_of(twin, Computed).encode(computed)).venue == "computed"


@TWINS
def test_a_deleted_attribute_is_an_error(twin: Any) -> None:
    obj = full()
    del obj.bid
    with pytest.raises(AttributeError, match="bid"):
        layout_of(twin, Tick).encode(obj)


# -- frames


def template_of(twin: Any, cls: Any) -> Any:
    codec = codec_of(cls)
    return twin.Template(twin.StructLayout(codec.plan), b"HEAD", b"<", b">")


def framed(body: bytes) -> bytes:
    return b"\x1a" + len(body).to_bytes(4, "big") + body


@TWINS
def test_frames_are_consecutive(twin: Any) -> None:
    frames = twin.Frames()
    obj = Tick(id=1, venue="a")
    frames.add(b"first")
    time = struct.pack(">d", 2.5)
    wanted = framed(b"HEAD" + time + b"<\x18\x22>" + obj.encode())
    assert frames.add_object(template_of(twin, Tick), obj, 2.5) == len(wanted)
    plain = framed(b"H" + time + b"R\x58\x1e" + b"x" * 30)
    assert frames.add_bytes(b"H", 2.5, b"R", b"x" * 30) == len(plain)
    assert len(frames) == 5 + len(wanted) + len(plain)
    assert frames.take() == b"first" + wanted + plain
    assert (len(frames), frames.take()) == (0, b"")


@pytest.mark.slow
@TWINS
def test_a_rejected_object_leaves_no_frame(twin: Any) -> None:
    frames, template = twin.Frames(), template_of(twin, Tick)
    frames.add(b"first")
    deleted = full()
    del deleted.bid
    large = Tick(id=1, raw=bytes(PAYLOAD_BYTES_MAX))
    for obj in (Tick(), Tick(id="x"), Tick(id=1, venue="\ud800"), Odd(id=1), 5, deleted, large):
        assert frames.add_object(template, obj, 2.5) == -1
    assert frames.take() == b"first"


@TWINS
def test_frames_are_truncated(twin: Any) -> None:
    frames = twin.Frames()
    frames.add(b"x" * 600_000)
    frames.truncate(3)
    for size in (4, -1):
        with pytest.raises(ValueError, match="there are 3 bytes"):
            frames.truncate(size)
    assert frames.take() == b"xxx"


# -- frames that differ only in their times

FIRST, REST = b"\xa3\x01\x61T\x02\xfb", b"\x03\x02\x04\xf4"
SECOND = 7


def frame_of(payload: bytes, time: float = 1.0, second: float | None = None) -> bytes:
    times = struct.pack(">d", time)
    if second is not None:
        times += bytes((SECOND, 0xFB)) + struct.pack(">d", second)
    return framed(FIRST + times + REST + payload)


def forwarded(twin: Any, buffer: bytes, named: int = -1, bytes_max: int = 10_000) -> Any:
    plain, full_frames = twin.Frames(), twin.Frames()
    result = twin.AlikeFrames(FIRST, REST, -1).forward(
        *(buffer, 0, bytes_max, layout_of(twin, Tick), named, 100.0),
        *(plain, b"PLAIN", b"-", full_frames, b"FULL", b"+"),
    )
    return result, plain.take(), full_frames.take()


@TWINS
def test_frames_are_forwarded_up_to_one_that_differs(twin: Any) -> None:
    payloads = [Tick(id=n, venue="v").encode() for n in range(3)]
    good = b"".join(frame_of(payload, 5.0) for payload in payloads)
    time = struct.pack(">d", 5.0)
    plain = b"".join(framed(b"PLAIN" + time + b"-" + payload) for payload in payloads)
    full_frames = b"".join(framed(b"FULL" + time + b"+" + payload) for payload in payloads)
    one = frame_of(payloads[0])
    strangers = [
        b"",
        one[:-1],
        one[:3],
        b"\x1b" + one[1:],
        frame_of(payloads[0], 101.0),
        frame_of(payloads[0], float("nan")),
        frame_of(payloads[0] + b"\x00"),
        frame_of(Tick(venue="no key").encode()),
        frame_of(b"\xa1\x01\x18\x01"),
        frame_of(b"\xa1\x01\x61x"),
        frame_of(full(raw=bytes(9_999)).encode()),
        framed(FIRST),
        framed(b"\xa4" + FIRST[1:] + bytes(8) + REST + payloads[0]),
        framed(FIRST + bytes(8) + b"\x05" + REST[1:] + payloads[0]),
    ]
    for stranger in strangers:
        result = forwarded(twin, good + stranger)
        assert result == ((len(good), 3), plain, full_frames), stranger
    assert forwarded(twin, good, named=2)[0] == (0, 0), "not all of it was spoken of"


# -- known headers

WHOLE = b"\xa4" + FIRST[1:]
"""With the right count of entries, which `AlikeFrames` does not require."""


def headed(payload: bytes, time: float = 1.0) -> bytes:
    return framed(WHOLE + struct.pack(">d", time) + REST + payload)


def version_1(frame: bytes) -> bytes:
    """A frame of version 2 with the header above as one of version 1."""
    size = len(WHOLE) + 8 + len(REST)
    header, payload = frame[5 : 5 + size], frame[5 + size :]
    outer = b"\xa3\x02\x61T\x03" + header + b"\x04" + head(0x00, len(payload))
    return len(outer).to_bytes(2, "little") + outer + payload


class Passing:
    """A relay with one output for each form."""

    def __init__(self, twin: Any, version: int = 2, *, is_message: bool = True) -> None:
        self.twin = twin
        self.relay = twin.FrameRelay(version, 100.0)
        self.gate = twin.RouteVersion()
        self.outs = [twin.Frames() for _ in range(3)]
        self._is_message = is_message

    def pass_on(self, data: bytes, start: int = 0, work_max: int = 10_000) -> Any:
        return self.relay.pass_on(data, start, 10_000, 9.0, work_max)

    def learn(self, data: bytes, owner: str = "first") -> Any:
        """Learn the header of a frame and open its form."""
        assert self.pass_on(data) is None
        assert self.relay.is_new
        heads, rests = [b"P", b"F", b"O"], [b"-p", b"-f", b"-o"]
        form = self.twin.ForwardedHeader(owner, self.relay.parts(), heads, rests)
        form.open(
            self.gate,
            layout_of(self.twin, Tick),
            -1,
            self._is_message,
            self.outs,
            bytes((0, 1, 2)),
        )
        if self.relay.wants():
            self.relay.learn(form)
        return form

    def taken(self) -> list[bytes]:
        return [out.take() for out in self.outs]


def expected(payload: bytes, time: float = 1.0) -> list[bytes]:
    times = struct.pack(">d", time) + b"\x07\xfb" + struct.pack(">d", 9.0)
    old = b"O" + times + b"-o\x04" + head(0x00, len(payload))
    return [
        framed(b"P" + times + b"-p" + payload),
        framed(b"F" + times + b"-f" + payload),
        len(old).to_bytes(2, "little") + old + payload,
    ]


@TWINS
@pytest.mark.parametrize("version", [1, 2])
def test_frames_with_known_headers_are_forwarded_in_all_forms(twin: Any, version: int) -> None:
    payloads = [Tick(id=n, venue="v" * (n * 40)).encode() for n in range(4)]
    frames = [headed(payload, 5.0) for payload in payloads]
    if version == 1:
        frames = [version_1(frame) for frame in frames]
    passing = Passing(twin, version)
    form = passing.learn(frames[0])
    data = b"".join(frames)
    assert passing.pass_on(data + frames[0][:-1]) is None
    assert (passing.relay.count, passing.relay.stop) == (4, len(data))
    assert not passing.relay.is_new
    wanted = [b"".join(some) for some in zip(*map(expected, payloads, [5.0] * 4), strict=True)]
    assert passing.taken() == wanted
    assert form.owner == "first"
    assert passing.relay.take_touched() == [("first", 4)]
    assert passing.relay.take_touched() == []


@TWINS
def test_alternating_headers_are_all_known(twin: Any) -> None:
    payload = Tick(id=1).encode()

    def named(number: int) -> bytes:
        name = f"T{number:03d}".encode()
        header = b"\xa5\x01\x64" + name + b"\x02\xfb" + struct.pack(">d", 1.0)
        return framed(header + REST + b"\x14\x62/" + name[3:] + payload)

    passing = Passing(twin)
    for number in range(40):
        passing.learn(named(number), str(number))
    assert len(passing.relay) == 40
    data = b"".join(named(number) for number in [*range(40), *range(39, -1, -1)])
    assert passing.pass_on(data) is None
    assert passing.relay.count == 80
    assert {count for _, count in passing.relay.take_touched()} == {2}
    passing.relay.forget()
    assert len(passing.relay) == 0
    assert passing.pass_on(data) is None
    assert (passing.relay.count, passing.relay.is_new) == (0, True)


@TWINS
def test_a_header_in_place_of_the_usual_next_one_is_not_mistaken_for_it(twin: Any) -> None:
    payload = Tick(id=1).encode()
    usual, other = headed(payload), headed(payload).replace(b"\x61T", b"\x61U")
    passing = Passing(twin)
    for frame in (usual, other):
        passing.learn(frame, frame.hex())
    assert passing.pass_on((usual + other) * 3) is None
    assert passing.relay.count == 6
    passing.taken()
    unknown = [
        usual.replace(REST, REST[:-1] + b"\xf5"),
        framed(WHOLE + bytes(8) + b"\x07\xfb" + bytes(8) + REST + payload),
        usual.replace(b"\x61T", b"\x61V"),
    ]
    incomplete = [framed(usual[5:size]) for size in range(5, len(usual) - len(payload))]
    incomplete += [usual[:size] for size in range(len(usual))]
    for strange in [*unknown, *incomplete]:
        assert passing.pass_on(usual + other + strange) is None
        assert passing.relay.count == 2
        assert passing.relay.is_new == (strange in unknown)
    assert passing.pass_on(other + other + usual + usual + other) is None
    assert passing.relay.count == 5
    plain = passing.taken()[0]
    assert plain.count(expected(payload)[0]) == 5 + 2 * len([*unknown, *incomplete])


@TWINS
def test_the_number_of_known_headers_is_bounded(twin: Any) -> None:
    passing = Passing(twin)
    payload = Tick(id=1).encode()
    for number in range(HEADER_MEMO_COUNT_MAX * 4):
        rest = b"\x03\x1a" + number.to_bytes(4, "big") + b"\x04\xf4"
        passing.learn(framed(WHOLE + struct.pack(">d", 1.0) + rest + payload))
    assert 0 < len(passing.relay) <= HEADER_MEMO_COUNT_MAX
    first = b"\xa5" + FIRST[1:] + bytes(8) + REST
    for size in (HEADER_MEMO_BYTES_MAX, HEADER_MEMO_BYTES_MAX + 1):
        subject = size - 5 - len(first) - 4
        long = framed(first + b"\x14\x79" + subject.to_bytes(2, "big") + b"x" * subject + payload)
        assert passing.pass_on(long) is None
        # Frequent headers get a slot in the end.
        wants = any(passing.relay.wants() for _ in range(100))
        assert wants == (size == HEADER_MEMO_BYTES_MAX)


@TWINS
def test_forwarding_stops_at_the_bound_on_work(twin: Any) -> None:
    frame = headed(Tick(id=1).encode())
    passing = Passing(twin)
    passing.learn(frame)
    for work_max, count in ((1, 1), (4, 1), (5, 2), (40, 10)):
        assert passing.pass_on(frame * 10, work_max=work_max) is None
        assert (passing.relay.count, passing.relay.work) == (count, 4 * count)
        assert passing.relay.is_spent
    assert passing.pass_on(frame * 10, work_max=41) is None
    assert not passing.relay.is_spent


@TWINS
def test_an_invalid_form_is_only_returned(twin: Any) -> None:
    data = headed(Tick(id=1).encode())
    passing = Passing(twin)
    form = passing.learn(data)
    passing.gate.shut()
    assert not form.is_open
    assert passing.pass_on(data + data) is form
    assert (passing.relay.count, passing.relay.is_checked) == (0, False)
    assert passing.taken() == [b"", b"", b""]


@TWINS
def test_cached_objects_are_checked_and_returned_one_by_one(twin: Any) -> None:
    payload = Tick(id=700, venue="v").encode()
    data = headed(payload, 3.0)
    passing = Passing(twin, is_message=False)
    form = passing.learn(data)
    assert passing.pass_on(b"before" + data, 6) is form
    relay = passing.relay
    assert (relay.count, relay.is_checked, relay.payload()) == (0, True, payload)
    assert relay.checked() == (payload, key_of(Tick(id=700)), 0b100010, 3.0)
    relay.deliver()
    assert passing.taken() == expected(payload, 3.0)
    assert relay.take_touched() == [("first", 1)]
    for call in (relay.payload, relay.checked, relay.deliver, relay.parts):
        with pytest.raises(ValueError, match="no current frame"):
            call()


@TWINS
@pytest.mark.parametrize(
    "payload",
    [
        Tick(venue="no key").encode(),
        b"\xa1\x01\x18\x01",
        b"\xa1\x01\x61x",
        Tick(id=1).encode() + b"\x00",
        b"",
    ],
)
def test_an_unusual_object_is_not_forwarded(twin: Any, payload: bytes) -> None:
    passing = Passing(twin)
    form = passing.learn(headed(Tick(id=1).encode()))
    assert passing.pass_on(headed(payload)) is form
    assert (passing.relay.count, passing.relay.is_checked) == (0, False)
    assert passing.pass_on(headed(Tick(id=1).encode(), 101.0)) is form
    assert passing.pass_on(headed(Tick(id=1).encode(), float("nan"))) is form
    assert passing.taken() == [b"", b"", b""]


@TWINS
def test_relay_and_delivery_have_one_base(twin: Any) -> None:
    assert issubclass(twin.FrameRelay, twin.KnownHeaders)
    assert issubclass(twin.FrameDelivery, twin.KnownHeaders)
    assert not twin.KnownHeader("owner", (b"first", b"rest", False)).is_open


@TWINS
def test_a_form_needs_a_head_per_kind_and_a_kind_per_output(twin: Any) -> None:
    with pytest.raises(ValueError, match="three forms"):
        twin.ForwardedHeader("owner", (b"", b"", False), [b""], [b""])
    form = twin.ForwardedHeader("owner", (b"", b"", False), [b""] * 3, [b""] * 3)
    for outs, kinds in (([], b"\x00"), ([twin.Frames()], b"\x03")):
        with pytest.raises(ValueError, match="each output needs one form"):
            form.open(twin.RouteVersion(), layout_of(twin, Tick), -1, True, outs, kinds)
    with pytest.raises(ValueError, match="no such form"):
        form.frame(3, 0.0, 0.0, b"")
    assert not form.is_open


@pytest.mark.slow
@given(
    st.integers(1, 2),
    st.lists(st.binary(max_size=40) | TICKS, max_size=5),
    st.integers(0, 400),
    st.binary(max_size=10),
)
def test_twins_relay_alike(version: int, items: list[Any], cut_at: int, wrong: bytes) -> None:
    good = headed(Tick(id=1).encode())
    payloads = [item if isinstance(item, bytes) else outcome(item.encode) for item in items]
    frames = [good, *(headed(item) for item in payloads if isinstance(item, bytes))]
    if version == 1:
        frames = [version_1(frame) for frame in frames]
    buffer = b"".join(frames)
    buffer = buffer[:cut_at] + wrong + buffer[cut_at + len(wrong) :]
    results = []
    for twin in (IN_USE, reference):
        passing = Passing(twin, version)
        passing.learn(frames[0])
        found = passing.pass_on(buffer)
        counts = (passing.relay.count, passing.relay.stop)
        results.append((counts, found is None, passing.relay.is_new, passing.taken()))
    ours, theirs = results
    # The reference accepts more forms of objects, and may forward more frames.
    if ours[0] == theirs[0]:
        assert ours == theirs
    else:
        assert ours[0] < theirs[0]
        assert not ours[1]
        assert all(b.startswith(a) for a, b in zip(ours[3], theirs[3], strict=True))


@pytest.mark.slow
@given(st.lists(st.binary(max_size=40) | TICKS, max_size=5), st.integers(0, 400), st.binary())
def test_twins_forward_alike(items: list[Any], cut_at: int, wrong: bytes) -> None:
    payloads = [item if isinstance(item, bytes) else outcome(item.encode) for item in items]
    frames = [frame_of(item) for item in payloads if isinstance(item, bytes)]
    buffer = b"".join(frames)
    buffer = buffer[:cut_at] + wrong + buffer[cut_at + len(wrong) :]
    ours, theirs = forwarded(IN_USE, buffer), forwarded(reference, buffer)
    (stop, count), plain, full_frames = ours
    # The reference accepts more forms, and may forward more frames.
    assert count <= theirs[0][1]
    assert theirs[1].startswith(plain)
    assert theirs[2].startswith(full_frames)
    assert buffer[:stop].count(FIRST) >= count


# -- delivery


class Told:
    """Replaces the received type of a space."""

    def __init__(self, twin: Any, cls: Any) -> None:
        self.layout = layout_of(twin, cls)
        self.decode = codec_of(cls).decode
        self.is_bytes = False

    def bytes_of(self, payload: bytes) -> bytes:
        return b"special " + payload


class Listener:
    """A target of deliveries."""

    def __init__(self, callback: Callable[[Any], Any]) -> None:
        self.callback = callback
        self.is_open = True


class Deliveries:
    """Delivers payloads to listeners."""

    def __init__(
        self, twin: Any, *, second: float | None = None, cls: Any = Tick, header: Any = "header"
    ) -> None:
        self.twin = twin
        self.header = header
        self.objects: Any = None if header == "header" else {}
        self.shape = Told(twin, cls)
        self.delivery = twin.FrameDelivery()
        self.gate = twin.RouteVersion()
        self.failures: list[BaseException] = []
        self.failed: Callable[..., Any] = self._note
        self._second = second
        self._kind = type("Kind", (twin.ReceivedUpdate,), {"__slots__": ()})

    def deliver(self, payloads: list[bytes], *listeners: Any, more: bytes = b"") -> Any:
        frames = [self._frame(p, 1.0 + n) for n, p in enumerate(payloads)]
        self.learn(frames[0], list(listeners))
        return self.take(b"ab" + b"".join(frames) + more)

    def learn(self, frame: bytes, targets: list[Any] | None) -> Any:
        """Learn the header of a frame and open its targets."""
        self.delivery.forget()
        assert self.take(b"ab" + frame) is None
        assert self.delivery.is_new
        call = self.twin.DeliveredHeader("owner", self.delivery.parts())
        call.open(self.gate, self.header, self.shape, targets, self.objects)
        self.delivery.learn(call)
        return call

    def take(self, data: bytes) -> Any:
        return self.delivery.deliver(data, 2, 10_000, self._kind, 5, 9.5, 3, self.failed)

    def _frame(self, payload: bytes, time: float) -> bytes:
        times = struct.pack(">d", time)
        if self._second is not None:
            times += bytes((SECOND, 0xFB)) + struct.pack(">d", self._second)
        count = b"\xa4" if self._second is None else b"\xa5"
        return framed(count + FIRST[1:] + times + REST + payload)

    def _note(self, _target: Any, _event: Any, error: BaseException) -> None:
        self.failures.append(error)


@TWINS
def test_every_target_receives_every_update_in_order(twin: Any) -> None:
    deliveries, heard = Deliveries(twin, second=8.0), []

    def hear(event: Any) -> None:
        heard.append((event.object.id, event._sent_time, event._server_sent_time))

    payloads = [Tick(id=n).encode() for n in range(3)]
    deliveries.deliver(payloads, Listener(hear), Listener(hear), more=b"\x1a\x00")
    assert heard == [(n, 1.0 + n, 8.0) for n in range(3) for _ in range(2)]
    delivery = deliveries.delivery
    size = len(frame_of(payloads[0], 1.0, 8.0))
    assert (delivery.count, delivery.start, delivery.stop) == (3, 2 + 2 * size + 5, 2 + 3 * size)


@TWINS
def test_a_kept_event_does_not_change(twin: Any) -> None:
    deliveries, events, objects = Deliveries(twin), [], []

    def keep_some(event: Any) -> None:
        if event.update.id % 2:
            events.append(event)
        elif event.update.id % 3 == 0:
            objects.append(event.object)

    ticks = [full(id=n, venue=f"v{n}") if n % 4 else Tick(id=n) for n in range(13)]
    deliveries.deliver([tick.encode() for tick in ticks], Listener(keep_some))
    assert [event.object for event in events] == ticks[1::2]
    assert [event.data for event in events] == [tick.encode() for tick in ticks[1::2]]
    assert [event._sent_time for event in events] == [1.0 + n for n in range(1, 13, 2)]
    assert objects == [ticks[0], ticks[6], ticks[12]]
    event = events[0]
    assert (event.operation, event._known, event._own_id, event._received) == (
        *("create", "header", 5),
        9.5,
    )
    assert event.object is event.update


@TWINS
def test_kept_values_do_not_change(twin: Any) -> None:
    deliveries, kept = Deliveries(twin), []

    def keep_values(event: Any) -> None:
        tick = event.object
        kept.append((tick.bid, tick.time if tick.id % 2 else None))
        if tick.id % 3 == 0:
            tick.bid = "something else"
        elif tick.id % 3 == 1:
            del tick.bid, tick.seq

    ticks = [Tick(id=n, seq=7, bid=n + 0.5, time=n + 0.25) for n in range(12)]
    deliveries.deliver([tick.encode() for tick in [*ticks, Tick(id=1)]], Listener(keep_values))
    assert not deliveries.failures
    assert kept == [
        *((n + 0.5, n + 0.25 if n % 2 else None) for n in range(12)),
        (None, None),
    ]


@TWINS
def test_reused_objects_have_no_attributes_of_others(twin: Any) -> None:
    deliveries, notes = Deliveries(twin, cls=Named), []

    def mark(event: Any) -> None:
        notes.append(event.object.note)
        event.object.note = "marked"

    deliveries.deliver([Tick(id=n).encode() for n in range(3)], Listener(mark))
    assert notes == ["none"] * 3


@TWINS
def test_a_failed_callback_is_reported_and_others_are_called(twin: Any) -> None:
    deliveries, heard = Deliveries(twin), []

    def fail(event: Any) -> None:
        raise ZeroDivisionError(event.object.id)

    deliveries.deliver(
        [Tick(id=n).encode() for n in range(2)],
        Listener(fail),
        Listener(lambda event: heard.append(event.object.id)),
    )
    assert [str(error) for error in deliveries.failures] == ["0", "1"]
    assert heard == [0, 1]


@TWINS
def test_an_error_of_the_failure_handler_is_raised(twin: Any) -> None:
    deliveries = Deliveries(twin)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    deliveries.failed = stop
    with pytest.raises(KeyboardInterrupt):
        deliveries.deliver([Tick(id=1).encode()], Listener(stop))


@TWINS
def test_cached_objects_without_targets_are_only_checked(twin: Any) -> None:
    deliveries = Deliveries(twin, second=8.0)
    payload = Tick(id=700, venue="v").encode()
    data = deliveries._frame(payload, 3.0)
    call = deliveries.learn(data, None)
    assert deliveries.take(b"ab" + data) is call
    delivery = deliveries.delivery
    assert (delivery.count, delivery.is_new, delivery.is_checked) == (0, False, True)
    assert (delivery.times(), delivery.payload(), call.owner) == ((3.0, 8.0), payload, "owner")
    assert delivery.checked()[:3] == (payload, key_of(Tick(id=700)), 0b100010)
    assert deliveries.take(b"ab" + deliveries._frame(b"\xa1\x01\x18\x01", 3.0)) is call
    assert not delivery.is_checked
    with pytest.raises(ValueError, match="not checked"):
        delivery.checked()
    delivery.end()
    with pytest.raises(ValueError, match="no current frame"):
        delivery.payload()
    deliveries.gate.shut()
    assert deliveries.take(b"ab" + data) is call
    assert not delivery.is_checked


@TWINS
def test_messages_of_alternating_types_are_delivered_in_order(twin: Any) -> None:
    heard: list[Any] = []
    deliveries, kept = Deliveries(twin), []
    data = b""
    for name in (b"A", b"B", b"C"):
        frame = deliveries._frame(Tick(id=1).encode(), 1.0).replace(b"\x61T", b"\x61" + name)
        known = len(deliveries.delivery)
        assert deliveries.take(b"ab" + frame) is None
        call = deliveries.twin.DeliveredHeader(name, deliveries.delivery.parts())

        def hear(event: Any, name: bytes = name) -> None:
            heard.append((name, event._known, event.object.id))
            if name == b"B":
                kept.append(event)

        call.open(deliveries.gate, name.decode(), deliveries.shape, [Listener(hear)], None)
        deliveries.delivery.learn(call)
        assert len(deliveries.delivery) == known + 1
        data += frame
    assert deliveries.take(b"ab" + data * 3) is None
    assert deliveries.delivery.count == 9
    assert heard == [(name, name.decode(), 1) for name in (b"A", b"B", b"C")] * 3
    assert [(event._known, event.object.id) for event in kept] == [("B", 1)] * 3


@TWINS
def test_delivery_ends_when_the_gate_is_shut(twin: Any) -> None:
    deliveries, heard = Deliveries(twin), []
    second = Listener(lambda event: heard.append(("second", event.object.id)))

    def hear(event: Any) -> None:
        heard.append(("first", event.object.id))
        if event.object.id == 1:
            second.is_open = False
            deliveries.gate.shut()

    deliveries.deliver([Tick(id=n).encode() for n in range(4)], Listener(hear), second)
    assert heard == [("first", 0), ("second", 0), ("first", 1)]
    assert deliveries.delivery.count == 2


@TWINS
def test_a_closed_target_is_not_called(twin: Any) -> None:
    deliveries = Deliveries(twin)
    heard: list[Any] = []
    gone = Listener(heard.append)
    gone.is_open = False
    deliveries.deliver([Tick(id=1).encode()], gone)
    assert (heard, deliveries.delivery.count) == ([], 1)


@TWINS
def test_invalid_bytes_raise_on_access_of_the_object(twin: Any) -> None:
    deliveries, faults = Deliveries(twin), []

    def hear(event: Any) -> None:
        assert event.fault is None
        with pytest.raises(DecodeError):
            _ = event.object
        faults.append(str(event.fault))

    deliveries.deliver([b"\xa1\x01\x61x", b"\xff"], Listener(hear))
    assert len(set(faults)) == 2


@TWINS
def test_bytes_under_a_subject_are_extracted(twin: Any) -> None:
    deliveries, heard = Deliveries(twin), []
    deliveries.shape.is_bytes = True
    contents = [b"", b"x", b"x" * 23, b"x" * 24, b"x" * 256]
    payloads = [b"\xa1\x01" + head(0x40, len(data)) + data for data in contents]
    others = [b"\xa0", b"\xa1\x01\x41", b"\xa1\x01\x42x", b"\xa1\x01\x61x", b"\xa1\x01\x5f\xff"]
    deliveries.deliver([*payloads, *others], Listener(lambda event: heard.append(event.data)))
    if twin is reference:
        # All of them are left to the caller, which knows what the bytes are.
        contents = [b"special " + payload for payload in payloads]
    assert heard == [*contents, *(b"special " + payload for payload in others)]


# -- publishing


def waiting_of(twin: Any, bytes_max: int = 1000, lock: Any = None) -> Any:
    waiting = twin.WaitingFrames(bytes_max, lock, b"B")
    waiting.is_short = True
    waiting.templates[Tick] = template_of(twin, Tick)
    waiting.subjects["/a"] = b"R"
    return waiting


@TWINS
def test_the_writer_is_notified_of_the_first_frame(twin: Any) -> None:
    waiting = waiting_of(twin)
    assert waiting.put(Tick(id=1), None, None, 2.5) == 1
    assert waiting.put(Tick(id=1), None, None, 2.5) == 0
    assert waiting.put("/a", b"x", None, 2.5) == 0
    waiting.is_awaited = False
    assert waiting.put("/a", b"x", None, 2.5) == 1
    assert waiting.added_count == 4
    assert waiting.size == len(waiting.frames)


@TWINS
def test_the_writer_is_notified_again_after_each_piece(twin: Any) -> None:
    waiting = waiting_of(twin, bytes_max=10_000)
    frame = bytes(30)
    assert [waiting.add(frame) for _ in range(20)] == [True] + [False] * 19, "not unless asked to"
    assert waiting.take() == frame * 20
    waiting.is_awaited = False
    waiting.notify_every(100)
    told = [waiting.add(frame) for _ in range(10)]
    assert [index for index, is_told in enumerate(told) if is_told] == [0, 4, 8]
    waiting.take()
    assert [waiting.put("/a", bytes(30), None, 2.5) for _ in range(4)] == [0, 0, 1, 0]
    assert waiting.added_count == 34


@TWINS
def test_the_fast_path_rejects_unusual_input(twin: Any) -> None:
    waiting = waiting_of(twin, bytes_max=40)
    assert waiting.put(Tick(id=1), None, None, 2.5) == 1
    size = len(waiting.frames)
    assert waiting.put(Tick(id=1, raw=bytes(100)), None, None, 2.5) == -1, "no room"
    assert waiting.put(Odd(id=1), None, None, 2.5) == -1
    assert waiting.put(Tick(), None, None, 2.5) == -1
    for subject, data in (("/b", b""), (5, b""), ("/a", "text"), ("/a", bytearray())):
        assert waiting.put(subject, data, None, 2.5) == -1
    waiting.size = 0
    assert waiting.put("/a", bytes(PAYLOAD_BYTES_MAX), None, 2.5) == -1
    waiting.is_short = False
    assert waiting.put(Tick(id=1), None, None, 2.5) == -1
    assert waiting.put("/a", b"", None, 2.5) == -1
    assert (len(waiting.frames), waiting.added_count) == (size, 1)


@TWINS
def test_alternating_subjects_have_their_own_headers(twin: Any) -> None:
    waiting = waiting_of(twin)
    waiting.subjects["/b"] = b"S"
    assert waiting.put(None, b"x", None, 2.5) == -1
    for subject in ("/a", "/a", "/b", "/a"):
        assert waiting.put(subject, b"x", None, 2.5) >= 0
    rests = [frame[14:15] for frame in frames_in(waiting.take())]
    assert rests == [b"R", b"R", b"S", b"R"]
    waiting.forget_subjects()
    for forgotten in ("/a", "/b", None, ()):
        assert waiting.put(forgotten, b"x", None, 2.5) == -1, "it is asked for again"


@TWINS
def test_objects_under_subjects_use_the_template_of_both(twin: Any) -> None:
    waiting = waiting_of(twin)
    waiting.templates[Tick, "/a"] = template_of(twin, Tick)
    assert waiting.put(Tick(id=1), None, "/b", 2.5) == -1
    assert waiting.put(Tick(id=1), None, 5, 2.5) == -1
    assert waiting.put(Tick(venue="no key"), None, "/a", 2.5) == -1
    assert waiting.put(Tick(id=1), None, "/a", 2.5) == 1
    assert waiting.put(Tick(id=1), None, None, 2.5) == 0
    first, second = frames_in(waiting.take())
    assert first == second
    waiting.is_short = False
    assert waiting.put(Tick(id=1), None, "/a", 2.5) == -1


def frames_in(data: bytes) -> list[bytes]:
    """The single frames of a buffer."""
    found = []
    while data:
        size = 5 + int.from_bytes(data[1:5], "big")
        found.append(data[:size])
        data = data[size:]
    return found


@TWINS
def test_a_single_frame_may_exceed_the_bound(twin: Any) -> None:
    waiting = waiting_of(twin, bytes_max=1)
    assert waiting.put(Tick(id=1), None, None, 2.5) == 1


class Lock:
    """Counts how often it was acquired."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        """Count."""


@TWINS
def test_the_lock_can_be_replaced(twin: Any) -> None:
    first, second = Lock(), Lock()
    waiting = waiting_of(twin, lock=first)
    waiting.put(Tick(id=1), None, None, 2.5)
    waiting.lock = second
    waiting.put(Tick(id=2), None, None, 2.5)
    assert (first.count, second.count) == (1, 1)


@TWINS
def test_publishing_uses_the_fast_path_where_possible(twin: Any) -> None:
    lock = Lock()
    log: list[Any] = []
    waiting = twin.WaitingFrames(1000, lock, b"B")
    waiting.is_short = True
    waiting.subjects["/a"] = b"R"

    def first(*arguments: Any) -> bool:
        log.append(arguments)
        return False

    outlet = twin.PublishPath(waiting, first, lambda: log.append("wake"), lambda: 2.5)
    tick = Tick(id=1)
    outlet.publish(tick)
    waiting.templates[Tick] = template_of(twin, Tick)
    outlet.publish(tick)
    outlet.publish(tick, only=["venue"])
    outlet.publish(tick, subject="/s")
    outlet.publish("/a", b"x")
    outlet.publish("/b", b"x")
    outlet.publish("/a", b"x", only=["venue"])
    outlet.publish("/a", b"x", subject="/s")
    outlet.publish(tick, b"x")
    assert log == [
        (tick, None, None, ""),
        "wake",
        (tick, None, ["venue"], ""),
        (tick, None, None, "/s"),
        ("/b", b"x", None, ""),
        ("/a", b"x", ["venue"], ""),
        ("/a", b"x", None, "/s"),
        (tick, b"x", None, ""),
    ]
    assert waiting.added_count == 2
    frames = twin.Frames()
    frames.add_object(template_of(twin, Tick), tick, 2.5)
    frames.add_bytes(b"B", 2.5, b"R", b"x")
    assert waiting.frames.take() == frames.take()


# -- objects that are stored before delivery


def stored_tellings(twin: Any, **facts: Any) -> Deliveries:
    header = SimpleNamespace(attributes=int(Tick.descriptor.mask), subject="", sender=8)
    vars(header).update(facts)
    return Deliveries(twin, header=header)


@TWINS
def test_objects_are_stored_before_delivery(twin: Any) -> None:
    deliveries, told = stored_tellings(twin), []

    def hear(event: Any) -> None:
        stored = deliveries.objects[key_of(event.object)]
        assert stored is event._entry
        told.append((event.operation, event.object.id, event.object.bid, stored.created))

    ticks = [Tick(id=n % 2, bid=float(n)) for n in range(4)]
    deliveries.deliver([tick.encode() for tick in ticks], Listener(hear))
    assert told == [
        ("create", 0, 0.0, 1.0),
        ("create", 1, 1.0, 2.0),
        ("update", 0, 2.0, 1.0),
        ("update", 1, 3.0, 2.0),
    ]
    assert deliveries.delivery.count == 4
    state = deliveries.objects[key_of(ticks[3])]
    assert state.payload == ticks[3].encode()
    assert (state.present, state.subject, state.operation) == (
        int(ticks[3].attributes),
        "",
        "update",
    )
    assert (state.modified, state.modified_from, state.created_from) == (4.0, 8, 8)
    assert (state.received, state.epoch) == (9.5, 3)


@TWINS
def test_partial_updates_are_merged_before_delivery(twin: Any) -> None:
    attributes = int(Tick(id=1, bid=1.0, venue="x").attributes)
    deliveries, told = stored_tellings(twin, attributes=attributes), []
    deliveries.objects[key_of(Tick(id=1))] = twin.ObjectState(
        *(full(id=1).encode(), int(full(id=1).attributes), "", 0.5, 2, 0.5, 2, "create", 0.5, 1)
    )

    def hear(event: Any) -> None:
        told.append((event.object, event.update))

    update = Tick(id=1, bid=-1.0)
    deliveries.deliver([update.encode()], Listener(hear))
    whole = full(id=1, bid=-1.0)
    whole.clear("venue")
    assert told == [(whole, update)]
    state = deliveries.objects[key_of(update)]
    assert (state.payload, state.present) == (whole.encode(), int(whole.attributes))
    assert (state.created, state.created_from, state.operation) == (0.5, 2, "update")


@TWINS
@pytest.mark.parametrize("payload", [b"\xa1\x02\x01", b"\xa1\x01\x18\x01", b"\xff"])
def test_unusual_objects_are_not_stored(twin: Any, payload: bytes) -> None:
    deliveries = stored_tellings(twin)
    told: list[Any] = []
    call = deliveries.deliver([payload], Listener(told.append))
    assert call.owner == "owner"
    assert (deliveries.delivery.count, deliveries.objects, told) == (0, {}, [])
    assert not deliveries.delivery.is_checked


@TWINS
def test_object_with_another_subject_is_left_to_the_caller(twin: Any) -> None:
    deliveries = stored_tellings(twin, subject="/a")
    told: list[Any] = []
    tick = Tick(id=1)
    state = twin.ObjectState(tick.encode(), 2, "/b", 0.5, 2, 0.5, 2, Operation.CREATE, 0.5, 1)
    deliveries.objects[key_of(tick)] = state
    assert deliveries.deliver([tick.encode()], Listener(told.append)).owner == "owner"
    assert deliveries.delivery.is_checked
    assert (deliveries.delivery.count, told) == (0, [])
    assert deliveries.objects == {key_of(tick): state}


@TWINS
def test_kept_events_of_stored_objects_do_not_change(twin: Any) -> None:
    deliveries, kept = stored_tellings(twin), []

    def keep_some(event: Any) -> None:
        if event.object.id % 2:
            kept.append(event)

    ticks = [full(id=n % 4, bid=float(n)) for n in range(12)]
    deliveries.deliver([tick.encode() for tick in ticks], Listener(keep_some))
    assert [(event.operation, event.object) for event in kept] == [
        ("create" if n < 4 else "update", ticks[n]) for n in range(1, 12, 2)
    ]
    assert [event._entry.payload for event in kept] == [tick.encode() for tick in ticks[1::2]]


# -- the uncompiled build


def test_uncompiled_build_has_all_names_and_remembers_no_headers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = Path(hot_loops.__file__).with_name("hot_loops.py")
    spec = importlib.util.spec_from_file_location("uncompiled_hot_loops", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    inner = {"KnownHeader", "KnownHeaders"}
    assert [name for name in reference.__all__ if not hasattr(module, name)] == sorted(inner)
    relay, delivery = module.FrameRelay(2, 1e9), module.FrameDelivery()
    buffer = b"\x1a\x00\x00\x00\x00"
    assert relay.pass_on(buffer, 0, 100, 1.0, 10) is None
    assert delivery.deliver(buffer, 0, 100, module.ReceivedUpdate, 1, 1.0, 1, print) is None
    assert (relay.count, relay.is_new, delivery.count, delivery.is_new) == (0, False, 0, False)
    assert not relay.take_touched()
    delivery.end()
