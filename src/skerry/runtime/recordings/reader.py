"""Reads recordings: which there are, their segments, and the batches in those.

Every batch is checked before it is looked at. One that is damaged becomes a batch of one gap row,
which says how many rows are missing and from when to when.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from skerry.errors import RecordingError
from skerry.recording.descriptions import described_types, description_rows
from skerry.recording.format import block_at, decode_block, to_record_batch
from skerry.recording.gaps import Gap, gap_update
from skerry.recording.index import Batch, Segment, segment_of
from skerry.recording.rows import Rows
from skerry.recording.scanning import scan
from skerry.runtime.clock import wall_ns
from skerry.runtime.recordings.folders import (
    OPEN_SUFFIX,
    SEALED_SUFFIX,
    find_recordings,
    open_names,
    read_identity,
)
from skerry.runtime.recordings.followers import touch_follower
from skerry.runtime.recordings.manifest import Forgotten, Manifest, Repair
from skerry.runtime.recordings.repairs import adopt_strays, index_file, stray_names
from skerry.runtime.recordings.segment_files import map_file, read_open
from skerry.schema.model import StructType

__all__ = [
    "Batch",
    "Recording",
    "Segment",
    "open_recordings",
    "read_batch",
    "read_types",
    "touch_follower",
    "types_in",
]

_QUIET_NS: Final = 1_000_000_000


def open_recordings(path: str | os.PathLike[str]) -> list[Recording]:
    """The recording that a folder is, or those in it; RecordingError if there is none."""
    return [Recording(folder) for folder in find_recordings(Path(path))]


class Recording:
    """One recording, which may still grow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identity = read_identity(folder)
        self._manifest = Manifest(folder)
        self._listed_ns = -1
        """When the folder had last changed at the last look for strays."""
        self._strays: list[Segment] = []
        self.unindexed: tuple[str, ...] = ()
        """Files that are named like segments and are none, or are still being copied."""

    @property
    def id(self) -> str:
        """16 hexadecimal digits."""
        return self.identity.id

    @property
    def space(self) -> str:
        """What was recorded."""
        return self.identity.space

    @property
    def line_count(self) -> int:
        """One more than the last line of the manifest at the last look: how far it has come."""
        return self._manifest.line_count

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """What crashes have taken."""
        return tuple(self._manifest.repairs)

    @property
    def dropped(self) -> dict[str, str]:
        """Segments that are gone by intention, and why: age or size; those not forgotten."""
        return dict(self._manifest.dropped)

    @property
    def forgotten(self) -> Forgotten:
        """What the manifest does not tell one by one any more."""
        return self._manifest.forgotten

    def dropped_between(self, first: int, stop: int) -> list[Segment]:
        """Dropped segments whose lines are from the first up to the stop, without batches."""
        return [s for s in self._manifest.gone.values() if first <= s.line < stop]

    def forgotten_between(self, first: int, stop: int) -> Forgotten | None:
        """All that is forgotten, if some of its rows may be from the first up to the stop."""
        forgotten = self._manifest.forgotten
        is_reached = first <= forgotten.last_line and forgotten.first_line < stop
        return forgotten if is_reached and forgotten.rows else None

    @property
    def unreadable_lines(self) -> tuple[int, ...]:
        """Lines of the manifest that say nothing, counted from 0."""
        return tuple(self._manifest.unreadable)

    def segments(self, *, include_open: bool = False) -> list[Segment]:
        """Sealed segments in the order of the manifest, and the one being written if asked for.

        Segments without a line in the manifest get one, or come last where one may not write.
        """
        # Before the others: what is sealed meanwhile is then seen twice, and not missed.
        being_written = self._open_segments() if include_open else []
        self._look_for_strays()
        known = self._manifest.segments
        # One that was just being sealed when the folder was listed has its line by now.
        strays = [segment for segment in self._strays if segment.name not in known]
        found = [*known.values(), *strays]
        names = {segment.name for segment in found} | self._manifest.dropped.keys()
        line = self._manifest.line_count + len(strays)
        found += [
            replace(segment, line=line)
            for segment in being_written
            if _sealed_name(segment.name) not in names
        ]
        return found

    def batches(
        self, segment: Segment, is_wanted: Callable[[Batch], bool] = lambda _batch: True
    ) -> Iterator[tuple[Batch, pa.RecordBatch]]:
        """The batches of a segment that are wanted, with their rows.

        Of a segment that is gone all batches are damaged; one that was dropped since it was listed
        has none.
        """
        wanted = [batch for batch in segment.batches if is_wanted(batch)]
        if not wanted:
            return
        data = self.data(segment)
        if data is None:
            return
        for batch in wanted:
            yield batch, read_batch(data, batch, space=self.space)

    def data(self, segment: Segment) -> memoryview | None:
        """The bytes of a segment, none if its file is gone; None if it was dropped meanwhile."""
        sealed = _sealed_name(segment.name)
        # The one that was being written may be sealed by now: the same file, by another name.
        for name in dict.fromkeys((segment.name, sealed)):
            path = self.folder / name
            if path.exists():
                try:
                    return map_file(path)
                except RecordingError:
                    if path.exists():
                        raise
        self._manifest.refresh()
        return None if self._is_dropped(replace(segment, name=sealed)) else memoryview(b"")

    def types(self, segment: Segment) -> dict[int, StructType]:
        """Structs that the segment describes, by fingerprint."""
        data = self.data(segment)
        return {} if data is None else types_in(segment, data)

    def _is_dropped(self, segment: Segment) -> bool:
        if segment.name in self._manifest.dropped:
            return True
        is_known = segment.name in self._manifest.segments
        return not is_known and segment.line <= self._manifest.forgotten.last_line

    def _look_for_strays(self) -> None:
        changed_ns = self.folder.stat().st_mtime_ns
        self._manifest.refresh()
        if changed_ns == self._listed_ns:
            return
        names = stray_names(self.folder, self._manifest)
        if names and os.access(self.folder, os.W_OK):
            # Where one may not write after all, or there is no room, they come last as well.
            with suppress(OSError):
                adopt_strays(self.folder, self._manifest)
            # What is sealed from here on has its line when it is looked for next.
            self._manifest.refresh()
            names = stray_names(self.folder, self._manifest)
        self._strays = self._indexed(names)
        self.unindexed = tuple(sorted(set(names) - {segment.name for segment in self._strays}))
        # What changes twice in a moment has the same time after both, so a folder is looked at
        # again until it has been quiet for a while; and one with a half copied segment, too.
        is_quiet = wall_ns() - changed_ns > _QUIET_NS and not self.unindexed
        self._listed_ns = changed_ns if is_quiet else -1

    def _indexed(self, names: list[str]) -> list[Segment]:
        first = self._manifest.line_count
        found = (
            index_file(self.folder, name, line=first + number) for number, name in enumerate(names)
        )
        return [segment for segment in found if segment is not None]

    def _open_segments(self) -> list[Segment]:
        found: list[Segment] = []
        for name in open_names(self.folder):
            try:
                data = read_open(self.folder / name)
            except RecordingError:
                continue  # it was sealed this moment
            contents = scan(data).contents
            found.append(
                segment_of(contents, folder=self.folder, name=name, line=-1, byte_count=len(data))
            )
        return found


def read_batch(data: memoryview, batch: Batch, *, space: str = "") -> pa.RecordBatch:
    """The rows of a batch, or a gap row if it is damaged."""
    found = block_at(data[: batch.stop], batch.offset) if batch.stop <= len(data) else None
    if found is None or found.crc != batch.crc or found.stop != batch.stop:
        return _gap_batch(batch, space)
    return decode_block(data[batch.offset : batch.stop])


def read_types(segment: Segment) -> dict[int, StructType]:
    """Structs that the segment describes, by fingerprint; only batches that do so are read."""
    return types_in(segment, map_file(segment.path))


def types_in(segment: Segment, data: memoryview) -> dict[int, StructType]:
    """The same where the bytes of the segment are known."""
    rows = (
        row
        for batch in segment.batches
        if batch.has_descriptors
        for row in description_rows(read_batch(data, batch))
    )
    found = described_types(rows)
    return {number: type_ for number, type_ in found.items() if isinstance(type_, StructType)}


def _sealed_name(name: str) -> str:
    """What a segment is called when it is sealed, or is called already."""
    return name.removesuffix(OPEN_SUFFIX).removesuffix(SEALED_SUFFIX) + SEALED_SUFFIX


def _gap_batch(batch: Batch, space: str) -> pa.RecordBatch:
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
