"""What is known of a segment without opening it: where its batches are, and what is in them.

A writer notes it batch by batch, and it becomes a line of the manifest when the segment is sealed
(`recording.segment_lines`). For a segment without such a line it is found by going through the
bytes (`recording.scanning`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.recording.columns import DESCRIPTOR_TYPES
from skerry.recording.rows import Columns

__all__ = [
    "NO_CRC",
    "RecordedBatch",
    "Segment",
    "SegmentContent",
    "batch_of_columns",
    "batch_of_rows",
    "damaged_content",
    "segment_of",
]

NO_CRC: Final = -1
"""Stands for the CRC of a batch that was damaged when it was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBatch:
    """One batch of a segment."""

    offset: int
    size: int
    rows: int
    """0 where the batch is damaged and nobody noted how many it had."""
    crc: int
    time_min_ns: int
    time_max_ns: int
    position_min: int = 0
    position_max: int = 0
    """Positions at their nodes, of the rows that have one; both 0 if none has."""
    types: tuple[str, ...]
    has_descriptors: bool

    @property
    def stop(self) -> int:
        """Where the next one begins."""
        return self.offset + self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One segment of a recording, as its manifest tells it."""

    folder: Path | str
    """Of this computer, or the URI of a place that is elsewhere."""
    name: str
    """Of its file, in the folder."""
    line: int
    """Of the manifest, counted from 0; those without one follow the last line."""
    rows: int
    byte_count: int
    time_min_ns: int
    time_max_ns: int
    types: Mapping[str, int]
    """Rows by type, descriptions and gaps (as `""`) among them."""
    fingerprints: Mapping[str, tuple[int, ...]]
    """Definitions by type; descriptions are left out, since theirs are of what they describe."""
    batches: tuple[RecordedBatch, ...]

    @property
    def path(self) -> Path:
        """Its file, of one on this computer."""
        assert isinstance(self.folder, Path), f"{self.folder} is elsewhere"
        return self.folder / self.name

    @property
    def place(self) -> str:
        """Its file, wherever it is."""
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentContent:
    """A batch, and what only the whole segment is asked for."""

    batch: RecordedBatch
    types: Mapping[str, int]
    definitions: frozenset[tuple[str, int]]


def batch_of_columns(columns: Columns, *, offset: int, size: int, crc: int) -> SegmentContent:
    """The batch that was made of columns and written at `offset`."""
    counts = np.bincount(np.frombuffer(columns.type, np.int32), minlength=len(columns.types))
    batch = RecordedBatch(
        offset=offset,
        size=size,
        rows=columns.count,
        crc=crc,
        time_min_ns=columns.time_min_ns,
        time_max_ns=columns.time_max_ns,
        position_min=columns.position_min,
        position_max=columns.position_max,
        types=tuple(sorted(columns.types)),
        has_descriptors=_has_descriptors(columns.types),
    )
    return SegmentContent(
        batch=batch,
        types=dict(zip(columns.types, counts.tolist(), strict=True)),
        definitions=_definitions(columns.definitions),
    )


def batch_of_rows(rows: pa.RecordBatch, *, offset: int, size: int, crc: int) -> SegmentContent:
    """The same for a batch that was read."""
    types = rows.column("type")
    counts = {
        item["values"]: item["counts"]
        for item in pc.value_counts(types.cast(pa.string())).to_pylist()
    }
    times = pc.min_max(rows.column("time_ns")).as_py()
    positions = rows.column("position")
    placed = pc.min_max(positions.filter(pc.greater(positions, 0))).as_py()
    pairs = pa.table([types.cast(pa.string()), rows.column("fingerprint")], ["type", "number"])
    distinct = pairs.group_by(["type", "number"]).aggregate([]).to_pylist()
    batch = RecordedBatch(
        offset=offset,
        size=size,
        rows=rows.num_rows,
        crc=crc,
        time_min_ns=times["min"] or 0,
        time_max_ns=times["max"] or 0,
        position_min=placed["min"] or 0,
        position_max=placed["max"] or 0,
        types=tuple(sorted(counts)),
        has_descriptors=_has_descriptors(counts),
    )
    return SegmentContent(
        batch=batch,
        types=counts,
        definitions=_definitions((item["type"], item["number"]) for item in distinct),
    )


def damaged_content(offset: int, stop: int) -> SegmentContent:
    """What lies where a batch was, or several."""
    batch = RecordedBatch(
        offset=offset,
        size=stop - offset,
        rows=0,
        crc=NO_CRC,
        time_min_ns=0,
        time_max_ns=0,
        types=(),
        has_descriptors=False,
    )
    return SegmentContent(batch=batch, types={}, definitions=frozenset())


def segment_of(
    contents: Sequence[SegmentContent], *, folder: Path | str, name: str, line: int, byte_count: int
) -> Segment:
    """The segment that has these batches."""
    types: Counter[str] = Counter()
    for content in contents:
        types.update(content.types)
    definitions = frozenset().union(*(content.definitions for content in contents))
    fingerprints: dict[str, tuple[int, ...]] = {}
    for type_name, number in sorted(definitions):
        fingerprints[type_name] = (*fingerprints.get(type_name, ()), number)
    whole = [content.batch for content in contents if content.batch.crc != NO_CRC]
    return Segment(
        folder=folder,
        name=name,
        line=line,
        rows=sum(batch.rows for batch in whole),
        byte_count=byte_count,
        time_min_ns=min((batch.time_min_ns for batch in whole), default=0),
        time_max_ns=max((batch.time_max_ns for batch in whole), default=0),
        types=dict(sorted(types.items())),
        fingerprints=fingerprints,
        batches=tuple(content.batch for content in contents),
    )


def _has_descriptors(types: Iterable[str]) -> bool:
    return not set(DESCRIPTOR_TYPES).isdisjoint(types)


def _definitions(pairs: Iterable[tuple[str, int]]) -> frozenset[tuple[str, int]]:
    return frozenset(pair for pair in pairs if pair[0] not in DESCRIPTOR_TYPES and pair[0])
