"""The manifest of a recording in a local folder: read, appended to and shortened.

Lines are appended under a lock of the file itself. A line counts when it is complete: the next
writer cuts off what a crash left of one. To shorten the manifest, a writer writes a second file and
renames it over the first, so a reader sees the old lines or the new ones and nothing in between.
`docs/decisions/manifest.md` has the reasons.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final

from skerry.errors import RecordingError
from skerry.recording.index import Segment
from skerry.recording.manifest_lines import (
    ManifestLines,
    Repair,
    dropped_line,
    repaired_line,
    sealed_line,
)
from skerry.runtime.recordings.files.folders import open_private, sync_folder
from skerry.runtime.recordings.files.remote_paths import RemotePath

MANIFEST_NAME: Final = "manifest.jsonl"
_NEW_NAME: Final = MANIFEST_NAME + ".new"
"""A shorter manifest that is being written, or that a crash left."""


class ManifestReader(ABC):
    """What was read of a manifest, local or remote. `refresh` reads the lines added since."""

    def __init__(self, lines: ManifestLines) -> None:
        self.lines = lines
        """What was read; replaced by a refresh that reads all lines again."""

    @abstractmethod
    def refresh(self) -> None:
        """Read the lines that were added, or all lines if the file was replaced."""

    def _continue_with(self, lines: ManifestLines, path: Path | RemotePath) -> None:
        """Use these lines from now on; RecordingError if there are fewer than before."""
        if lines.count < self.lines.count:
            error = RecordingError(
                f"{path} has {lines.count} lines, {self.lines.count} were read before:"
                " it became shorter by a change from outside"
            )
            error.hint = "read the recording again from its beginning"
            raise error
        self.lines = lines


class Manifest(ManifestReader):
    """The manifest of a folder, for reading and, under its lock, for writing."""

    def __init__(self, folder: Path, *, has_batches: bool = True) -> None:
        super().__init__(ManifestLines(folder, has_batches=has_batches))
        self.path = folder / MANIFEST_NAME
        self._folder = folder
        self._file_id = (0, 0)
        """Device and inode of the file that was read."""
        self._file: IO[bytes] | None = None
        """The file while it is locked."""
        self._locks = ExitStack()

    def refresh(self) -> None:
        try:
            with self.path.open("rb") as file:
                lines = self._read(file)
                self._continue_with(lines, self.path)
                self._file_id = _id_of(file)
        except FileNotFoundError:
            self._continue_with(self.lines.empty(), self.path)

    @property
    def is_changed(self) -> bool:
        """Whether the file was replaced, removed or cut since it was read."""
        try:
            with self.path.open("rb") as file:
                return not self._is_known(file)
        except FileNotFoundError:
            return self.lines.byte_count > 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the manifest for writing and read all its lines."""
        with ExitStack() as locks:
            file = _lock(self.path, locks)
            # Fewer lines are not an error here: a recorder must continue, and lists the segments
            # again that are in the folder.
            self.lines = self._read(file)
            self._file_id = _id_of(file)
            # What follows the last complete line was left by a crash.
            if os.fstat(file.fileno()).st_size > self.lines.byte_count:
                os.ftruncate(file.fileno(), self.lines.byte_count)
            self._file, self._locks = file, locks
            try:
                yield
            finally:
                self._file = None

    def add_sealed(self, segment: Segment, *, sync: bool) -> Segment:
        """Append the line of a sealed segment, under the lock; the segment with its line."""
        self._append(sealed_line(segment), sync=sync)
        return self.lines.segments[segment.name]

    def add_dropped(self, name: str, reason: str, *, sync: bool) -> None:
        """Append the line of a dropped segment, under the lock."""
        self._append(dropped_line(name, reason), sync=sync)

    def add_repaired(self, repair: Repair, *, sync: bool) -> None:
        """Append the line of a repair, under the lock."""
        self._append(repaired_line(repair), sync=sync)

    def shorten(self, *, kept: int) -> None:
        """Remove the lines of all but the newest dropped segments and repairs, under the lock.

        If that fails with OSError, the manifest is unchanged.
        """
        assert self._file is not None, "the manifest is not locked"
        self.remove_left_over()
        with ExitStack() as locks:
            path = self.path.with_name(_NEW_NAME)
            try:
                # Locked before the rename: no other process can append to it in between.
                file = _lock(path, locks)
                os.fchmod(file.fileno(), os.fstat(self._file.fileno()).st_mode & 0o777)
                file.writelines(
                    self.lines.shortened(
                        self._file, kept=kept, is_present=lambda n: (self._folder / n).exists()
                    )
                )
                file.flush()
                # Whatever durability is configured: a power cut must not take all lines.
                os.fsync(file.fileno())
                lines = self.lines.empty()
                file.seek(0)
                lines.read(file)
                path.rename(self.path)
            except OSError:
                path.unlink(missing_ok=True)
                raise
            self.lines, self._file, self._file_id = lines, file, _id_of(file)
            self._locks.push(locks.pop_all())
        sync_folder(self._folder)

    def remove_left_over(self) -> None:
        """Remove an unfinished shorter manifest; only the recorder or a lock holder may do so."""
        self.path.with_name(_NEW_NAME).unlink(missing_ok=True)

    def _append(self, line: bytes, *, sync: bool) -> None:
        assert self._file is not None, "the manifest is not locked"
        handle = self._file.fileno()
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(handle, rest) :]
            if sync:
                os.fsync(handle)
        except OSError:
            os.ftruncate(handle, self.lines.byte_count)
            raise
        self.lines.add(line)

    def _read(self, file: IO[bytes]) -> ManifestLines:
        """The known lines and those added to the file, or all lines of another file."""
        lines = self.lines if self._is_known(file) else self.lines.empty()
        file.seek(lines.byte_count)
        lines.read(file)
        return lines

    def _is_known(self, file: IO[bytes]) -> bool:
        """Whether this is the file that was read, and still has all that was read."""
        lines = self.lines
        if lines.byte_count == 0:
            return True
        if _id_of(file) != self._file_id or os.fstat(file.fileno()).st_size < lines.byte_count:
            return False
        # The inode of a removed file is reused sooner or later.
        file.seek(0)
        return file.read(len(lines.head)) == lines.head


def _lock(path: Path, locks: ExitStack) -> IO[bytes]:
    """Open a file for appending and lock it until `locks` is closed; creates the file if needed."""
    import fcntl  # not on every platform

    while True:
        with ExitStack() as opened:
            file = opened.enter_context(open(path, "a+b", opener=open_private))
            fcntl.flock(file, fcntl.LOCK_EX)
            # The file may have been replaced while this process waited for the lock.
            if _is_at(path, file):
                locks.push(opened.pop_all())
                return file


def _is_at(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _id_of(file: IO[bytes]) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino
