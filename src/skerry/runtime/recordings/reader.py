"""Reads recordings: which there are, their segments, and the batches in those.

Every batch is checked before it is looked at. One that is damaged becomes a batch of one gap row,
which says how many rows are missing and from when to when.
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
from skerry.recording.rows import Rows
from skerry.recording.scanning import scan
from skerry.runtime.recordings.blocks import cut_blocks, fetch_blocks, read_blocks
from skerry.runtime.recordings.folders import (
    OPEN_SUFFIX,
    SEALED_SUFFIX,
    find_recordings,
    is_being_written,
    open_names,
    read_identity,
)
from skerry.runtime.recordings.followers import touch_follower
from skerry.runtime.recordings.manifest import Forgotten, Manifest, Repair
from skerry.runtime.recordings.manifest_facts import ManifestFacts
from skerry.runtime.recordings.remote_manifest import RemoteManifest
from skerry.runtime.recordings.remote_paths import RemotePath, place_of, told
from skerry.runtime.recordings.segment_files import map_file, read_open
from skerry.runtime.recordings.unlisted_segments import UnlistedSegments
from skerry.schema.model import StructType

__all__ = [
    "RecordedBatch",
    "Recording",
    "Segment",
    "is_whole",
    "open_recordings",
    "read_batch",
    "read_block",
    "read_types",
    "touch_follower",
]


def open_recordings(path: str | os.PathLike[str]) -> list[Recording]:
    """The recording that a folder or a place is, or those in it; RecordingError if none is."""
    return [Recording(place) for place in find_recordings(place_of(path))]


class Recording:
    """One recording, which may still grow.

    Of one that is elsewhere there is what its manifest names, and nothing else: who copied it
    there says with the manifest what is whole.
    """

    def __init__(self, place: Path | RemotePath | str) -> None:
        place = place_of(place) if isinstance(place, str) else place
        self.place = place
        """The folder of this computer that it is, or where else it is."""
        self.identity = read_identity(place)
        self._manifest: ManifestFacts
        self._strays: UnlistedSegments | None = None
        if isinstance(place, Path):
            self._manifest = manifest = Manifest(place)
            self._strays = UnlistedSegments(place, manifest)
        else:
            self._manifest = RemoteManifest(place)

    @property
    def folder(self) -> Path:
        """The folder, of one on this computer."""
        assert isinstance(self.place, Path), f"{self.place} is elsewhere"
        return self.place

    @property
    def is_being_written(self) -> bool:
        """Whether a recorder writes to it now."""
        return isinstance(self.place, Path) and is_being_written(self.place)

    @property
    def has_manifest(self) -> bool:
        """Whether a place had one at the last look; in a folder one is made of what is there."""
        return not isinstance(self._manifest, RemoteManifest) or self._manifest.is_there

    @property
    def open_names(self) -> list[str]:
        """Files of segments that are being written, or that a crash left."""
        return open_names(self.place) if isinstance(self.place, Path) else []

    @property
    def unindexed(self) -> tuple[str, ...]:
        """Files that are named like segments and are none, or are still being copied."""
        return () if self._strays is None else self._strays.unindexed

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
        if self._strays is None:
            self._manifest.refresh()
        else:
            self._strays.look()
        known = self._manifest.segments
        # One that was just being sealed when the folder was listed has its line by now.
        found_strays = [] if self._strays is None else self._strays.segments
        strays = [segment for segment in found_strays if segment.name not in known]
        found = [*known.values(), *strays]
        names = {segment.name for segment in found} | self._manifest.dropped.keys()
        line = self._manifest.line_count + len(strays)
        found += [
            replace(segment, line=line)
            for segment in being_written
            if _sealed_name(segment.name) not in names
        ]
        return found

    def arrived(self) -> list[Segment]:
        """Segments in the manifest, up to the first that is not there yet.

        On this computer they are there before their line is; who copies may do it otherwise.
        """
        segments = self.segments()
        line_count = self.line_count
        found = [segment for segment in segments if segment.line < line_count]
        missing = {segment.name for segment in self.absent()}
        if not missing:
            return found
        return list(takewhile(lambda segment: segment.name not in missing, found))

    def absent(self) -> list[Segment]:
        """Segments that the manifest of a place named at the last look, and that are not there."""
        manifest = self._manifest
        return manifest.absent() if isinstance(manifest, RemoteManifest) else []

    def batches(
        self, segment: Segment, is_wanted: Callable[[RecordedBatch], bool] = lambda _batch: True
    ) -> Iterator[tuple[RecordedBatch, pa.RecordBatch]]:
        """The batches of a segment that are wanted, with their rows.

        Of a segment that is gone all batches are damaged; one that was dropped since it was listed
        has none.
        """
        wanted = [batch for batch in segment.batches if is_wanted(batch)]
        if not wanted:
            return
        for batch, block in self._blocks(segment, wanted):
            yield batch, read_block(block, batch, space=self.space)

    def data(self, segment: Segment) -> memoryview | None:
        """The bytes of a segment, none if its file is gone; None if it was dropped meanwhile."""
        found = self._read_here(segment) if isinstance(self.place, Path) else _fetched(segment)
        if found is not None:
            return found
        return None if self._is_dropped_by_now(segment) else memoryview(b"")

    def types(self, segment: Segment) -> dict[int, StructType]:
        """Structs that the segment describes, by fingerprint."""
        return _types_in(self._blocks(segment, _describing(segment)))

    def _blocks(
        self, segment: Segment, batches: Sequence[RecordedBatch]
    ) -> Iterator[tuple[RecordedBatch, memoryview]]:
        """The bytes of batches: none of a segment that is gone, and nothing of a dropped one."""
        if isinstance(self.place, Path):
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
            if not self._is_dropped_by_now(segment):
                yield from cut_blocks(memoryview(b""), left)

    def _read_here(self, segment: Segment) -> memoryview | None:
        # The one that was being written may be sealed by now: the same file, by another name.
        for name in dict.fromkeys((segment.name, _sealed_name(segment.name))):
            path = self.folder / name
            if path.exists():
                try:
                    return map_file(path)
                except RecordingError:
                    if path.exists():
                        raise
        return None

    def _is_dropped_by_now(self, segment: Segment) -> bool:
        self._manifest.refresh()
        return self._is_dropped(replace(segment, name=_sealed_name(segment.name)))

    def _is_dropped(self, segment: Segment) -> bool:
        if segment.name in self._manifest.dropped:
            return True
        is_known = segment.name in self._manifest.segments
        return not is_known and segment.line <= self._manifest.forgotten.last_line

    def _open_segments(self) -> list[Segment]:
        found: list[Segment] = []
        for name in self.open_names:
            try:
                data = read_open(self.folder / name)
            except RecordingError:
                continue  # it was sealed this moment
            contents = scan(data).contents
            found.append(
                segment_of(contents, folder=self.folder, name=name, line=-1, byte_count=len(data))
            )
        return found


def read_batch(data: memoryview, batch: RecordedBatch, *, space: str = "") -> pa.RecordBatch:
    """The rows of a batch of a segment, or a gap row if it is damaged."""
    return read_block(data[batch.offset : batch.stop], batch, space=space)


def read_block(block: memoryview, batch: RecordedBatch, *, space: str = "") -> pa.RecordBatch:
    """The same where the bytes of the batch alone are known."""
    if not is_whole(block, batch):
        return _gap_batch(batch, space)
    return decode_block(block)


def is_whole(block: memoryview, batch: RecordedBatch) -> bool:
    """Whether these are the bytes of the batch that were written."""
    found = block_at(block, 0) if len(block) == batch.size else None
    return found is not None and found.crc == batch.crc and found.stop == batch.size


def read_types(segment: Segment) -> dict[int, StructType]:
    """Structs that the segment describes, by fingerprint; only batches that do so are read."""
    return _types_in(read_blocks(segment, _describing(segment)))


def _describing(segment: Segment) -> list[RecordedBatch]:
    return [batch for batch in segment.batches if batch.has_descriptors]


def _types_in(blocks: Iterable[tuple[RecordedBatch, memoryview]]) -> dict[int, StructType]:
    rows = (row for batch, block in blocks for row in description_rows(read_block(block, batch)))
    found = described_types(rows)
    return {number: type_ for number, type_ in found.items() if isinstance(type_, StructType)}


def _fetched(segment: Segment) -> memoryview | None:
    place = RemotePath(segment.place)
    try:
        with told("cannot read", place, RecordingError):
            return memoryview(place.read())
    except FileNotFoundError:
        return None


def _sealed_name(name: str) -> str:
    """What a segment is called when it is sealed, or is called already."""
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
