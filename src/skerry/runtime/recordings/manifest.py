"""The manifest: one line of JSON for each thing that happened to the segments of a recording.

Its lines are never changed, so the number of lines is a place in the recording that stays valid:
who follows remembers it. A line is written under a lock and only counts with its end; what a crash
left of one is cut off by the next who writes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from skerry.errors import RecordingError
from skerry.limits import RECORDING_LINE_BYTES_MAX
from skerry.recording.index import Segment
from skerry.recording.segment_lines import segment_from_plain, segment_to_plain

__all__ = ["MANIFEST_NAME", "Manifest", "Repair"]

MANIFEST_NAME: Final = "manifest.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was lost when a segment was found torn or damaged, and mended as far as possible."""

    name: str
    kept_batches: int
    kept_rows: int
    lost_bytes: int
    """Behind the last whole batch."""


class Manifest:
    """What the manifest of a folder says. `refresh` reads what was added since.

    A writer, who lives long and only has to know which segments there are, does not keep what is
    in them (`has_batches=False`).
    """

    def __init__(self, folder: Path, *, has_batches: bool = True) -> None:
        self.path = folder / MANIFEST_NAME
        self.line_count = 0
        self.segments: dict[str, Segment] = {}
        """Those that are there, in the order of their lines."""
        self.dropped: dict[str, str] = {}
        """Why segments are gone, by name."""
        self.gone: dict[str, Segment] = {}
        """What their lines said of them but for the batches."""
        self.repairs: list[Repair] = []
        self.unreadable: list[int] = []
        """Lines that say nothing, counted from 0."""
        self.last: Segment | None = None
        """The one of the last line about one that is there, with its batches in any case."""
        self._folder = folder
        self._has_batches = has_batches
        self._offset = 0
        self._file: IO[bytes] | None = None

    def refresh(self) -> None:
        """Read the lines that were added."""
        if self.is_cut:
            error = RecordingError(f"{self.path} became shorter; it was changed by hand")
            error.hint = "begin to read anew"
            raise error
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                self._read(file)
        except FileNotFoundError:
            return

    @property
    def is_cut(self) -> bool:
        """Whether lines that were read are not there any more."""
        try:
            return self.path.stat().st_size < self._offset
        except FileNotFoundError:
            return self._offset > 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only one who adds lines, and know all that are there."""
        import fcntl  # not everywhere

        with self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if self.is_cut:
                # Who writes must go on: what there is becomes known as in any other folder.
                self._forget()
            self.refresh()
            # Behind the last whole line is what a crash left of one.
            if os.fstat(file.fileno()).st_size > self._offset:
                os.ftruncate(file.fileno(), self._offset)
            self._file = file
            try:
                yield
            finally:
                self._file = None

    def add_sealed(self, segment: Segment, *, sync: bool) -> Segment:
        """A segment is there; under the lock. As it is found in the manifest from then on."""
        self._add({"sealed": segment_to_plain(segment)}, sync=sync)
        return self.segments[segment.name]

    def add_dropped(self, name: str, reason: str, *, sync: bool) -> None:
        """A segment is gone; under the lock."""
        self._add({"dropped": {"name": name, "reason": reason}}, sync=sync)

    def add_repaired(self, repair: Repair, *, sync: bool) -> None:
        """A segment was mended; under the lock."""
        self._add({"repaired": asdict(repair)}, sync=sync)

    def _add(self, event: dict[str, Any], *, sync: bool) -> None:
        assert self._file is not None, "the manifest is not locked"
        line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        handle = self._file.fileno()
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(handle, rest) :]
            if sync:
                os.fsync(handle)
        except OSError:
            os.ftruncate(handle, self._offset)
            raise
        self._offset += len(line)
        self._take(line)

    def _forget(self) -> None:
        self.line_count = self._offset = 0
        self.segments.clear()
        self.dropped.clear()
        self.gone.clear()
        self.repairs.clear()
        self.unreadable.clear()
        self.last = None

    def _read(self, file: IO[bytes]) -> None:
        while line := file.readline(RECORDING_LINE_BYTES_MAX + 1):
            if not line.endswith(b"\n"):
                if len(line) <= RECORDING_LINE_BYTES_MAX:
                    return  # it is being written, or was when somebody died
                line = _rest_of_line(file, line)
            self._offset = file.tell()
            self._take(line)

    def _take(self, line: bytes) -> None:
        number = self.line_count
        self.line_count += 1
        try:
            self._understand(json.loads(line), number)
        except (RecordingError, ValueError, KeyError, TypeError):
            # A segment of which its line does not tell any more is found again, like one that
            # was copied into the folder.
            self.unreadable.append(number)

    def _understand(self, event: dict[str, Any], number: int) -> None:
        if "sealed" in event:
            segment = segment_from_plain(event["sealed"], folder=self._folder, line=number)
            self.last = segment
            self.segments[segment.name] = segment if self._has_batches else _brief(segment)
            self.dropped.pop(segment.name, None)
            self.gone.pop(segment.name, None)
        elif "dropped" in event:
            name = event["dropped"]["name"]
            self.dropped[name] = str(event["dropped"]["reason"])
            was = self.segments.pop(name, None)
            if was is not None and self._has_batches:
                self.gone[name] = _brief(was)
        elif "repaired" in event:
            self.repairs.append(Repair(**event["repaired"]))
        else:
            raise ValueError(event)


def _brief(segment: Segment) -> Segment:
    return replace(segment, batches=(), types={}, fingerprints={})


def _rest_of_line(file: IO[bytes], line: bytes) -> bytes:
    """Go to the end of a line that is too long to be one, and take nothing of it."""
    while line and not line.endswith(b"\n"):
        line = file.readline(RECORDING_LINE_BYTES_MAX)
    return b""
