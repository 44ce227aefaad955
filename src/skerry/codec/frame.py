"""Frames on a byte stream: where one ends and the next begins.

Version 2 puts the size of header and object together in front, as a CBOR number that always takes
five bytes. Version 1 puts the size of its header in front, and the header has the object's size.
A cutter takes bytes as they come, in any pieces, and gives whole frames. After a DecodeError its
stream cannot be followed any more. How the bytes were cut on their way makes no difference: frames
before a fault are given first, and the next call, also one without bytes, raises it.

A frame above the limit is such a fault. A cutter with `skips_large` drops its bytes instead, as
they come, lists it in `skipped` and goes on with the next frame.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Final

from mypy_extensions import i64

from skerry.errors import DecodeError, EncodeError
from skerry.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX

__all__ = [
    "LARGE_FRAME_BYTES",
    "PREFIX_BYTES",
    "FrameCutter",
    "OldFrameCutter",
    "Skipped",
    "buffer_bytes_max",
    "frame",
    "large_frame",
    "old_frame",
]

PREFIX_BYTES: Final = 5
"""In front of each frame of version 2: its size."""
_PREFIX: Final = 0x1A
LARGE_FRAME_BYTES: Final = 128 * 1024
"""Frames from this size on are handled with as few copies as possible; for smaller ones that would
cost more than the copies."""
_BUFFER_BYTES: Final = 256
"""What a buffer takes besides its bytes."""
_BEGIN_BYTES_MAX: Final = 4096
"""Bytes that are kept of a skipped frame: its header, as a rule."""
_SKIPPED_COUNT_MAX: Final = 100
"""Skipped frames of one piece of the stream that are listed one by one."""


class Skipped:
    """A frame that was dropped because of its size."""

    def __init__(self, size: int, begin: bytes) -> None:
        self.size: int = size
        """The size of header and object."""
        self.begin: bytes = begin
        """Its first bytes, or the header of version 1."""


class FrameCutter:
    """Cuts a version 2 stream into frame bodies: header and object, without the size.

    Either `feed` gives all bodies of some bytes at once. Or, for who counts nanoseconds, after
    `load` each `step` goes to the next one, which lies in `buffer` from `start` to `stop`.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._stream: _Stream = _Stream()
        self._frame_bytes_max: i64 = frame_bytes_max
        self.skips_large: bool = False
        """Whether frames above the limit are skipped; else they are a fault."""
        self.skipped: list[Skipped] = []
        """Skipped frames; the caller takes them out."""
        self._passing: _Passing = _Passing()
        self.buffer: bytes = b""
        self.start: i64 = 0
        self.stop: i64 = 0
        self._before: i64 = 0
        self.frame_count: i64 = 0
        """Frames that `step` went to since `load`."""
        self._fault: DecodeError | None = None
        """What is wrong behind the frames that were given."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes from the stream; give the bodies that are whole now."""
        bodies: list[bytes] = []
        self.load(data)
        while self.step():
            bodies.append(self.body())
        return bodies

    def load(self, data: bytes) -> None:
        """Take bytes from the stream. Raises the fault that stood behind the last frames."""
        if self._fault is not None:
            raise self._fault
        if self._passing.left:
            data = self._passing.drop(data, self.skipped)
        self.buffer = self._stream.take(data)
        self.start = 0
        self.stop = 0
        self.frame_count = 0

    def step(self) -> bool:
        """Go to the next frame; false if none is complete: the rest waits for more bytes."""
        buffer = self.buffer
        size: i64 = len(buffer)
        pos = self.stop
        wanted: i64 = PREFIX_BYTES
        if pos < size:
            if buffer[pos] != _PREFIX:
                self._refuse(f"a frame begins with 0x1a, found 0x{buffer[pos]:02x}", pos)
                return False
            if size - pos >= PREFIX_BYTES:
                body: i64 = (
                    (i64(buffer[pos + 1]) << 24)
                    | (i64(buffer[pos + 2]) << 16)
                    | (i64(buffer[pos + 3]) << 8)
                    | i64(buffer[pos + 4])
                )
                if body > self._frame_bytes_max:
                    return self._met_large(body, pos, pos + PREFIX_BYTES, b"")
                wanted = PREFIX_BYTES + body
                if size - pos >= wanted:
                    self._before = pos
                    self.start = pos + PREFIX_BYTES
                    self.stop = pos + wanted
                    self.frame_count += 1
                    return True
        self._stream.keep(buffer, pos, wanted)
        self._clear()
        return False

    def skip(self, start: int, stop: int, count: int) -> None:
        """Go to the frame from `start` to `stop`, which is so many behind this one."""
        self.start = start
        self.stop = stop
        self.frame_count += count

    def back(self) -> None:
        """Go back to before the frame that `step` went to."""
        self.stop = self._before
        self.frame_count -= 1

    @property
    def frame_bytes_max(self) -> int:
        """The longest body that is let through."""
        return int(self._frame_bytes_max)

    @property
    def has_fault(self) -> bool:
        """Whether the next `load` raises a fault."""
        return self._fault is not None

    def limit_frames(self, frame_bytes_max: int) -> None:
        """Accept bodies up to another length, from the next frame on."""
        self._frame_bytes_max = frame_bytes_max

    def _met_large(self, body: i64, pos: i64, start: i64, header: bytes) -> bool:
        """Skip a frame above the limit at `pos`; whether a complete one follows it.

        Its body begins at `start`.
        """
        if not self.skips_large:
            self._refuse(_too_large(int(body), int(self._frame_bytes_max)), pos)
            return False
        rest = self._passing.start(int(body), header, self.buffer[start:], self.skipped)
        if self._passing.left:
            self._clear()
            return False
        self.stop = len(self.buffer) - rest
        return self.step()

    def body(self) -> bytes:
        """The frame that `step` went to."""
        return self.buffer[self.start : self.stop]

    @property
    def held_bytes(self) -> int:
        """The memory of the buffer of a frame that is not whole yet; 0 if there is none."""
        return int(self._stream.held_bytes)

    def _refuse(self, detail: str, pos: i64) -> None:
        self._fail(DecodeError(type_name="frame", detail=detail, offset=int(pos)))

    def _fail(self, fault: DecodeError) -> None:
        """Frames before a fault are returned first; the next `load` raises it."""
        self._fault = fault
        self._clear()
        if self.frame_count == 0:
            raise fault

    def _clear(self) -> None:
        self.buffer = b""
        self.start = 0
        self.stop = 0


class OldFrameCutter(FrameCutter):
    """Cuts a version 1 stream into frames of a header, up to `middle`, and an object after it."""

    def __init__(
        self, payload_size: Callable[[bytes], int], frame_bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        super().__init__(frame_bytes_max)
        self._payload_size: Callable[[bytes], int] = payload_size
        """Reads the object's size out of a header."""
        self.middle: i64 = 0

    def feed_pairs(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Take bytes from the stream; give the headers and objects that are whole now."""
        pairs: list[tuple[bytes, bytes]] = []
        self.load(data)
        while self.step():
            pairs.append((self.header(), self.payload()))
        return pairs

    def step(self) -> bool:
        """Go to the next frame; false if none is complete: the rest waits for more bytes."""
        buffer = self.buffer
        left: i64 = len(buffer) - self.stop
        pos = self.stop
        wanted: i64 = 2
        if left >= wanted:
            # The byte order is the sender's own, which is this one on every computer in use.
            wanted += i64(buffer[pos]) | i64(buffer[pos + 1]) << 8
        if left >= 2 and left >= wanted:
            start, middle = pos + 2, pos + wanted
            try:
                payload: i64 = self._payload_size(buffer[start:middle])
            except DecodeError as error:
                self._fail(error)
                return False
            size = payload + middle - start
            if size > self._frame_bytes_max:
                return self._met_large(size, pos, start, buffer[start:middle])
            wanted += payload
            if left >= wanted:
                self._before = pos
                self.start = start
                self.middle = middle
                self.stop = pos + wanted
                self.frame_count += 1
                return True
        self._stream.keep(buffer, pos, wanted)
        self._clear()
        return False

    def header(self) -> bytes:
        """The header of the frame that `step` went to."""
        return self.buffer[self.start : self.middle]

    def payload(self) -> bytes:
        """The object of the frame that `step` went to."""
        return self.buffer[self.middle : self.stop]


def buffer_bytes_max(frame_bytes: int) -> int:
    """The most memory that the buffer of so many bytes of an unfinished frame takes.

    Python's buffers grow by an eighth more than they need.
    """
    return frame_bytes + frame_bytes // 8 + _BUFFER_BYTES


def frame(body: bytes) -> bytes:
    """A version 2 frame around header and object."""
    _check_size(len(body))
    return b"\x1a" + len(body).to_bytes(4, "big") + body


def large_frame(header: bytes, payload: bytes) -> bytes:
    """A version 2 frame of header and object, made by one copy of the object."""
    size = len(header) + len(payload)
    _check_size(size)
    return b"".join((b"\x1a", size.to_bytes(4, "big"), header, payload))


def old_frame(header: bytes, payload: bytes) -> bytes:
    """A version 1 frame of header and object."""
    if len(header) > HEADER_BYTES_MAX:
        detail = f"a header of {len(header)} bytes, the limit is {HEADER_BYTES_MAX}"
        raise EncodeError(type_name="frame", field="", detail=detail)
    _check_size(len(header) + len(payload))
    return b"".join((len(header).to_bytes(2, "little"), header, payload))


def _check_size(size: int) -> None:
    if size > FRAME_BYTES_MAX:
        detail = f"a frame of {size} bytes, the limit is {FRAME_BYTES_MAX}"
        raise EncodeError(type_name="frame", field="", detail=detail)


class _Passing:
    """A frame that is dropped as it arrives.

    It is listed as soon as its first bytes arrived, which have its type.
    """

    def __init__(self) -> None:
        self.left: int = 0
        """Bytes of it that are still to come."""
        self._size: int = 0
        self._begin: bytes = b""
        self._missing: int = 0
        self._is_listed: bool = True

    def start(self, size: int, header: bytes, data: bytes, skipped: list[Skipped]) -> int:
        """Drop a frame of so many bytes, of which `data` arrived; returns how much of that is left.

        Its header is kept, or its first bytes if the size of the header is unknown.
        """
        self._size = self.left = size
        self._begin = header
        self._missing = 0 if header else _BEGIN_BYTES_MAX
        self._is_listed = False
        return len(self.drop(data, skipped))

    def drop(self, data: bytes, skipped: list[Skipped]) -> bytes:
        """Drop more bytes of the frame; returns the bytes after it."""
        if self._missing:
            more = data[: min(self._missing, self.left)]
            self._begin += more
            self._missing -= len(more)
        rest = data[self.left :]
        self.left -= len(data) - len(rest)
        if not self._is_listed and (not self._missing or not self.left):
            self._is_listed = True
            if len(skipped) < _SKIPPED_COUNT_MAX:
                skipped.append(Skipped(self._size, self._begin))
        return rest


class _Stream:
    """Bytes that wait for the rest of their frame.

    A large frame comes in many small pieces, as small as its sender likes; they are put together
    in one buffer, so that they take little more memory than their bytes. The buffer grows as they
    arrive, since the size in front of a frame costs its sender nothing.
    """

    def __init__(self) -> None:
        self._waiting: bytearray = bytearray()
        self._large: BytesIO | None = None
        """The buffer of a large frame; unlike `_waiting`, it is handed out without a copy."""
        self._count: i64 = 0
        self._wanted: i64 = 0
        self.held_bytes: i64 = 0
        """The memory of the buffer, at most; 0 if nothing waits."""

    def take(self, data: bytes) -> bytes:
        """All that waits with `data` behind it, or nothing while that is too little."""
        if self._count == 0:
            return data
        if self._count + len(data) < self._wanted:
            self._append(data)
            return b""
        joined = self._joined(data)
        self._count = 0
        self.held_bytes = 0
        return joined

    def keep(self, buffer: bytes, pos: i64, wanted: i64) -> None:
        """Let the bytes from `pos` on wait until there are as many as wanted."""
        if pos < len(buffer):
            self._wanted = wanted
            if wanted >= LARGE_FRAME_BYTES:
                self._large = BytesIO()
            self._append(buffer[pos:])

    def _append(self, data: bytes) -> None:
        self._count += len(data)
        if self._large is None:
            self._waiting += data
        else:
            self._large.write(data)
        # The most that it may be: asking the buffer itself takes longer than the rest.
        self.held_bytes = self._count + (self._count >> 3) + _BUFFER_BYTES

    def _joined(self, data: bytes) -> bytes:
        if self._large is None:
            joined = b"".join((self._waiting, data))
            self._waiting.clear()
            return joined
        self._large.write(data)
        joined = self._large.getvalue()
        self._large = None
        return joined


def _too_large(size: int, limit: int) -> str:
    return f"a frame of {size} bytes, the limit is {limit}"
