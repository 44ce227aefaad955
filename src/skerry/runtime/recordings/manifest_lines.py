"""What the lines of a manifest say, and how far its file was read.

A line has a number, which is one more than that of the line before unless it says another. The
first line of a file may tell what is forgotten (`manifest_shortening`), and has none.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

from skerry.errors import RecordingError
from skerry.recording.index import Segment
from skerry.recording.segment_lines import segment_from_plain

__all__ = ["RECORDING_LINE_BYTES_MAX", "Forgotten", "Lines", "Repair", "line_of"]

RECORDING_LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""One line of a manifest: more than the index of the largest number of batches takes."""

_HEAD_BYTES: Final = 256
"""Enough to tell the first lines of two files apart: one that tells what is forgotten begins with
how often that happened."""
_NUMBER_MAX: Final = 2**53
"""The highest number that every reader of JSON understands."""
_NAME: Final = re.compile(r"[\w-]{1,64}\.arrow(\.open)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was lost when a segment was found torn or damaged, and mended as far as possible."""

    name: str
    kept_batches: int
    kept_rows: int
    lost_bytes: int
    """Behind the last whole batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What lines said that were left out when a manifest was shortened."""

    times: int = 0
    """How often it was shortened."""
    first_line: int = 0
    """The lowest and the highest line of a dropped segment; others in between may be there."""
    last_line: int = -1
    segments: Mapping[str, int] = field(default_factory=dict)
    """Dropped ones, by the reason."""
    rows: int = 0
    time_min_ns: int = 0
    time_max_ns: int = 0
    """Of the rows; both 0 if there are none."""
    repairs: int = 0
    unreadable: int = 0
    """Lines that said nothing."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """The highest number of a dropped segment, by what its name begins with."""


class Lines:
    """What was read of the file of a manifest."""

    def __init__(self, folder: Path | str, *, has_batches: bool) -> None:
        self.count = 0
        """One more than the number of the last line."""
        self.segments: dict[str, Segment] = {}
        self.dropped: dict[str, str] = {}
        self.gone: dict[str, Segment] = {}
        self.repairs: list[Repair] = []
        self.unreadable: list[int] = []
        self.last: Segment | None = None
        self.forgotten = Forgotten()
        self.dropped_at: dict[str, int] = {}
        """Numbers of the lines that say that segments are gone, by name."""
        self.repaired_at: list[int] = []
        """Numbers of the lines of the repairs."""
        self.numbers = array("q")
        """Of all lines that were read."""
        self.offsets = array("q")
        """Where these begin in the file."""
        self.offset = 0
        """How far the file was read."""
        self._folder = folder
        self._has_batches = has_batches
        self._file_id = (0, 0)
        self.head = b""
        """How the file begins."""

    def fresh(self) -> Lines:
        """The same before anything was read."""
        return Lines(self._folder, has_batches=self._has_batches)

    def is_of(self, file: IO[bytes]) -> bool:
        """Whether these are lines of this file, and all of them are still there."""
        status = os.fstat(file.fileno())
        if self.offset == 0:
            return True
        if _id_of(status) != self._file_id or status.st_size < self.offset:
            return False
        # The number of a file that is gone is given to another one sooner or later.
        file.seek(0)
        return file.read(len(self.head)) == self.head

    def read(self, file: IO[bytes]) -> None:
        """Take the whole lines that were added to the file."""
        self._file_id = _id_of(os.fstat(file.fileno()))
        file.seek(self.offset)
        self._read(file, 0)

    def read_rest(self, data: bytes) -> None:
        """Take the whole lines of what the file has after all that was read."""
        self._read(BytesIO(data), self.offset)

    def add(self, line: bytes) -> None:
        """Take a line that was just written behind all the others."""
        self._take(line, line[:_HEAD_BYTES], self.offset + len(line))

    def move(self, file: IO[bytes]) -> None:
        """The lines are in another file from now on, which has no others."""
        status = os.fstat(file.fileno())
        self._file_id, self.offset = _id_of(status), status.st_size
        file.seek(0)
        self.head = file.read(_HEAD_BYTES)

    def _read(self, file: IO[bytes], base: int) -> None:
        """Take whole lines; the first byte of `file` is this one of the manifest's."""
        while line := file.readline(RECORDING_LINE_BYTES_MAX + 1):
            begin = line[:_HEAD_BYTES]
            if not line.endswith(b"\n"):
                if len(line) <= RECORDING_LINE_BYTES_MAX:
                    return  # it is being written, or was when somebody died
                line = _rest_of_line(file, line)
            self._take(line, begin, base + file.tell())

    def _take(self, line: bytes, begin: bytes, stop: int) -> None:
        offset, self.offset = self.offset, stop
        self.head += begin[: _HEAD_BYTES - len(self.head)]
        number = self.count
        try:
            event = json.loads(line)
            if offset == 0 and "shortened" in event:
                self.forgotten = _forgotten_from_plain(event["shortened"])
                return
            number = _number_of(event, number)
            self._understand(event, number)
        except (RecordingError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            # A segment of which its line does not tell any more is found again, like one that
            # was copied into the folder.
            self.unreadable.append(number)
        self.count = number + 1
        self.numbers.append(number)
        self.offsets.append(offset)

    def _understand(self, event: Any, number: int) -> None:
        if "sealed" in event:
            segment = segment_from_plain(event["sealed"], folder=self._folder, line=number)
            self.last = segment
            known: dict[str, Any]
            for known in (self.segments, self.dropped, self.gone, self.dropped_at):
                known.pop(segment.name, None)
            self.segments[segment.name] = segment if self._has_batches else _brief(segment)
        elif "dropped" in event:
            self._drop(_name(event["dropped"]["name"]), str(event["dropped"]["reason"]), number)
        elif "repaired" in event:
            self.repairs.append(Repair(**event["repaired"]))
            self.repaired_at.append(number)
        elif not isinstance(event, dict) or event.keys() != {"line"}:
            raise ValueError(event)

    def _drop(self, name: str, reason: str, number: int) -> None:
        # Who is dropped last is the last of them, also if that is said twice.
        self.dropped.pop(name, None)
        self.dropped[name] = reason
        self.dropped_at[name] = number
        was = self.segments.pop(name, None)
        if was is not None:
            self.gone[name] = _brief(was)


def _number_of(event: Any, following: int) -> int:
    number = event.get("line", following) if isinstance(event, dict) else following
    if type(number) is not int or not following <= number < _NUMBER_MAX:
        raise ValueError(number)
    return number


def _name(value: Any) -> str:
    # A manifest may have come from elsewhere, and files of these names are removed.
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(value)
    return value


def _forgotten_from_plain(plain: Any) -> Forgotten:
    if not all(isinstance(plain.get(name, {}), dict) for name in ("segments", "numbers")):
        raise ValueError(plain)
    forgotten = Forgotten(**plain)
    counts = [getattr(forgotten, name) for name in plain if name not in ("segments", "numbers")]
    for named in (forgotten.segments, forgotten.numbers):
        counts.extend(named.values())
    if any(type(count) is not int for count in counts):
        raise ValueError(plain)
    return forgotten


def _brief(segment: Segment) -> Segment:
    return replace(segment, batches=(), types={}, fingerprints={})


def _id_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def line_of(event: Mapping[str, object]) -> bytes:
    """How an event is written."""
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _rest_of_line(file: IO[bytes], line: bytes) -> bytes:
    """Go to the end of a line that is too long to be one, and take nothing of it."""
    while line and not line.endswith(b"\n"):
        line = file.readline(RECORDING_LINE_BYTES_MAX)
    return b""
