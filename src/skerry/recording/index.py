"""The index of a segment: where its batches are and what they contain.

A writer collects it batch by batch and writes it to the manifest when the segment is sealed
(`recording.manifest_lines`). For a segment that is not in the manifest, the index is built from the
bytes of the segment (`recording.scanning`).
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

NO_CRC: Final = -1
"""Replaces the CRC of a batch that was already damaged when it was indexed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBatch:
    offset: int
    size: int
    rows: int
    """0 if the batch is damaged and its number of rows is unknown."""
    crc: int
    time_min_ns: int
    time_max_ns: int
    position_min: int = 0
    position_max: int = 0
    """Range of the positions at the nodes; both are 0 if no row has a position."""
    types: tuple[str, ...]
    has_descriptors: bool

    @property
    def stop(self) -> int:
        """Offset of the first byte behind the batch."""
        return self.offset + self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One segment of a recording, as its manifest describes it."""

    folder: Path | str
    """A local folder, or the URI of a remote path."""
    name: str
    line: int
    """Number of its line in the manifest. Segments without a line are numbered after the last."""
    rows: int
    byte_count: int
    time_min_ns: int
    time_max_ns: int
    types: Mapping[str, int]
    """Number of rows by type, including descriptions and gaps (type `""`)."""
    fingerprints: Mapping[str, tuple[int, ...]]
    """Definitions by type. Descriptions are not included: they have the described fingerprint."""
    batches: tuple[RecordedBatch, ...]

    @property
    def path(self) -> Path:
        """The file of a local segment."""
        assert isinstance(self.folder, Path), f"{self.folder} is remote"
        return self.folder / self.name

    @property
    def uri(self) -> str:
        """Path or URI of the file."""
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentContent:
    """A batch, and the facts that are only kept for the whole segment."""

    batch: RecordedBatch
    types: Mapping[str, int]
    definitions: frozenset[tuple[str, int]]


def batch_of_columns(columns: Columns, *, offset: int, size: int, crc: int) -> SegmentContent:
    """The index of a batch that was made from columns and written at `offset`."""
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
    """The index of a batch that was read at `offset`."""
    types = rows.column("type")
    counts = {
        item["values"]: item["counts"]
        for item in pc.value_counts(types.cast(pa.string())).to_pylist()
    }
    times = pc.min_max(rows.column("time_ns")).as_py()
    positions = rows.column("position")
    range_ = pc.min_max(positions.filter(pc.greater(positions, 0))).as_py()
    pairs = pa.table([types.cast(pa.string()), rows.column("fingerprint")], ["type", "number"])
    distinct = pairs.group_by(["type", "number"]).aggregate([]).to_pylist()
    batch = RecordedBatch(
        offset=offset,
        size=size,
        rows=rows.num_rows,
        crc=crc,
        time_min_ns=times["min"] or 0,
        time_max_ns=times["max"] or 0,
        position_min=range_["min"] or 0,
        position_max=range_["max"] or 0,
        types=tuple(sorted(counts)),
        has_descriptors=_has_descriptors(counts),
    )
    return SegmentContent(
        batch=batch,
        types=counts,
        definitions=_definitions((item["type"], item["number"]) for item in distinct),
    )


def damaged_content(offset: int, stop: int) -> SegmentContent:
    """The index of a damaged range, which was one batch or several."""
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
    """The index of a segment from that of its batches."""
    types: Counter[str] = Counter()
    for content in contents:
        types.update(content.types)
    definitions = frozenset().union(*(content.definitions for content in contents))
    fingerprints: dict[str, tuple[int, ...]] = {}
    for type_name, number in sorted(definitions):
        fingerprints[type_name] = (*fingerprints.get(type_name, ()), number)
    complete = [content.batch for content in contents if content.batch.crc != NO_CRC]
    return Segment(
        folder=folder,
        name=name,
        line=line,
        rows=sum(batch.rows for batch in complete),
        byte_count=byte_count,
        time_min_ns=min((batch.time_min_ns for batch in complete), default=0),
        time_max_ns=max((batch.time_max_ns for batch in complete), default=0),
        types=dict(sorted(types.items())),
        fingerprints=fingerprints,
        batches=tuple(content.batch for content in contents),
    )


def _has_descriptors(types: Iterable[str]) -> bool:
    return not set(DESCRIPTOR_TYPES).isdisjoint(types)


def _definitions(pairs: Iterable[tuple[str, int]]) -> frozenset[tuple[str, int]]:
    return frozenset(pair for pair in pairs if pair[0] not in DESCRIPTOR_TYPES and pair[0])
