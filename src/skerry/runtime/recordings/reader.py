"""Reads recordings, their segments and the batches in them.

The checksum of every batch is verified before the batch is decoded. A damaged batch is replaced by
one gap row with the number and the time range of the missing rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import pyarrow as pa

from skerry.errors import RecordingError
from skerry.recording.descriptions import described_types, description_rows
from skerry.recording.format import block_at, decode_block, to_record_batch
from skerry.recording.gaps import Gap, gap_update
from skerry.recording.index import RecordedBatch, Segment, segment_of
from skerry.recording.manifest_lines import Forgotten, ManifestLines
from skerry.recording.rows import Rows
from skerry.recording.scanning import scan
from skerry.runtime.recordings.files.folders import (
    OPEN_SUFFIX,
    SEALED_SUFFIX,
    find_recordings,
    is_being_written,
    open_names,
    read_identity,
)
from skerry.runtime.recordings.files.manifest import Manifest, ManifestReader
from skerry.runtime.recordings.files.remote_manifest import RemoteManifest
from skerry.runtime.recordings.files.remote_paths import RemotePath, resolve_path, store_errors
from skerry.runtime.recordings.files.segment_files import (
    cut_blocks,
    fetch_blocks,
    map_file,
    read_blocks,
    read_open,
)
from skerry.runtime.recordings.files.unlisted_segments import UnlistedSegments
from skerry.schema.model import StructType


def open_recordings(path: str | os.PathLike[str]) -> list[Recording]:
    """The recording at a path, or the recordings in that folder; RecordingError if none exists."""
    return [Recording(found) for found in find_recordings(resolve_path(path))]


class Recording:
    """One recording, which may still grow.

    A recording at a remote path has only the segments in its manifest: the manifest is copied after
    the segments, so it states which of them are complete.
    """

    def __init__(self, path: Path | RemotePath | str) -> None:
        path = resolve_path(path) if isinstance(path, str) else path
        self.path = path
        """The local folder or the remote path."""
        self.identity = read_identity(path)
        self._manifest: ManifestReader
        self._unlisted: UnlistedSegments | None = None
        if isinstance(path, Path):
            self._manifest = manifest = Manifest(path)
            self._unlisted = UnlistedSegments(path, manifest)
        else:
            self._manifest = RemoteManifest(path)

    @property
    def folder(self) -> Path:
        assert isinstance(self.path, Path), f"{self.path} is remote"
        return self.path

    @property
    def is_being_written(self) -> bool:
        """Whether a recorder writes to the recording now."""
        return isinstance(self.path, Path) and is_being_written(self.path)

    @property
    def has_manifest(self) -> bool:
        """Whether a remote recording has a manifest. A local one is created from the segments."""
        return not isinstance(self._manifest, RemoteManifest) or self._manifest.exists

    @property
    def open_names(self) -> list[str]:
        """Names of the segments that are being written or that a crash left."""
        return open_names(self.path) if isinstance(self.path, Path) else []

    @property
    def unindexed(self) -> tuple[str, ...]:
        """Names of files that are named like segments but are not, or are still being copied."""
        return () if self._unlisted is None else self._unlisted.unindexed

    @property
    def id(self) -> str:
        """16 hexadecimal digits."""
        return self.identity.id

    @property
    def space(self) -> str:
        return self.identity.space

    @property
    def lines(self) -> ManifestLines:
        """What was read of the manifest so far."""
        return self._manifest.lines

    def dropped_between(self, first: int, stop: int) -> list[Segment]:
        """Dropped segments with line numbers from `first` up to `stop`, without batches."""
        return [s for s in self._manifest.lines.dropped_segments.values() if first <= s.line < stop]

    def forgotten_between(self, first: int, stop: int) -> Forgotten | None:
        """The summary of removed lines if rows of lines from `first` up to `stop` may be in it."""
        forgotten = self._manifest.lines.forgotten
        is_reached = first <= forgotten.last_line and forgotten.first_line < stop
        return forgotten if is_reached and forgotten.rows else None

    def segments(self, *, include_open: bool = False) -> list[Segment]:
        """Sealed segments in the order of the manifest; on request also the one being written.

        Segments without a line get one, or follow the others if the folder is not writable.
        """
        # First: a segment that is sealed meanwhile is then found twice instead of missed.
        being_written = self._open_segments() if include_open else []
        if self._unlisted is None:
            self._manifest.refresh()
        else:
            self._unlisted.refresh()
        known = self._manifest.lines.segments
        # A segment that was being sealed when the folder was listed has its line by now.
        candidates = [] if self._unlisted is None else self._unlisted.segments
        unlisted = [segment for segment in candidates if segment.name not in known]
        found = [*known.values(), *unlisted]
        names = {segment.name for segment in found} | self._manifest.lines.dropped.keys()
        line = self._manifest.lines.count + len(unlisted)
        found += [
            replace(segment, line=line)
            for segment in being_written
            if _sealed_name(segment.name) not in names
        ]
        return found

    def arrived(self) -> list[Segment]:
        """Segments in the manifest, up to the first whose file is missing.

        In a local folder a segment exists before its line; other tools may copy in any order.
        """
        segments = self.segments()
        line_count = self.lines.count
        found = [segment for segment in segments if segment.line < line_count]
        missing = {segment.name for segment in self.absent()}
        if not missing:
            return found
        return list(takewhile(lambda segment: segment.name not in missing, found))

    def absent(self) -> list[Segment]:
        """Segments in the manifest of a remote recording whose files are missing or incomplete."""
        manifest = self._manifest
        return manifest.absent() if isinstance(manifest, RemoteManifest) else []

    def batches(
        self, segment: Segment, is_wanted: Callable[[RecordedBatch], bool] = lambda _batch: True
    ) -> Iterator[tuple[RecordedBatch, pa.RecordBatch]]:
        """The wanted batches of a segment, with their rows.

        If the file of the segment is missing, all its batches are damaged. If the segment was
        dropped since it was listed, there are none.
        """
        wanted = [batch for batch in segment.batches if is_wanted(batch)]
        if not wanted:
            return
        for batch, block in self._blocks(segment, wanted):
            yield batch, read_block(block, batch, space=self.space)

    def data(self, segment: Segment) -> memoryview | None:
        """The bytes of a segment, empty if its file is missing; None if it was dropped since."""
        found = self._map(segment) if isinstance(self.path, Path) else _fetch(segment)
        if found is not None:
            return found
        return None if self._was_dropped(segment) else memoryview(b"")

    def types(self, segment: Segment) -> dict[int, StructType]:
        """The structs that a segment describes, by fingerprint."""
        return _types_in(self._blocks(segment, _describing(segment)))

    def _blocks(
        self, segment: Segment, batches: Sequence[RecordedBatch]
    ) -> Iterator[tuple[RecordedBatch, memoryview]]:
        """The bytes of batches: empty ones if the file is missing, nothing if it was dropped."""
        if isinstance(self.path, Path):
            data = self.data(segment)
            if data is not None:
                yield from cut_blocks(data, batches)
            return
        left = iter(batches)
        try:
            for found in fetch_blocks(segment, batches):
                next(left)
                yield found
        except FileNotFoundError:
            if not self._was_dropped(segment):
                yield from cut_blocks(memoryview(b""), left)

    def _map(self, segment: Segment) -> memoryview | None:
        # A segment that was being written may be sealed by now: the same file with another name.
        for name in dict.fromkeys((segment.name, _sealed_name(segment.name))):
            path = self.folder / name
            if path.exists():
                try:
                    return map_file(path)
                except RecordingError:
                    if path.exists():
                        raise
        return None

    def _was_dropped(self, segment: Segment) -> bool:
        """Whether the segment was dropped since it was listed."""
        self._manifest.refresh()
        name = _sealed_name(segment.name)
        if name in self._manifest.lines.dropped:
            return True
        is_known = name in self._manifest.lines.segments
        return not is_known and segment.line <= self._manifest.lines.forgotten.last_line

    def _open_segments(self) -> list[Segment]:
        found: list[Segment] = []
        for name in self.open_names:
            try:
                data = read_open(self.folder / name)
            except RecordingError:
                continue  # It was sealed since its name was listed.
            contents = scan(data).contents
            found.append(
                segment_of(contents, folder=self.folder, name=name, line=-1, byte_count=len(data))
            )
        return found


def read_batch(data: memoryview, batch: RecordedBatch, *, space: str = "") -> pa.RecordBatch:
    """The rows of a batch, cut from the bytes of its segment; a gap row if it is damaged."""
    return read_block(data[batch.offset : batch.stop], batch, space=space)


def read_block(block: memoryview, batch: RecordedBatch, *, space: str = "") -> pa.RecordBatch:
    """The rows of a batch from its own bytes; a gap row if it is damaged."""
    if not is_intact(block, batch):
        return _gap_batch(batch, space)
    return decode_block(block)


def is_intact(block: memoryview, batch: RecordedBatch) -> bool:
    """Whether these bytes match the size and checksum of the batch."""
    found = block_at(block, 0) if len(block) == batch.size else None
    return found is not None and found.crc == batch.crc and found.stop == batch.size


def read_types(segment: Segment) -> dict[int, StructType]:
    """The structs that a segment describes, by fingerprint; reads only the batches needed."""
    return _types_in(read_blocks(segment, _describing(segment)))


def _describing(segment: Segment) -> list[RecordedBatch]:
    return [batch for batch in segment.batches if batch.has_descriptors]


def _types_in(blocks: Iterable[tuple[RecordedBatch, memoryview]]) -> dict[int, StructType]:
    rows = (row for batch, block in blocks for row in description_rows(read_block(block, batch)))
    found = described_types(rows)
    return {number: type_ for number, type_ in found.items() if isinstance(type_, StructType)}


def _fetch(segment: Segment) -> memoryview | None:
    path = RemotePath(segment.uri)
    try:
        with store_errors("cannot read", path, RecordingError):
            return memoryview(path.read())
    except FileNotFoundError:
        return None


def _sealed_name(name: str) -> str:
    """The name that a segment has once it is sealed."""
    return name.removesuffix(OPEN_SUFFIX).removesuffix(SEALED_SUFFIX) + SEALED_SUFFIX


def _gap_batch(batch: RecordedBatch, space: str) -> pa.RecordBatch:
    gap = Gap(
        count=batch.rows,
        first=batch.position_min,
        stop=batch.position_max + 1 if batch.position_max else 0,
        reason="the batch is damaged",
        first_ns=batch.time_min_ns,
        last_ns=batch.time_max_ns,
    )
    rows = Rows()
    rows.append_update(gap_update(gap, space=space))
    return to_record_batch(rows.take())
