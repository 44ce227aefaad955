"""Recognition of repeated headers.

A publisher sends many objects with the same header, except for its times. So the last header is
kept as the bytes around its times, and the next one is compared with them, which takes a fraction
of the time of decoding it.
"""

from __future__ import annotations

from librt.strings import read_f64_be, read_i64_be
from mypy_extensions import i64

from skerry.protocol.access.header import (
    NEVER,
    SENT_TIME,
    SERVER_SENT_TIME,
    Header,
    read_header,
)


class HeaderRepeat:
    """A received header, to be compared with the following ones.

    `is_usable` is False if its times are not at the usual offsets.
    """

    def __init__(self, body: bytes, size: int, header: Header) -> None:
        self.header: Header = header
        """The decoded header; its times are those of the first frame."""
        self.size: i64 = size
        name = len(header.type_name.encode("utf-8", "surrogateescape"))
        # The count of fields, the tag of the name, and the head of its text.
        sent_at: i64 = 2 + (1 if name < 24 else 2 if name < 256 else 3) + name + 2
        self.sent_at: i64 = sent_at
        self.is_usable: bool = _is_time(body, sent_at, size, SENT_TIME)
        self.has_server_time: bool = self.is_usable and _is_time(
            body, sent_at + 10, size, SERVER_SENT_TIME
        )
        rest_at = sent_at + (18 if self.has_server_time else 8)
        # A header without times may end before the usual offsets.
        self._first: _Words = _Words(body[:sent_at] if self.is_usable else b"")
        self._rest: _Words = _Words(body[rest_at:size] if self.is_usable else b"")
        self._rest_at: i64 = rest_at

    def fits(self, data: bytes, start: i64, stop: i64) -> bool:
        """Return whether the frame from `start` to `stop` has this header, with any times."""
        if stop - start < self.size or not self._first.are_at(data, start):
            return False
        if self.has_server_time:
            at = start + self.sent_at + 8
            if data[at] != SERVER_SENT_TIME or data[at + 1] != 0xFB:
                return False
        return self._rest.are_at(data, start + self._rest_at)

    def sent_time(self, data: bytes, start: i64) -> float:
        """Return the first time of a frame that fits."""
        return read_f64_be(data, start + self.sent_at)

    def server_sent_time(self, data: bytes, start: i64) -> float:
        """Return the second time of a frame that fits; NEVER if it has none."""
        return read_f64_be(data, start + self.sent_at + 10) if self.has_server_time else NEVER


class _Words:
    """Bytes to be compared with others, eight at a time if they are few."""

    def __init__(self, data: bytes) -> None:
        size: i64 = len(data)
        self._data: bytes = data
        self._size: i64 = size
        self._is_short: bool = 8 <= size <= 40
        # The last word overlaps the one before, so that no byte is left over.
        self._at_1: i64 = 8 if size >= 16 else size - 8
        self._at_2: i64 = 16 if size >= 24 else size - 8
        self._at_3: i64 = 24 if size >= 32 else size - 8
        self._at_4: i64 = size - 8
        self._word_0: i64 = 0
        self._word_1: i64 = 0
        self._word_2: i64 = 0
        self._word_3: i64 = 0
        self._word_4: i64 = 0
        if self._is_short:
            self._word_0 = read_i64_be(data, 0)
            self._word_1 = read_i64_be(data, self._at_1)
            self._word_2 = read_i64_be(data, self._at_2)
            self._word_3 = read_i64_be(data, self._at_3)
            self._word_4 = read_i64_be(data, self._at_4)

    def are_at(self, data: bytes, start: i64) -> bool:
        """Return whether these bytes are at `start`, where there are enough bytes."""
        if not self._is_short:
            return data[start : start + self._size] == self._data
        return (
            read_i64_be(data, start) == self._word_0
            and read_i64_be(data, start + self._at_1) == self._word_1
            and read_i64_be(data, start + self._at_2) == self._word_2
            and read_i64_be(data, start + self._at_3) == self._word_3
            and read_i64_be(data, start + self._at_4) == self._word_4
        )


def _is_time(body: bytes, at: i64, size: i64, tag: i64) -> bool:
    """Return whether a time with this tag is at the offset `at`."""
    return at + 8 <= size and body[at - 2] == tag and body[at - 1] == 0xFB


class HeaderReader:
    def __init__(self) -> None:
        self._repeat: HeaderRepeat | None = None
        self._last_name = ""

    def read(self, data: bytes) -> tuple[Header, int]:
        """The header at the beginning, and the offset of the object after it.

        The caller must not change the header, and may use it until the next call. Raises
        DecodeError if there is no valid header.
        """
        repeat = self._repeat
        if repeat is not None and repeat.fits(data, 0, len(data)):
            header = repeat.header
            header.sent_time = repeat.sent_time(data, 0)
            header.server_sent_time = repeat.server_sent_time(data, 0)
            # NEVER is not a valid time on the wire: `read_header` raises DecodeError for it.
            if header.sent_time != NEVER:
                return header, int(repeat.size)
        header, size = read_header(data, 0)
        self._note(data, size, header)
        return header, size

    def _note(self, data: bytes, size: int, header: Header) -> None:
        """Remember a header if its type is the same as before; otherwise it would not pay."""
        if header.type_name != self._last_name:
            self._last_name = header.type_name
            return
        repeat = HeaderRepeat(data, size, header)
        if repeat.is_usable:
            self._repeat = repeat
