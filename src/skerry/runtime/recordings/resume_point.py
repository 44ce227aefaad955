"""The resume point: the last update that earlier recorders of a folder recorded.

Updates published between two recorders are missing. The next recorder can only count them if it
knows the last update of the previous one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import DISTRIBUTOR, GAP, SNAPSHOT, Update
from skerry.recording.gaps import readable_gap
from skerry.recording.index import Segment
from skerry.recording.updates import updates_of
from skerry.runtime.recordings.files.folders import segment_number
from skerry.runtime.recordings.files.manifest import Manifest
from skerry.runtime.recordings.files.segment_files import map_file
from skerry.runtime.recordings.files.unlisted_segments import index_file
from skerry.runtime.recordings.reader import read_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """The last update of a node, or only the last time if no update came from a node."""

    node: int
    position: int
    """0 if no update has a position."""
    time_ns: int


def find_resume_point(folder: Path, manifest: Manifest, recording: str) -> ResumePoint | None:
    """The resume point of a folder; None if its recorders wrote no rows."""
    manifest.refresh()
    segment = _last_segment(folder, manifest, recording)
    if segment is None or not segment.rows:
        return None
    gaps: list[Update] = []
    for rows in _batches_reversed(segment):
        index = _last_positioned(rows)
        later = rows if index is None else rows.slice(index + 1)
        gaps += updates_of(later.filter(pc.equal(later.column("operation"), GAP)))
        if index is not None:
            facts = (rows.column(name)[index].as_py() for name in ("node", "position", "time_ns"))
            node, position, time_ns = facts
            return _after_gaps(ResumePoint(node=node, position=position, time_ns=time_ns), gaps)
    return ResumePoint(node=0, position=0, time_ns=segment.time_max_ns)


def _after_gaps(point: ResumePoint, gaps: list[Update]) -> ResumePoint:
    """The point behind recorded gaps: the next recorder must not count those updates again."""
    for update in gaps:
        gap = readable_gap(update.payload)
        if update.node == point.node and not update.sender and gap.stop - 1 > point.position:
            time_ns = max(point.time_ns, gap.last_ns)
            point = ResumePoint(node=point.node, position=gap.stop - 1, time_ns=time_ns)
    return point


def _last_segment(folder: Path, manifest: Manifest, recording: str) -> Segment | None:
    """The last segment that was recorded in this folder; others were copied into it."""
    numbers = {segment_number(recording, name): name for name in manifest.lines.segments}
    last = max(numbers, default=-1)
    if last < 0 or not (folder / numbers[last]).exists():
        return None
    if manifest.lines.last is not None and manifest.lines.last.name == numbers[last]:
        return manifest.lines.last
    return index_file(folder, numbers[last])


def _batches_reversed(segment: Segment) -> Iterator[pa.RecordBatch]:
    data = map_file(segment.path)
    for batch in reversed(segment.batches):
        if batch.position_max or "" in batch.types:
            yield read_batch(data, batch)


def _last_positioned(rows: pa.RecordBatch) -> int | None:
    """Index of the last row with a position of a node; rows from the distributor have none."""
    operations = rows.column("operation").to_numpy()
    positions = rows.column("position").to_numpy()
    is_update = (operations != GAP) & (operations != SNAPSHOT) & (positions > 0)
    sources = rows.column("source").cast(pa.string()).to_numpy(zero_copy_only=False)
    found = np.flatnonzero(is_update & (sources != DISTRIBUTOR))
    return int(found[-1]) if len(found) else None
