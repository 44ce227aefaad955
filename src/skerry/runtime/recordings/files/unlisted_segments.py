"""Finds segments in a folder that are not in its manifest, and adds lines for them.

A sealed one was copied into the folder, or its recorder crashed between sealing and adding the
line. An open one was left by a crash if no recorder runs. It is cut behind its last complete batch
and sealed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from skerry.errors import RecordingError
from skerry.recording.format import END_OF_STREAM
from skerry.recording.index import NO_CRC, Segment, damaged_content, segment_of
from skerry.recording.manifest_lines import Repair
from skerry.recording.scanning import Scan, scan
from skerry.runtime.clock import wall_ns
from skerry.runtime.recordings.files.folders import (
    OPEN_SUFFIX,
    SEALED_SUFFIX,
    open_names,
    sealed_names,
    sync_folder,
)
from skerry.runtime.recordings.files.manifest import Manifest
from skerry.runtime.recordings.files.segment_files import map_file, write_all

_QUIET_NS: Final = 1_000_000_000
"""Two changes within this time may leave the folder with the same time of change."""
_COPIED_NS: Final = 60_000_000_000
"""A file without an end marker that has not changed for so long is not being copied any more."""


class UnlistedSegments:
    """The segments of a folder that are not in its manifest; searched when the folder changed."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self._listed_ns = -1
        """Time of change of the folder when it was listed; -1 to list it again."""
        self.segments: list[Segment] = []
        """Segments that could not be added because the folder is not writable."""
        self.unindexed: tuple[str, ...] = ()
        """Names of files that are named like segments but are not, or are still being copied."""

    def refresh(self) -> None:
        """Read the lines that were added to the manifest, and list the folder if it changed."""
        changed_ns = self._folder.stat().st_mtime_ns
        self._manifest.refresh()
        if changed_ns == self._listed_ns:
            return
        names = unlisted_names(self._folder, self._manifest)
        if names and os.access(self._folder, os.W_OK):
            # Without permission or disk space, the segments follow the others without a line.
            with suppress(OSError):
                list_unlisted(self._folder, self._manifest)
            # A segment that was sealed meanwhile has its line by now.
            self._manifest.refresh()
            names = unlisted_names(self._folder, self._manifest)
        self.segments = self._indexed(names)
        self.unindexed = tuple(sorted(set(names) - {segment.name for segment in self.segments}))
        # Two changes in quick succession can leave the same time of change. So the folder is listed
        # again until it was quiet for a while, and as long as a segment is being copied.
        is_quiet = wall_ns() - changed_ns > _QUIET_NS and not self.unindexed
        self._listed_ns = changed_ns if is_quiet else -1

    def _indexed(self, names: list[str]) -> list[Segment]:
        first = self._manifest.lines.count
        found = (
            index_file(self._folder, name, line=first + number) for number, name in enumerate(names)
        )
        return [segment for segment in found if segment is not None]


def list_unlisted(folder: Path, manifest: Manifest) -> list[Segment]:
    """Add segments without a line to the manifest. A recorder may be writing at the same time."""
    with manifest.locked():
        # Under the lock, so that a segment that is just being sealed does not count as unlisted.
        names = unlisted_names(folder, manifest)
    # Without the lock: indexing a large file takes long, and the recorder must be able to seal.
    found = [segment for name in names if (segment := index_file(folder, name)) is not None]
    if not found:
        return []
    with manifest.locked():
        return [
            manifest.add_sealed(segment, sync=True)
            for segment in found
            # Another process may have added it meanwhile, and it may even be dropped again.
            if segment.name not in manifest.lines.segments and segment.path.exists()
        ]


def unlisted_names(folder: Path, manifest: Manifest) -> list[str]:
    """Names of the sealed segments that are not in the manifest."""
    known = manifest.lines.segments.keys() | manifest.lines.dropped.keys()
    return [name for name in sealed_names(folder) if name not in known]


def index_file(folder: Path, name: str, *, line: int = -1) -> Segment | None:
    """The index of a segment, built by reading it.

    None if the file is not a segment, is still being copied, or was removed meanwhile.
    """
    path = folder / name
    try:
        changed_ns = path.stat().st_mtime_ns
        data = map_file(path)
    except (FileNotFoundError, RecordingError):
        if path.exists():
            raise
        return None
    found = scan(data)
    is_whole = found.has_end and not found.tail
    if not is_whole and wall_ns() - changed_ns < _COPIED_NS:
        return None
    if not found.recording:
        return None
    contents = list(found.contents)
    if found.tail:
        contents.append(damaged_content(found.stop, found.stop + found.tail))
    return segment_of(contents, folder=folder, name=name, line=line, byte_count=len(data))


def repair_open(folder: Path, manifest: Manifest) -> list[Repair]:
    """Seal the segments that a crash left; the caller must hold the lock of the writer."""
    return [_repair(folder, name, manifest) for name in open_names(folder)]


def _repair(folder: Path, name: str, manifest: Manifest) -> Repair:
    path = folder / name
    found = scan(map_file(path))
    repair = _repair_of(name, found)
    if any(content.batch.crc != NO_CRC for content in found.contents):
        _finish(path, found)
        sealed = name.removesuffix(OPEN_SUFFIX) + SEALED_SUFFIX
        with manifest.locked():
            path.rename(folder / sealed)
            sync_folder(folder)
            size = found.stop + len(END_OF_STREAM)
            segment = segment_of(
                found.contents, folder=folder, name=sealed, line=-1, byte_count=size
            )
            manifest.add_sealed(segment, sync=True)
            manifest.add_repaired(repair, sync=True)
    else:
        with manifest.locked():
            manifest.add_repaired(repair, sync=True)
            path.unlink()
    return repair


def _repair_of(name: str, found: Scan) -> Repair:
    complete = [content.batch for content in found.contents if content.batch.crc != NO_CRC]
    return Repair(
        name=name,
        kept_batches=len(complete),
        kept_rows=sum(batch.rows for batch in complete),
        lost_bytes=found.tail
        + sum(content.batch.size for content in found.contents if content.batch.crc == NO_CRC),
    )


def _finish(path: Path, found: Scan) -> None:
    """Cut the file behind its last complete batch, and write the end marker."""
    handle = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(handle, found.stop)
        write_all(handle, END_OF_STREAM, found.stop)
        os.fsync(handle)
    finally:
        os.close(handle)
