"""The manifest: one line of JSON for each thing that happened to the segments of a recording.

The number of a line never changes, so it is a place in the recording that stays valid: who follows
remembers it. A line is written under a lock and only counts with its end; what a crash left of one
is cut off by the next who writes. Lines about what is long gone are left out now and then: another
file, with the rest of them, takes the place of the old one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from skerry.recording.index import Segment
from skerry.recording.segment_lines import segment_to_plain
from skerry.runtime.recordings.folders import open_private, sync_folder
from skerry.runtime.recordings.manifest_facts import MANIFEST_NAME, ManifestFacts
from skerry.runtime.recordings.manifest_lines import Forgotten, Lines, Repair, line_of
from skerry.runtime.recordings.manifest_shortening import plan_shortening, write_shortened

__all__ = ["MANIFEST_NAME", "Forgotten", "Manifest", "Repair"]

_NEW_NAME: Final = MANIFEST_NAME + ".new"
"""A shorter one that is being written, or that a crash left."""


class Manifest(ManifestFacts):
    """What the manifest of a folder says. `refresh` reads what was added since.

    A writer, who lives long and only has to know which segments there are, does not keep what is
    in them (`has_batches=False`).
    """

    def __init__(self, folder: Path, *, has_batches: bool = True) -> None:
        super().__init__(Lines(folder, has_batches=has_batches))
        self.path = folder / MANIFEST_NAME
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._held = ExitStack()
        """Files that are locked."""

    def refresh(self) -> None:
        """Read the lines that were added; all of them, where another file took its place."""
        try:
            with self.path.open("rb") as file:
                lines = self._lines if self._lines.is_of(file) else self._lines.fresh()
                lines.read(file)
        except FileNotFoundError:
            lines = self._lines.fresh()
        self._go_on_with(lines, self.path)

    @property
    def is_changed(self) -> bool:
        """Whether the file is not the one that was read any more, or has less than was read."""
        try:
            with self.path.open("rb") as file:
                return not self._lines.is_of(file)
        except FileNotFoundError:
            return self._lines.offset > 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only one who adds lines, and know all that are there."""
        with ExitStack() as held:
            file = _lock(self.path, held)
            if not self._lines.is_of(file):
                # Who writes must go on: what there is becomes known as in any other folder.
                self._lines = self._lines.fresh()
            self._lines.read(file)
            # Behind the last whole line is what a crash left of one.
            if os.fstat(file.fileno()).st_size > self._lines.offset:
                os.ftruncate(file.fileno(), self._lines.offset)
            self._file, self._held = file, held
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

    def shorten(self, *, kept: int) -> None:
        """Forget all but the newest dropped segments and repairs; under the lock.

        OSError where that fails; the manifest is as it was then.
        """
        assert self._file is not None, "the manifest is not locked"
        plan = plan_shortening(self._lines, self._folder, kept=kept)
        self.remove_left_over()
        with ExitStack() as held:
            path = self.path.with_name(_NEW_NAME)
            try:
                # Locked before anybody can see it: there is no moment for others to add lines.
                file = _lock(path, held)
                os.fchmod(file.fileno(), os.fstat(self._file.fileno()).st_mode & 0o777)
                offsets = write_shortened(self._file, file, self._lines, plan)
                # Whatever may be lost of a recording in a power cut, all lines are too much.
                os.fsync(file.fileno())
                path.rename(self.path)
            except OSError:
                path.unlink(missing_ok=True)
                raise
            plan.apply(self._lines, file, offsets)
            self._file = file
            self._held.push(held.pop_all())
        sync_folder(self._folder)

    def remove_left_over(self) -> None:
        """Remove a shorter manifest that was not finished; for who is the only one to write."""
        self.path.with_name(_NEW_NAME).unlink(missing_ok=True)

    def _add(self, event: dict[str, Any], *, sync: bool) -> None:
        assert self._file is not None, "the manifest is not locked"
        line = line_of(event)
        handle = self._file.fileno()
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(handle, rest) :]
            if sync:
                os.fsync(handle)
        except OSError:
            os.ftruncate(handle, self._lines.offset)
            raise
        self._lines.add(line)


def _lock(path: Path, held: ExitStack) -> IO[bytes]:
    """Open a file, which is made if need be, and be the only one who has it locked."""
    import fcntl  # not everywhere

    while True:
        with ExitStack() as opened:
            file = opened.enter_context(open(path, "a+b", opener=open_private))
            fcntl.flock(file, fcntl.LOCK_EX)
            # Another file may have taken its place while this one was waited for.
            if _is_at(path, file):
                held.push(opened.pop_all())
                return file


def _is_at(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
