"""Finds gaps of one recording that other recordings of the same space fill.

A gap with a node and a range of positions is filled if every position of the range is in a row of
some recording. The manifest has the positions of each batch, so only batches are read that may
contain one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import GAP, SNAPSHOT, Update
from skerry.recording.gaps import readable_gap
from skerry.recording.index import RecordedBatch
from skerry.recording.updates import updates_of
from skerry.runtime.recordings.reader import Recording

RECORDING_FILLED_COUNT_MAX: Final = 100_000_000
"""Updates of one gap that are looked up in another recording, with a byte of memory for each. A
longer gap is not one that another recorder could fill."""

Range: TypeAlias = tuple[int, int, int]
"""A node, the first missing position, and the first that is not missing any more."""


def filled_gaps(
    recordings: Sequence[Recording], *, count_max: int = RECORDING_FILLED_COUNT_MAX
) -> frozenset[Range]:
    """The gaps whose updates are all in one of the recordings.

    Gaps of more than `count_max` updates are not examined and count as unfilled.
    """
    wanted = {found for found in _ranges(recordings) if 0 < found[2] - found[1] <= count_max}
    return frozenset(found for found in wanted if _is_filled(recordings, found))


def range_of(update: Update) -> Range | None:
    """The range of a gap row; None for other rows and for gaps without positions."""
    if update.operation != GAP or update.sender:
        return None
    gap = readable_gap(update.payload)
    return (update.node, gap.first, gap.stop) if 0 < gap.first < gap.stop else None


def _ranges(recordings: Sequence[Recording]) -> Iterator[Range]:
    for rows in _batches(recordings, lambda batch: "" in batch.types):
        gaps = rows.filter(pc.equal(rows.column("operation"), GAP))
        for update in updates_of(gaps):
            found = range_of(update)
            if found is not None:
                yield found


def _is_filled(recordings: Sequence[Recording], wanted: Range) -> bool:
    node, first, stop = wanted
    is_present = np.zeros(stop - first, bool)

    def may_have(batch: RecordedBatch) -> bool:
        return batch.position_max >= first and 0 < batch.position_min < stop

    for rows in _batches(recordings, may_have):
        positions = rows.column("position").to_numpy()
        operations = rows.column("operation").to_numpy()
        is_update = (operations != GAP) & (operations != SNAPSHOT)
        is_in = (positions >= first) & (positions < stop)
        is_own = rows.column("node").to_numpy() == node
        is_present[positions[is_update & is_in & is_own] - first] = True
    return bool(is_present.all())


def _batches(
    recordings: Sequence[Recording], may_have: Callable[[RecordedBatch], bool]
) -> Iterator[pa.RecordBatch]:
    for recording in recordings:
        for segment in recording.segments():
            for _, rows in recording.batches(segment, may_have):
                yield rows
