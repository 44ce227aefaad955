"""Updates of recordings, merged in the order of time, and those of a time range.

A time range is preceded by the objects that existed at its beginning. The time of an update in it
is the latest that its node had stamped by then. So an update keeps its position in the order of its
node when the clock of the node is set back.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from skerry.codec.envelope import GAP, SNAPSHOT, Update
from skerry.recording.gaps import readable_gap
from skerry.recording.index import Segment
from skerry.recording.seen import SeenUpdates
from skerry.recording.selection import ALL_ROWS, RowSelection
from skerry.recording.states import States, has_state
from skerry.recording.unions import united_types
from skerry.recording.updates import is_description, updates_of
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
        key=lambda update: (update.time_ns, update.node, update.position),
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


def range_updates(
    recordings: Sequence[Recording],
    known: Mapping[int, StructType],
    selection: RowSelection,
    *,
    seen: SeenUpdates | None = None,
    on_progress: Progress | None = None,
) -> Iterator[Update]:
    """Updates and gaps of a selection, preceded by the objects that existed at its beginning.

    `known` has the definitions for reading, by fingerprint. All rows before the end are read.
    """
    chosen = replace(selection, from_ns=None, to_ns=None)
    found = read_updates(recordings, chosen, seen=seen, on_progress=on_progress)
    updates = (update for update in found if not is_description(update))
    return updates_in_range(updates, known, from_ns=selection.from_ns, to_ns=selection.to_ns)


def updates_in_range(
    updates: Iterable[Update],
    known: Mapping[int, StructType],
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
) -> Iterator[Update]:
    """The updates of a time range, from all updates in their order."""
    states = States(known)
    clocks: dict[int, int] = {}
    unfinished: set[int] = set()
    """Nodes that have not reached the end of the range."""
    has_begun = from_ns is None
    for update in updates:
        if update.operation == GAP:
            if _overlaps(update, from_ns, to_ns):
                yield update
            continue
        time_ns = update.time_ns
        if update.operation != SNAPSHOT:
            time_ns = clocks[update.node] = max(time_ns, clocks.get(update.node, time_ns))
            if to_ns is not None and time_ns >= to_ns:
                unfinished.discard(update.node)
                if not unfinished:
                    break
                continue
            unfinished.add(update.node)
        is_early = from_ns is not None and time_ns < from_ns
        if is_early and not has_begun:
            states.apply(update)
            continue
        if not has_begun:
            has_begun = True
            yield from states.take_updates()
        # Clocks of nodes differ, and a snapshot row has the time of the last change. A late update
        # with the state of an object is still part of the objects at the beginning.
        if not is_early or has_state(update, known.get(update.fingerprint)):
            yield update
    yield from states.take_updates()


def _overlaps(update: Update, from_ns: int | None, to_ns: int | None) -> bool:
    """Whether a gap may be in the range; a gap without times may be anywhere."""
    gap = readable_gap(update.payload)
    if not gap.last_ns:
        return True
    is_before = from_ns is not None and gap.last_ns < from_ns
    return not is_before and (to_ns is None or gap.first_ns < to_ns)
