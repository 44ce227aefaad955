"""Large updates: cut so that datagrams are full, put together only if all is there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import DecodeError
from skerry.protocol.distributor.messages import END, MORE, START
from skerry.protocol.distributor.segments import Reassembly, cut, first_piece
from skerry.protocol.distributor.wire import JAVA_WIRE

HEAD = JAVA_WIRE.subject_head(b"/foo/large")


def test_sizes_are_those_of_the_java_program() -> None:
    pieces = cut(HEAD, bytes(20_000), room=8192 - 28)
    assert [flags for flags, _ in pieces] == [START, MORE, END]
    assert [len(body) + 28 for _, body in pieces] == [8192, 8192, 3720]


@given(st.binary(min_size=1, max_size=400), st.integers(30, 90))
def test_a_cut_update_is_reassembled(data: bytes, room: int) -> None:
    if len(HEAD) + 4 + len(data) <= room:
        return
    pieces = cut(HEAD, data, room=room)
    assert len(pieces) >= 2
    assert all(len(body) == room for _, body in pieces[:-1])
    assert 0 < len(pieces[-1][1]) <= room
    assert [flags for flags, _ in pieces] == [START, *[MORE] * (len(pieces) - 2), END]
    subject, total, first = first_piece(bytes(28) + pieces[0][1], text_length_bytes=4)
    whole = Reassembly(subject.decode(), total, 1)
    assert whole.add(first)
    assert all(whole.add(body) for _, body in pieces[1:])
    assert (whole.subject, whole.whole()) == ("/foo/large", data)


def test_a_piece_too_many_is_noticed_at_once_and_one_too_few_at_the_end() -> None:
    whole = Reassembly("/a", 5, 1)
    assert whole.add(b"1234")
    assert whole.whole() is None
    assert whole.add(b"5")
    assert whole.whole() == b"12345"
    assert not whole.add(b"6")
    assert whole.whole() is None


def test_pieces_without_data_take_no_memory() -> None:
    whole = Reassembly("/a", 2, 1)
    for _ in range(1000):
        assert whole.add(b"")
    assert whole.add(b"12")
    assert whole._pieces == [b"12"]
    assert whole.whole() == b"12"


def test_only_the_size_of_an_update_without_subscribers_is_kept() -> None:
    whole = Reassembly("", 4, 1)
    assert whole.add(b"1234")
    assert whole.whole() == b""
    assert not whole.add(b"5")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"\x01\x00\x00\x00\x09/a",
        b"\x01\x00\x00\x00\x02/a",
        b"\x01\x00\x00\x00\x02/a\x00",
        b"\x01\x00\x00\x00\x02/a\x01\x00\x00",
    ],
    ids=["empty", "no subject", "subject too long", "no data", "null data", "no length"],
)
def test_a_malformed_first_piece_is_refused(body: bytes) -> None:
    with pytest.raises(DecodeError):
        first_piece(bytes(28) + body, text_length_bytes=4)
