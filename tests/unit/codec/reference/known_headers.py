"""Finds headers that were received before by their bytes, without decoding them."""

from __future__ import annotations

import struct
from typing import Any

from skerry.limits import HEADER_MEMO_BYTES_MAX, HEADER_MEMO_COUNT_MAX
from tests.unit.codec.reference.frames import DOUBLE, PREFIX_BYTES

Parts = tuple[bytes, bytes, bool]
"""The bytes of a header before and after its times, and whether it has two times."""
SurveyedFrame = tuple[Parts, float, float, int, bytes, int]
"""A frame: the parts of its header, both times, the number of bytes before the object, the object,
and the offset of the end of the frame."""


class RouteVersion:
    """Version of the facts that are cached about a type. `shut` invalidates them."""

    def __init__(self) -> None:
        self.number = 1

    def shut(self) -> None:
        """Invalidate everything that was cached before."""
        self.number += 1


class KnownHeader:
    """A header that was received before, with facts that are valid until its gate is shut."""

    def __init__(self, owner: Any, parts: Parts) -> None:
        """`parts` is the result of `KnownHeaders.parts`."""
        self.owner = owner
        self._parts = parts
        self._gate: RouteVersion | None = None
        self._number = 0

    @property
    def is_open(self) -> bool:
        """Whether the cached facts are valid."""
        return self._gate is not None and self._gate.number == self._number


class KnownHeaders:
    """Headers that were received before, found by their bytes.

    Their number is bounded. A header that is no longer used is replaced by another one.
    """

    def __init__(self, version: int) -> None:
        self._version = version
        self._all: dict[Parts, Any] = {}
        self._frame: SurveyedFrame | None = None
        self.is_new = False
        """Whether the current frame is complete and has an unknown header."""

    def __len__(self) -> int:
        return len(self._all)

    def payload(self) -> bytes:
        """The object of the current frame."""
        return self._look()[4]

    def parts(self) -> Parts:
        """The bytes of its header before and after its times, and whether it has two times."""
        return self._look()[0]

    def wants(self) -> bool:
        """Whether its header, which is unknown, should be remembered with `learn`."""
        return self._look()[3] <= HEADER_MEMO_BYTES_MAX

    def learn(self, one: KnownHeader) -> None:
        """Remember the header of the current frame, for which `wants` returned true."""
        if len(self._all) >= HEADER_MEMO_COUNT_MAX:
            del self._all[next(iter(self._all))]
        self._all[self.parts()] = one

    def forget(self, one: KnownHeader | None = None) -> None:
        if one is None:
            self._all.clear()
        else:
            self._all.pop(one._parts, None)

    def _look(self) -> SurveyedFrame:
        if self._frame is None:
            raise ValueError("there is no current frame")
        return self._frame


def survey(data: bytes, start: int, bytes_max: int, version: int) -> SurveyedFrame | None:
    """The parts of the frame at `start`; None if it is incomplete or has an unusual header."""
    try:
        if version == 1:
            first_at = start + 2
            end = first_at + int.from_bytes(data[start:first_at], "little")
            at = _text_end(data, first_at + 2, end)
            is_usual = data[first_at : first_at + 2] == b"\xa3\x02" and data[at] == 0x03
            at += 1
            stop = end
        else:
            first_at = at = start + PREFIX_BYTES
            end = stop = first_at + int.from_bytes(data[start + 1 : first_at], "big")
            is_usual = data[start] == 0x1A and end - first_at <= bytes_max
        count = data[at] - 0xA2
        if not is_usual or data[at + 1] != 0x01 or not 0 <= count <= 21:
            return None
        time_at = _text_end(data, at + 2, end) + 2
        if data[time_at - 2 : time_at] != b"\x02\xfb":
            return None
        at = time_at + 8
        has_second = count > 0 and data[at : at + 2] == b"\x07\xfb"
        if has_second:
            at, count = at + 10, count - 1
        rest_at = at
        for _ in range(count):
            if data[at] > 23:
                return None
            at = _entry_end(data, at + 1, end)
        rest = data[rest_at:at]
        if version == 1:
            if data[at] != 0x04 or data[at + 1] >= 0x20:
                return None
            size, after = _argument(data, at + 1)
            if after != end or size + end - first_at > bytes_max:
                return None
            at, stop = end, end + size
        if at > end or stop > len(data):
            return None
        parts = (data[first_at:time_at], rest, has_second)
        second: float = DOUBLE.unpack_from(data, time_at + 10)[0] if has_second else 0.0
        sent: float = DOUBLE.unpack_from(data, time_at)[0]
        return parts, sent, second, at - start, data[at:stop], stop
    except (IndexError, ValueError, struct.error):
        return None


def _text_end(data: bytes, at: int, end: int) -> int:
    if data[at] >> 5 != 3:
        raise ValueError("not a text")
    size, at = _argument(data, at)
    if at + size > end:
        raise ValueError("the text is incomplete")
    return at + size


def _entry_end(data: bytes, at: int, end: int) -> int:
    first = data[at]
    if first in (0xF4, 0xF5):
        return at + 1
    if first == 0xFB:
        return at + 9
    return _argument(data, at)[1] if first < 0x40 else _text_end(data, at, end)


def _argument(data: bytes, at: int) -> tuple[int, int]:
    info = data[at] & 0x1F
    if info < 24:
        return info, at + 1
    if info > 27:
        raise ValueError("not a head")
    after = at + 1 + (1 << (info - 24))
    return int.from_bytes(data[at + 1 : after], "big"), after
