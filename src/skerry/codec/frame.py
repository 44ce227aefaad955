"""Frames on a byte stream: splits the stream into frames, and makes frames.

In version 2, the common size of header and object precedes them, as a CBOR number that always takes
five bytes. In version 1, the size of the header precedes it, and the header has the size of the
object. A cutter receives bytes in parts of any size and returns complete frames. After a
DecodeError the rest of the stream cannot be read. The division into parts makes no difference:
frames before a fault are returned first, and the next call, also one without bytes, raises it.

A frame above the limit is such a fault. A cutter with `skips_large` drops the bytes of the frame as
they arrive instead, lists it in `skipped` and continues with the next frame.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Final

from mypy_extensions import i64

from skerry.errors import DecodeError, EncodeError
from skerry.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX

PREFIX_BYTES: Final = 5
"""Size of the length prefix of a version 2 frame."""
_PREFIX: Final = 0x1A
LARGE_FRAME_BYTES: Final = 128 * 1024
"""Frames from this size on are handled with as few copies as possible. For smaller frames, that
would cost more than the copies."""
_BUFFER_BYTES: Final = 256
"""Memory that a buffer takes besides its bytes."""
_BEGIN_BYTES_MAX: Final = 4096
"""Bytes that are kept of a skipped frame. Usually they hold its header."""
_SKIPPED_COUNT_MAX: Final = 100
"""Skipped frames that are listed for one part of the stream."""


class Skipped:
    """A frame that was dropped because of its size."""

    def __init__(self, size: int, begin: bytes) -> None:
        self.size: int = size
        """The size of header and object."""
        self.begin: bytes = begin
        """Its first bytes, or the header of version 1."""


class FrameCutter:
    """Splits a version 2 stream into frame bodies: header and object, without the size.

    `feed` returns all bodies at once. The faster way is `load`, after which each `step` moves to
    the next body, which is in `buffer` from `start` to `stop`.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._stream: _Stream = _Stream()
        self._frame_bytes_max: i64 = frame_bytes_max
        self.skips_large: bool = False
        """Whether frames above the limit are skipped. Otherwise they are a fault."""
        self.skipped: list[Skipped] = []
        """Skipped frames. The caller removes them."""
        self._dropped: _DroppedFrame = _DroppedFrame()
        self.buffer: bytes = b""
        self.start: i64 = 0
        self.stop: i64 = 0
        self._before: i64 = 0
        self.frame_count: i64 = 0
        """Frames that `step` returned since `load`."""
        self._fault: DecodeError | None = None
        """The fault after the frames that were returned."""

    def feed(self, data: bytes) -> list[bytes]:
        """Receive bytes of the stream and return the bodies that are complete now."""
        bodies: list[bytes] = []
        self.load(data)
        while self.step():
            bodies.append(self.body())
        return bodies

    def load(self, data: bytes) -> None:
        """Receive bytes of the stream. Raises the fault that followed the last frames."""
        if self._fault is not None:
            raise self._fault
        if self._dropped.left:
            data = self._dropped.drop(data, self.skipped)
        self.buffer = self._stream.take(data)
        self.start = 0
        self.stop = 0
        self.frame_count = 0

    def step(self) -> bool:
        """Move to the next frame. False if it is not complete; then its bytes are kept."""
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
                    return self._skip_large(body, pos, pos + PREFIX_BYTES, b"")
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
        """Move to the frame from `start` to `stop`, which is `count` frames after this one."""
        self.start = start
        self.stop = stop
        self.frame_count += count

    def back(self) -> None:
        """Undo the last `step`."""
        self.stop = self._before
        self.frame_count -= 1

    @property
    def frame_bytes_max(self) -> int:
        """The longest body that is accepted."""
        return int(self._frame_bytes_max)

    @property
    def has_fault(self) -> bool:
        """Whether the next `load` raises a fault."""
        return self._fault is not None

    def limit_frames(self, frame_bytes_max: int) -> None:
        """Accept bodies up to another length, from the next frame on."""
        self._frame_bytes_max = frame_bytes_max

    def _skip_large(self, body: i64, pos: i64, start: i64, header: bytes) -> bool:
        """Skip a frame above the limit at `pos`. Returns whether a complete frame follows it.

        Its body begins at `start`.
        """
        if not self.skips_large:
            self._refuse(_too_large(int(body), int(self._frame_bytes_max)), pos)
            return False
        rest = self._dropped.start(int(body), header, self.buffer[start:], self.skipped)
        if self._dropped.left:
            self._clear()
            return False
        self.stop = len(self.buffer) - rest
        return self.step()

    def body(self) -> bytes:
        """The current body."""
        return self.buffer[self.start : self.stop]

    @property
    def held_bytes(self) -> int:
        """Memory of the buffer of an incomplete frame; 0 without one."""
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
    """Splits a version 1 stream into frames: a header up to `middle`, and an object after it."""

    def __init__(
        self, payload_size: Callable[[bytes], int], frame_bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        super().__init__(frame_bytes_max)
        self._payload_size: Callable[[bytes], int] = payload_size
        """Returns the size of the object from a header."""
        self.middle: i64 = 0

    def step(self) -> bool:
        """Move to the next frame. False if it is not complete; then its bytes are kept."""
        buffer = self.buffer
        left: i64 = len(buffer) - self.stop
        pos = self.stop
        wanted: i64 = 2
        if left >= wanted:
            # The byte order is that of the sender, which is this one on all supported computers.
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
                return self._skip_large(size, pos, start, buffer[start:middle])
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
        return self.buffer[self.start : self.middle]

    def payload(self) -> bytes:
        """The object of the current frame."""
        return self.buffer[self.middle : self.stop]


def buffer_bytes_max(frame_bytes: int) -> int:
    """The most memory that the buffer of `frame_bytes` of an incomplete frame takes.

    Buffers of Python grow by an eighth more than needed.
    """
    return frame_bytes + frame_bytes // 8 + _BUFFER_BYTES


def frame(body: bytes) -> bytes:
    """A version 2 frame around header and object."""
    _check_size(len(body))
    return b"\x1a" + len(body).to_bytes(4, "big") + body


def large_frame(header: bytes, payload: bytes) -> bytes:
    """A version 2 frame of header and object, made with one copy of the object."""
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


class _DroppedFrame:
    """A frame that is dropped as it arrives.

    It is listed as soon as its first bytes, which have its type, arrived.
    """

    def __init__(self) -> None:
        self.left: int = 0
        """Bytes of it that have not arrived."""
        self._size: int = 0
        self._begin: bytes = b""
        self._missing: int = 0
        self._is_listed: bool = True

    def start(self, size: int, header: bytes, data: bytes, skipped: list[Skipped]) -> int:
        """Drop a frame of `size` bytes, of which `data` arrived. Returns the rest size of `data`.

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
    """The bytes of an incomplete frame.

    A large frame arrives in many parts, as small as its sender likes. They are joined in one
    buffer, so that they take little more memory than their bytes. The buffer grows as they arrive,
    because a sender can announce any size at no cost.
    """

    def __init__(self) -> None:
        self._waiting: bytearray = bytearray()
        self._large: BytesIO | None = None
        """The buffer of a large frame. Unlike `_waiting`, it is returned without a copy."""
        self._count: i64 = 0
        self._wanted: i64 = 0
        self.held_bytes: i64 = 0
        """Upper bound of the memory of the buffer; 0 if it is empty."""

    def take(self, data: bytes) -> bytes:
        """The kept bytes followed by `data`, or nothing while these are too few."""
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
        """Keep the bytes from `pos` on until `wanted` bytes have arrived."""
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
        # An upper bound, since asking the buffer takes longer than all of the above.
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
