"""The other loop gives what the first one gives, for any bytes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from skerry.protocol.distributor.plain_unpacking import plain_unpack, unpack_for_this_build
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.unpacking import unpack

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
