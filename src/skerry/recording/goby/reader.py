"""Reads the bytes of a Goby log.

Damage does not end the reading: the reader searches the next magic word from the data of the
damaged entry on, so that only damaged entries are lost, and reports which bytes it left out.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from skerry.recording.goby.entries import (
    GOBY_ENTRY_BYTES_MAX,
    GOBY_LOG_VERSION,
    GROUP_INDEX,
    HEAD_BYTES,
    MAGIC,
    NUMBERS,
    NUMBERS_AND_TIME,
    SCHEME_WORD,
    TYPE_INDEX,
    WORD,
    GobyLogEntry,
)

GOBY_DAMAGE_REPORT_MAX: Final = 1000
"""Damages that a reader describes; further ones are only counted."""

_TIMED_VERSION: Final = 3
_PREFIXED_VERSION: Final = 2
"""The first versions with times, and with the scheme before names."""


class LogBytes(Protocol):
    """The content of a log: bytes, or a mapped file."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: slice, /) -> bytes: ...
    def find(self, sub: bytes, start: int = ..., stop: int = ..., /) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GobyLogDamage:
    """Bytes of a log that could not be read."""

    offset: int
    size: int
    """Bytes that were left out."""
    detail: str

    def __str__(self) -> str:
        return f"offset {self.offset}: {self.detail}; {self.size} bytes are left out"


class GobyLogReader:
    """Iterates over the entries of one log; entries that name groups and types are not returned."""

    def __init__(self, content: LogBytes) -> None:
        self._content = content
        self._size = len(content)
        self._names: dict[int, dict[tuple[int, int], str]] = {GROUP_INDEX: {}, TYPE_INDEX: {}}
        self.damages: list[GobyLogDamage] = []
        """What could not be read so far, at most GOBY_DAMAGE_REPORT_MAX."""
        self.damage_count = 0
        self.lost_byte_count = 0
        self.unnamed_count = 0
        """Entries whose group or type has no name, since the entry that names it is lost."""
        self.version, self._start = self._read_version()
        """The version of the file; a later one is read as the current one."""
        self.offset = self._start
        """Where the next entry is searched."""
        self._numbers = NUMBERS_AND_TIME if self.has_times else NUMBERS

    @property
    def has_times(self) -> bool:
        return self.version >= _TIMED_VERSION

    @property
    def is_newer(self) -> bool:
        """Whether a later version than the known ones wrote the log."""
        return self.version > GOBY_LOG_VERSION

    def __iter__(self) -> Iterator[GobyLogEntry]:
        while self.offset < self._size:
            found = self._content.find(MAGIC, self.offset)
            start = found if found >= 0 else self._size
            if start > self.offset:
                self._note_damage(self.offset, start - self.offset, "no entry begins here")
            if found < 0:
                self.offset = self._size
                return
            self.offset, entry = self._read_entry(start)
            if entry is not None:
                yield entry

    def _read_version(self) -> tuple[int, int]:
        head = self._content[: WORD.size]
        if head == MAGIC:
            return 1, 0
        if len(head) < WORD.size:
            if head:
                self._note_damage(0, len(head), "the file ends in its version")
            return GOBY_LOG_VERSION, self._size
        version = int(WORD.unpack(head)[0])
        if version < _PREFIXED_VERSION or version > 0xFFFF:
            self._note_damage(0, WORD.size, f"{head.hex()} is not a version, 3 is assumed")
            version = GOBY_LOG_VERSION
        return version, WORD.size

    def _read_entry(self, start: int) -> tuple[int, GobyLogEntry | None]:
        """The offset at which to go on, and the entry, if it is one of a publication."""
        fixed = self._numbers.size
        data_start = start + HEAD_BYTES + fixed
        if data_start > self._size:
            self._note_damage(start, self._size - start, "the file ends in an entry")
            return self._size, None
        (size,) = WORD.unpack(self._content[start + len(MAGIC) : start + HEAD_BYTES])
        stop = start + HEAD_BYTES + size
        data_stop = stop - WORD.size
        detail = ""
        if size < fixed + WORD.size:
            detail = f"the size of the entry is {size}, less than its fixed part"
        elif data_stop - data_start > GOBY_ENTRY_BYTES_MAX:
            detail = f"the size of the entry is {size}, above the limit of {GOBY_ENTRY_BYTES_MAX}"
        elif stop > self._size:
            detail = f"the file ends in an entry of {size} bytes"
        if not detail:
            body = self._content[start:stop]
            (crc,) = WORD.unpack(body[-WORD.size :])
            if zlib.crc32(memoryview(body)[: -WORD.size]) == crc:
                return stop, self._understood(start, body[HEAD_BYTES : -WORD.size])
            detail = "the CRC of the entry is wrong"
        # The size may be what is damaged, so the next entry may begin in what seems to be data.
        following = self._content.find(MAGIC, data_start)
        stop = following if following >= 0 else self._size
        self._note_damage(start, stop - start, detail)
        return stop, None

    def _understood(self, start: int, body: bytes) -> GobyLogEntry | None:
        scheme, group, type_, *rest = self._numbers.unpack_from(body)
        data = body[self._numbers.size :]
        if scheme in self._names:
            self._note_name(start, scheme, group if scheme == GROUP_INDEX else type_, data)
            return None
        return GobyLogEntry(
            scheme=scheme,
            group=self._name(GROUP_INDEX, scheme, group),
            type_name=self._name(TYPE_INDEX, scheme, type_),
            time_us=rest[0] if rest else 0,
            data=data,
        )

    def _note_name(self, start: int, kind: int, number: int, data: bytes) -> None:
        scheme = -1
        if self.version >= _PREFIXED_VERSION:
            if len(data) < SCHEME_WORD.size:
                size = HEAD_BYTES + self._numbers.size + len(data) + WORD.size
                self._note_damage(start, size, "a name has no scheme")
                return
            (scheme,) = SCHEME_WORD.unpack_from(data)
            data = data[SCHEME_WORD.size :]
        self._names[kind][scheme, number] = data.decode("utf-8", "surrogateescape")

    def _name(self, kind: int, scheme: int, number: int) -> str:
        if self.version < _PREFIXED_VERSION:
            scheme = -1
        name = self._names[kind].get((scheme, number))
        if name is None:
            self.unnamed_count += 1
            return f"_unknown{number}_"
        return name

    def _note_damage(self, offset: int, size: int, detail: str) -> None:
        self.damage_count += 1
        self.lost_byte_count += size
        if len(self.damages) < GOBY_DAMAGE_REPORT_MAX:
            self.damages.append(GobyLogDamage(offset=offset, size=size, detail=detail))
