"""Updates of recordings, merged in the order of time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from skerry.codec.envelope import Update
from skerry.recording.index import Segment
from skerry.recording.seen import SeenUpdates
from skerry.recording.selection import ALL_ROWS, RowSelection
from skerry.recording.unions import united_types
from skerry.recording.updates import updates_of
from skerry.runtime.recordings.reader import Recording
from skerry.schema.model import StructType

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of rows that are done, and the total."""


def read_updates(
    recordings: Sequence[Recording],
    selection: RowSelection = ALL_ROWS,
    *,
    seen: SeenUpdates | None = None,
    on_progress: Progress | None = None,
) -> Iterator[Update]:
    """The selected updates of recordings. `seen` counts the duplicates.

    The rows of one recorder keep their order. The rows of several are merged by time, node and
    position, and an update that several have is returned once. Descriptions of types and gaps are
    included.
    """
    streams = [(recording, stream) for recording in recordings for stream in _streams(recording)]
    count = _Count(sum(s.rows for _, stream in streams for s in stream), on_progress)
    merged = heapq.merge(
        *(_updates(recording, stream, selection, count) for recording, stream in streams),
        key=_order,
    )
    if len(streams) == 1:
        return merged
    seen = SeenUpdates() if seen is None else seen
    return filter(seen.is_new, merged)


def read_united_types(recordings: Sequence[Recording]) -> dict[int, StructType]:
    """The definition for reading the rows of each type: the union of compatible definitions."""
    return united_types(read_all_types(recordings))


def read_all_types(recordings: Sequence[Recording]) -> dict[int, StructType]:
    """The structs that the recordings describe, by fingerprint."""
    found: dict[int, StructType] = {}
    for recording in recordings:
        for segment in recording.segments():
            needed = {number for numbers in segment.fingerprints.values() for number in numbers}
            if not needed <= found.keys():
                found.update(recording.types(segment))
    return found


def _streams(recording: Recording) -> list[list[Segment]]:
    """The segments of each recorder, in order: the name of a segment begins with its recorder."""
    streams: dict[str, list[Segment]] = {}
    for segment in recording.segments():
        streams.setdefault(segment.name.rpartition("-")[0], []).append(segment)
    return [sorted(found, key=lambda segment: segment.name) for found in streams.values()]


def _updates(
    recording: Recording, segments: list[Segment], selection: RowSelection, count: _Count
) -> Iterator[Update]:
    for segment in segments:
        done = 0
        for batch, rows in recording.batches(segment, selection.may_have):
            yield from updates_of(selection.rows_of(rows))
            count.add(batch.rows)
            done += batch.rows
        count.add(segment.rows - done)


def _order(update: Update) -> tuple[int, int, int]:
    return update.time_ns, update.node, update.position


class _Count:
    """Counts the rows that are done, and reports progress."""

    def __init__(self, total: int, on_progress: Progress | None) -> None:
        self._total = total
        self._done = 0
        self._on_progress = on_progress

    def add(self, count: int) -> None:
        self._done += count
        if self._on_progress is not None:
            self._on_progress(self._done, self._total)
