"""Frames: streams are cut the same way however they arrive, and no further than the bounds."""

from __future__ import annotations

import gc
import io
import sys
import tracemalloc
from itertools import pairwise
from random import Random

import pytest

from skerry.codec.frame import FrameCutter, OldFrameCutter, buffer_bytes_max, frame, old_frame
from skerry.errors import DecodeError, EncodeError
from skerry.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX
from tests.old_frames import feed_pairs

BODIES = [b"", b"a", b"body", b"\x1a\x00\x00\x00\x05", bytes(300), bytes(70000)]


def payload_size(header: bytes) -> int:
    """In these tests the first byte of a header."""
    if not header:
        raise DecodeError(type_name="DotsTransportHeader", detail="empty")
    return header[0]


PAIRS = [(b"\x00", b""), (b"\x05head", b"hello"), (b"\xff" + bytes(400), bytes(255))]


def test_a_frame_has_five_bytes_in_front() -> None:
    assert frame(b"") == b"\x1a\x00\x00\x00\x00"
    assert frame(bytes(258)) == b"\x1a\x00\x00\x01\x02" + bytes(258)


def test_an_old_frame_has_the_size_of_its_header_in_front() -> None:
    assert old_frame(b"head", b"body") == b"\x04\x00headbody"
    assert old_frame(bytes(258), b"")[:2] == b"\x02\x01"


def test_an_old_header_fits_its_length_field_and_no_more() -> None:
    assert old_frame(bytes(HEADER_BYTES_MAX), b"")[:2] == b"\xff\xff"
    with pytest.raises(EncodeError, match="65536 bytes, the limit is 65535"):
        old_frame(bytes(HEADER_BYTES_MAX + 1), b"")


def pieces_of(data: bytes, seed: int) -> list[bytes]:
    if seed == 0:
        return [data]
    if seed == 1:
        return [data[n : n + 1] for n in range(len(data))]
    rng = Random(seed)
    cuts = sorted({0, len(data), *(rng.randrange(len(data)) for _ in range(20))})
    return [data[a:b] for a, b in pairwise(cuts)]


@pytest.mark.parametrize("seed", range(8))
def test_a_stream_is_cut_the_same_way_however_it_arrives(seed: int) -> None:
    cutter = FrameCutter()
    data = b"".join(map(frame, BODIES))
    assert [body for piece in pieces_of(data, seed) for body in cutter.feed(piece)] == BODIES
    assert cutter.held_bytes == 0


@pytest.mark.parametrize("seed", range(8))
def test_an_old_stream_is_cut_the_same_way_however_it_arrives(seed: int) -> None:
    cutter = OldFrameCutter(payload_size)
    data = b"".join(old_frame(*pair) for pair in PAIRS)
    assert [pair for piece in pieces_of(data, seed) for pair in feed_pairs(cutter, piece)] == PAIRS
    assert cutter.held_bytes == 0


def test_an_incomplete_frame_is_kept() -> None:
    cutter = FrameCutter()
    assert cutter.feed(b"") == []
    assert cutter.feed(b"\x1a\x00\x00") == []
    assert cutter.held_bytes >= 3
    assert cutter.feed(b"") == []
    assert cutter.feed(b"\x00\x03ab") == []
    assert cutter.held_bytes >= 7
    assert cutter.feed(b"c\x1a") == [b"abc"]
    assert cutter.held_bytes >= 1


def test_an_incomplete_frame_is_kept_in_a_version_1_stream() -> None:
    cutter = OldFrameCutter(payload_size)
    assert feed_pairs(cutter, b"\x01") == []
    assert feed_pairs(cutter, b"\x00\x02a") == []
    assert cutter.held_bytes >= 4
    assert feed_pairs(cutter, b"b\x01") == [(b"\x02", b"ab")]
    assert cutter.held_bytes >= 1


@pytest.mark.parametrize("first", [0x00, 0x18, 0x19, 0x1B, 0x9F, 0xA4, 0xFF])
def test_a_frame_that_begins_otherwise_is_refused(first: int) -> None:
    with pytest.raises(
        DecodeError, match=f"a frame begins with 0x1a, found 0x{first:02x} at byte 0"
    ):
        FrameCutter().feed(bytes((first,)))


def test_a_frame_is_cut_to_the_limit_and_no_further() -> None:
    assert FrameCutter(10).feed(frame(bytes(10))) == [bytes(10)]
    with pytest.raises(DecodeError, match="a frame of 11 bytes, the limit is 10 at byte 0"):
        FrameCutter(10).feed(frame(bytes(11))[:5])
    assert feed_pairs(OldFrameCutter(payload_size, 10), old_frame(b"\x09", bytes(9))) == [
        (b"\x09", bytes(9))
    ]
    with pytest.raises(DecodeError, match="a frame of 11 bytes, the limit is 10"):
        feed_pairs(OldFrameCutter(payload_size, 10), old_frame(b"\x0a", b""))


def test_the_usual_limit_is_that_of_a_payload_and_its_header() -> None:
    largest = FRAME_BYTES_MAX.to_bytes(4, "big")
    assert FrameCutter().feed(b"\x1a" + largest) == []
    for size in (FRAME_BYTES_MAX + 1, 2**31 - 1, 2**31, 2**32 - 1):
        with pytest.raises(DecodeError, match=f"a frame of {size} bytes, the limit is"):
            FrameCutter().feed(b"\x1a" + size.to_bytes(4, "big"))
    assert feed_pairs(OldFrameCutter(lambda _: FRAME_BYTES_MAX - 1), b"\x01\x00a") == []
    with pytest.raises(DecodeError, match="the limit is"):
        feed_pairs(OldFrameCutter(lambda _: FRAME_BYTES_MAX), b"\x01\x00a")


@pytest.mark.parametrize("fault", [b"\x00", b"\x1a\xff\xff\xff\xff"])
def test_frames_before_a_fault_are_given_first(fault: bytes) -> None:
    """Whether they came in one piece with it is the network's affair."""
    cutter = FrameCutter()
    assert cutter.feed(frame(b"one") + frame(b"two") + fault) == [b"one", b"two"]
    for data in (b"", b"more"):
        with pytest.raises(DecodeError, match="frame"):
            cutter.feed(data)
            cutter.feed(fault)


def test_frames_before_a_fault_are_given_first_in_an_old_stream() -> None:
    for fault in (b"\x00\x00", b"\x01\x00\xff"):
        cutter = OldFrameCutter(payload_size, 200)
        assert feed_pairs(cutter, old_frame(b"\x01", b"x") + fault) == [(b"\x01", b"x")]
        with pytest.raises(DecodeError):
            feed_pairs(cutter, b"")


def test_a_header_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(DecodeError, match="empty"):
        feed_pairs(OldFrameCutter(payload_size), b"\x00\x00")


@pytest.mark.slow
def buffers_of(cutter: FrameCutter) -> int:
    """Bytes that the buffers of a cutter take, measured by a look into it."""
    found: list[object] = []
    waiting: list[object] = [cutter]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (bytes, bytearray, io.BytesIO)):
            found.append(one)
        elif type(one).__module__ == FrameCutter.__module__:
            # Attributes are in a dict of their own if the module is not compiled.
            waiting += getattr(one, "__dict__", {}).values() or gc.get_referents(one)
    return sum(map(sys.getsizeof, found))


@pytest.mark.parametrize("size", [10, 3000, 70_000, 2_500_000])
@pytest.mark.parametrize("piece_size", [1, 1000, 65_536])
@pytest.mark.parametrize("is_old", [False, True])
def test_held_bytes_are_the_memory_of_the_buffer(size: int, piece_size: int, is_old: bool) -> None:
    piece_size = max(piece_size, size // 1000)
    cutter: FrameCutter = OldFrameCutter(lambda _: size) if is_old else FrameCutter()
    data = old_frame(b"head", bytes(size)) if is_old else frame(bytes(size))
    empty = buffers_of(cutter)
    for at in range(0, len(data) - 1, piece_size):
        piece = data[at : min(at + piece_size, len(data) - 1)]
        assert cutter.feed(piece) == []
        held = buffers_of(cutter) - empty
        assert held <= cutter.held_bytes <= buffer_bytes_max(at + len(piece)), at
    assert len(cutter.feed(data[-1:])) == 1
    assert cutter.held_bytes == 0
    assert buffers_of(cutter) <= empty + 100


def test_a_frame_in_tiny_parts_takes_little_more_memory_than_its_bytes() -> None:
    size = 500_000
    piece = b"ab"
    cutter = FrameCutter()
    cutter.feed(b"\x1a" + size.to_bytes(4, "big"))
    tracemalloc.start()
    for _ in range(size // len(piece) - 1):
        assert cutter.feed(piece) == []
    waiting, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cutter.held_bytes >= size + 5 - len(piece)
    assert waiting < 2 * size
    assert peak < 3 * size
    assert cutter.feed(piece) == [piece * (size // 2)]


def test_a_caller_can_skip_frames() -> None:
    cutter = FrameCutter(frame_bytes_max=400)
    bodies = [b"one", b"two", b"three", b"four"]
    cutter.load(b"".join(frame(body) for body in bodies))
    assert cutter.step()
    cutter.skip(2 * 8 + 5, 2 * 8 + 10, 2)
    assert (cutter.body(), cutter.frame_count) == (b"three", 3)
    assert cutter.step()
    assert (cutter.body(), cutter.frame_count) == (b"four", 4)
    assert not cutter.step()
    assert cutter.frame_bytes_max == 400


@pytest.mark.parametrize("seed", range(8))
def test_a_frame_above_the_limit_is_skipped_however_it_arrives(seed: int) -> None:
    cutter = FrameCutter(100)
    cutter.skips_large = True
    large = b"begin" + bytes(9000)
    data = b"".join(map(frame, [b"one", large, b"two", bytes(101), bytes(102), b"three"]))
    bodies = [body for piece in pieces_of(data, seed) for body in cutter.feed(piece)]
    assert bodies == [b"one", b"two", b"three"]
    assert [(one.size, one.begin) for one in cutter.skipped] == [
        (9005, large[:4096]),
        (101, bytes(101)),
        (102, bytes(102)),
    ]
    assert cutter.held_bytes == 0


@pytest.mark.parametrize("seed", range(8))
def test_an_old_frame_above_the_limit_is_skipped_however_it_arrives(seed: int) -> None:
    cutter = OldFrameCutter(payload_size, 100)
    cutter.skips_large = True
    header = b"\xff" + bytes(400)
    pairs = [(b"\x01", b"x"), (header, bytes(255)), (b"\x02", b"ab")]
    data = b"".join(old_frame(*pair) for pair in pairs)
    found = [pair for piece in pieces_of(data, seed) for pair in feed_pairs(cutter, piece)]
    assert found == [pairs[0], pairs[2]]
    assert [(one.size, one.begin) for one in cutter.skipped] == [(401 + 255, header)]


def test_a_frame_above_the_limit_is_listed_by_its_first_bytes_and_takes_no_memory() -> None:
    cutter = FrameCutter(100)
    cutter.skips_large = True
    assert cutter.feed(b"\x1a" + (2**32 - 1).to_bytes(4, "big") + bytes(4095)) == []
    assert cutter.skipped == []
    assert cutter.feed(b"\x00") == []
    assert [one.size for one in cutter.skipped] == [2**32 - 1]
    for _ in range(100):
        assert cutter.feed(bytes(100_000)) == []
    assert cutter.held_bytes == 0


def test_another_limit_holds_from_the_next_frame_on() -> None:
    cutter, old = FrameCutter(10), OldFrameCutter(payload_size, 10)
    for one in (cutter, old):
        one.limit_frames(20)
    assert cutter.feed(frame(bytes(20))) == [bytes(20)]
    assert feed_pairs(old, old_frame(b"\x13", bytes(19))) == [(b"\x13", bytes(19))]
    with pytest.raises(DecodeError, match="a frame of 21 bytes, the limit is 20"):
        cutter.feed(frame(bytes(21)))


def test_only_so_many_skipped_frames_are_listed() -> None:
    cutter = FrameCutter(1)
    cutter.skips_large = True
    assert cutter.feed(frame(b"ab") * 300 + frame(b"x")) == [b"x"]
    assert len(cutter.skipped) == 100
