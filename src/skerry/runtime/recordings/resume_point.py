"""How far a recording had come when it ended: where the next recorder goes on.

What came between the two is missing, and a recorder can only say how much of it if it knows the
last update of the one before.
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
from skerry.runtime.recordings.folders import segment_number
from skerry.runtime.recordings.manifest import Manifest
from skerry.runtime.recordings.reader import read_batch
from skerry.runtime.recordings.repairs import index_file
from skerry.runtime.recordings.segment_files import map_file

__all__ = ["ResumePoint", "ending_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """The last update that a node said, or the last time there was if no node said any."""

    node: int
    position: int
    """0 if there is none."""
    time_ns: int


def ending_of(folder: Path, manifest: Manifest, recording: str) -> ResumePoint | None:
    """How far the recorders of a folder have come; None if there are no rows of them."""
    manifest.refresh()
    segment = _last_segment(folder, manifest, recording)
    if segment is None or not segment.rows:
        return None
    gaps: list[Update] = []
    for rows in _batches_from_the_end(segment):
        index = _last_placed(rows)
        behind = rows if index is None else rows.slice(index + 1)
        gaps += updates_of(behind.filter(pc.equal(behind.column("operation"), GAP)))
        if index is not None:
            facts = (rows.column(name)[index].as_py() for name in ("node", "position", "time_ns"))
            node, position, time_ns = facts
            return _behind(ResumePoint(node=node, position=position, time_ns=time_ns), gaps)
    return ResumePoint(node=0, position=0, time_ns=segment.time_max_ns)


def _behind(ending: ResumePoint, gaps: list[Update]) -> ResumePoint:
    """The ending with what is known to be missing: the next recorder must not count it again."""
    for update in gaps:
        gap = readable_gap(update.payload)
        if update.node == ending.node and not update.sender and gap.stop - 1 > ending.position:
            time_ns = max(ending.time_ns, gap.last_ns)
            ending = ResumePoint(node=ending.node, position=gap.stop - 1, time_ns=time_ns)
    return ending


def _last_segment(folder: Path, manifest: Manifest, recording: str) -> Segment | None:
    """The last that was recorded here; others were copied into the folder."""
    numbers = {segment_number(recording, name): name for name in manifest.segments}
    last = max(numbers, default=-1)
    if last < 0 or not (folder / numbers[last]).exists():
        return None
    if manifest.last is not None and manifest.last.name == numbers[last]:
        return manifest.last
    return index_file(folder, numbers[last])


def _batches_from_the_end(segment: Segment) -> Iterator[pa.RecordBatch]:
    data = map_file(segment.path)
    for batch in reversed(segment.batches):
        if batch.position_max or "" in batch.types:
            yield read_batch(data, batch)


def _last_placed(rows: pa.RecordBatch) -> int | None:
    """The last row that a node counted; by multicast, senders count."""
    operations = rows.column("operation").to_numpy()
    positions = rows.column("position").to_numpy()
    is_update = (operations != GAP) & (operations != SNAPSHOT) & (positions > 0)
    is_heard = rows.column("source").cast(pa.string()).to_numpy(zero_copy_only=False) == DISTRIBUTOR
    found = np.flatnonzero(is_update & ~is_heard)
    return int(found[-1]) if len(found) else None
