"""The other loop gives what the first one gives, for any bytes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from skerry.protocol.distributor.receiving.plain_unpacking import (
    alike,
    plain_unpack,
    unpack_for_this_build,
)
from skerry.protocol.distributor.receiving.unpacking import unpack
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.wire import JAVA_WIRE, PYCAST_WIRE, DatagramWire

subject = st.sampled_from([b"", b"/a", b"/b/c", b"x", b"/\xe5"])
flag = st.sampled_from([0, 1, 1, 1, 2])


@st.composite
def bodies(draw: st.DrawFn) -> tuple[int, bytes]:
    """Updates as they are, or nearly so."""
    width = draw(st.sampled_from([2, 4]))
    body = b""
    for _ in range(draw(st.integers(0, 4))):
        name, data = draw(subject), draw(st.binary(max_size=5))
        body += bytes([draw(flag)]) + len(name).to_bytes(width, "big") + name
        body += bytes([draw(flag)]) + len(data).to_bytes(4, "big") + data
    return width, body


@given(bodies(), st.integers(0, 5), st.integers(0, 3), st.booleans())
@example((4, b"\x01\x00\x00\x00\x02/a\x00"), 1, 0, True)
def test_both_loops_give_the_same(
    body: tuple[int, bytes], count: int, missing: int, is_wanted: bool
) -> None:
    width, data = body
    datagram = bytes(24) + count.to_bytes(4, "big") + data
    datagram = datagram[: len(datagram) - missing]
    results = []
    for loop in (unpack, plain_unpack):
        subjects = Subjects()
        subjects.add("/..." if is_wanted else "/a", None)
        found: list[tuple[str, bytes]] = [("/before", b"")]
        is_sound = loop(datagram, width, subjects.memo, subjects, found)
        results.append((is_sound, found if is_sound else found[:1]))
    assert results[0] == results[1]


@given(st.binary(max_size=80))
def test_any_bytes_are_sound_or_not_in_both(data: bytes) -> None:
    datagram = bytes(27) + b"\x02" + data
    results = []
    for loop in (unpack, plain_unpack):
        subjects = Subjects()
        subjects.add("/...", None)
        found: list[tuple[str, bytes]] = []
        results.append((loop(datagram, 4, subjects.memo, subjects, found), found))
    assert results[0][0] == results[1][0]
    if results[0][0]:
        assert results[0][1] == results[1][1]


def test_compiled_code_is_used_where_there_is_some() -> None:
    is_compiled = not hasattr(unpack, "__code__")
    chosen = unpack_for_this_build()
    assert chosen is (unpack if is_compiled else plain_unpack)


@given(
    st.integers(1, 90),
    st.binary(max_size=3),
    st.sampled_from([JAVA_WIRE, PYCAST_WIRE]),
    st.integers(0, 40),
    st.binary(max_size=3),
)
def test_updates_alike_are_cut_all_at_once(
    count: int, data: bytes, wire: DatagramWire, place: int, around: bytes
) -> None:
    """Unless one byte is another one: then it is as `unpack` says, or nothing."""
    one = wire.subject_head(b"/a") + len(data).to_bytes(4, "big") + data
    body = bytearray(one * count)
    for value in (body[place % len(body)], 0, 1, 2, 255):
        body[place % len(body)] = value
        datagram = bytes(24) + count.to_bytes(4, "big") + bytes(body)
        subjects = Subjects()
        subjects.add("/a", None)
        subjects.memo[b"/a"] = "/a"
        first, stop = len(around), len(around) + len(datagram)
        whole = around + datagram + b"behind"
        found = alike(whole, first, stop, wire.text_length_bytes, subjects.memo)
        expected: list[tuple[str, bytes]] = []
        is_sound = unpack(datagram, wire.text_length_bytes, subjects.memo, subjects, expected)
        if found is not None:
            pairs: list[tuple[str, bytes]] = []
            found.take_into(pairs)
            assert is_sound
            assert pairs == expected
        else:
            assert bytes(body) != one * count


@given(st.binary(max_size=80), st.integers(-1, 5))
def test_any_bytes_are_alike_only_if_they_are_updates(data: bytes, count: int) -> None:
    datagram = bytes(24) + (count & 0xFFFFFFFF).to_bytes(4, "big") + data
    subjects = Subjects()
    subjects.add("/...", None)
    memo = {b"": "/", b"\0": "/0", b"/": "/1"}
    found = alike(datagram, 0, len(datagram), 4, memo)
    if found is not None:
        expected: list[tuple[str, bytes]] = []
        pairs: list[tuple[str, bytes]] = []
        assert unpack(datagram, 4, memo, subjects, expected)
        found.take_into(pairs)
        assert pairs == expected


def test_what_ends_too_early_or_is_not_wanted_is_not_alike() -> None:
    one = JAVA_WIRE.subject_head(b"/a") + bytes(4)
    datagram = bytes(24) + b"\0\0\0\1" + one
    assert alike(datagram, 0, len(datagram), 4, {b"/a": "/a"}) is not None
    assert alike(datagram, 0, len(datagram), 4, {b"/a": ""}) is None
    assert alike(datagram, 0, len(datagram), 4, {}) is None
    for stop in range(len(datagram)):
        assert alike(datagram[:stop], 0, stop, 4, {b"/a": "/a"}) is None
