"""Which batches of which segments are read, and by which task: decided from manifests alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pyspark.sql.datasource import InputPartition

from skerry.errors import PipelineError
from skerry.recording.index import NO_CRC, RecordedBatch, Segment
from skerry.recording.json_rows import time_text
from skerry.runtime.recordings.files.folders import find_recordings
from skerry.runtime.recordings.files.remote_paths import RemotePath, resolve_path
from skerry.runtime.recordings.reader import Recording, read_types
from skerry.schema.model import StructType
from skerry.spark.source.options import ReadOptions

__all__ = [
    "Recordings",
    "Run",
    "Runs",
    "Wanted",
    "definitions",
    "dropped",
    "pack",
    "require_lines",
    "runs",
    "segments",
]

_TASK_COUNT_MIN: Final = max(4, os.cpu_count() or 1)
"""Tasks that a read is cut into where it is large enough, so that no core is idle."""
_TASK_BYTES_MIN: Final = 16 * 1024 * 1024
"""A smaller task takes longer to start than to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Batches of one segment that follow each other, from the first up to the stop."""

    recording: str
    space: str
    segment: Segment
    first: int
    stop: int

    @property
    def byte_count(self) -> int:
        return sum(batch.size for batch in self.segment.batches[self.first : self.stop])


class Runs(InputPartition):
    """What one task reads."""

    def __init__(self, runs: tuple[Run, ...]) -> None:
        super().__init__(None)
        self.runs = runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows are read, as options and filters together say."""

    types: frozenset[str] | None = None
    """None for all."""
    fingerprints: frozenset[int] | None = None
    from_ns: int | None = None
    to_ns: int | None = None

    def has_segment(self, segment: Segment) -> bool:
        """Whether the segment may have such rows; it is not opened for that."""
        if not self._has_times(segment.time_min_ns, segment.time_max_ns):
            return False
        if self.types is None:
            return True
        found = self.types & segment.types.keys()
        if self.fingerprints is None:
            return bool(found)
        return any(self.fingerprints & set(segment.fingerprints.get(t, ())) for t in found)

    def has_batch(self, batch: RecordedBatch) -> bool:
        """Whether the batch may have such rows. One that nobody could index may have any."""
        if batch.crc == NO_CRC:
            return True
        if not self._has_times(batch.time_min_ns, batch.time_max_ns):
            return False
        return self.types is None or not self.types.isdisjoint(batch.types)

    def _has_times(self, time_min_ns: int, time_max_ns: int) -> bool:
        is_early = self.from_ns is not None and time_max_ns < self.from_ns
        is_late = self.to_ns is not None and time_min_ns >= self.to_ns
        return not is_early and not is_late


class Recordings:
    """The recordings that paths name: each a recording, or a folder of some. More may come."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(paths)
        self._known: dict[Path | RemotePath, Recording] = {}

    def all(self) -> list[Recording]:
        """All there are now, each once, though several paths may lead to it."""
        found: dict[str, Recording] = {}
        for path in self._paths:
            for place in find_recordings(resolve_path(path)):
                recording = self._known.get(place)
                if recording is None:
                    recording = self._known[place] = Recording(place)
                found.setdefault(recording.id, recording)
        return list(found.values())

    def folders(self) -> list[Path]:
        """Folders of this computer of the recordings that were found so far."""
        return [place for place in self._known if isinstance(place, Path)]

    def arrived(self) -> Iterator[tuple[Recording, Segment]]:
        """The segments in the manifests, of each up to the first that is not there yet."""
        for recording in self.all():
            for segment in recording.arrived():
                yield recording, segment

    def absent(self) -> Iterator[tuple[Recording, list[Segment]]]:
        """Of the recordings that were found so far, those that miss segments, and which."""
        for recording in self._known.values():
            if missing := recording.absent():
                yield recording, missing

    def sealed(self) -> Iterator[tuple[Recording, Segment]]:
        """The segments in the manifests, whose place there is final."""
        for recording in self.all():
            for segment in recording.segments():
                if segment.line < recording.line_count:
                    yield recording, segment


def segments(options: ReadOptions) -> Iterator[tuple[Recording, Segment]]:
    """The sealed segments within the ranges asked for, in the order of the manifests."""
    recordings = Recordings(options.paths).all()
    if options.ranges is None:
        for recording in recordings:
            for segment in recording.segments():
                yield recording, segment
        return
    by_id = {recording.id: recording for recording in recordings}
    for name, first, stop in options.ranges:
        if name not in by_id:
            raise _missing(name, options.paths)
        recording = by_id[name]
        found = recording.segments()
        require_lines(recording, stop)
        for segment in found:
            if first <= segment.line < stop:
                yield recording, segment


def _missing(name: str, paths: Iterable[str]) -> PipelineError:
    # It may only be away, like a disk that is not there now: to go on without it would lose it.
    error = PipelineError(
        f"there is no recording {name} in {', '.join(paths)}, of which a batch that was begun has"
        " rows"
    )
    error.hint = "bring it back, or make new tables of what is left, in another folder"
    return error


def require_lines(recording: Recording, stop: int) -> None:
    """PipelineError if the manifest of a place, as it was last read, does not go so far.

    Two who copied at once may have put the older one last: rows would be passed over.
    """
    if isinstance(recording.path, RemotePath) and recording.line_count < stop:
        error = PipelineError(
            f"the manifest of {recording.path} has fewer lines than when this batch was begun"
        )
        error.hint = "copy the recording once more, and run again"
        raise error


def dropped(options: ReadOptions) -> Iterator[str]:
    """What is missing within the ranges asked for, since nobody read it before it was dropped."""
    by_id = {recording.id: recording for recording in Recordings(options.paths).all()}
    for name, first, stop in options.ranges or ():
        recording = by_id.get(name)
        if recording is None:
            continue  # It went just now, and was read before.
        recording.segments()
        told = _told(recording, first, stop)
        if told:
            yield told


def _told(recording: Recording, first: int, stop: int) -> str:
    gone = recording.dropped_between(first, stop)
    rows = sum(segment.rows for segment in gone)
    times = [(segment.time_min_ns, segment.time_max_ns) for segment in gone]
    reasons = {recording.dropped[segment.name] for segment in gone}
    forgotten = recording.forgotten_between(first, stop)
    if forgotten is not None:
        # How much of it was within the range is not known any more.
        rows += forgotten.rows
        times.append((forgotten.time_min_ns, forgotten.time_max_ns))
        reasons |= forgotten.segments.keys()
    if not times:
        return ""
    since = time_text(min(time_ns for time_ns, _ in times))
    until = time_text(max(time_ns for _, time_ns in times))
    return (
        f"{'up to ' if forgotten is not None else ''}{rows} rows of {recording.path} from {since}"
        f" to {until} were dropped for their {' and '.join(sorted(reasons))} before they were read"
    )


def runs(found: Iterable[tuple[Recording, Segment]], wanted: Wanted) -> Iterator[Run]:
    """The batches that may have wanted rows."""
    for recording, segment in found:
        if not wanted.has_segment(segment):
            continue
        first: int | None = None
        for index, batch in enumerate(segment.batches):
            is_wanted = wanted.has_batch(batch)
            if is_wanted and first is None:
                first = index
            elif not is_wanted and first is not None:
                yield _run(recording, segment, first, index)
                first = None
        if first is not None:
            yield _run(recording, segment, first, len(segment.batches))


def _run(recording: Recording, segment: Segment, first: int, stop: int) -> Run:
    return Run(
        recording=recording.id, space=recording.space, segment=segment, first=first, stop=stop
    )


def pack(found: Iterable[Run], partition_bytes: int) -> list[tuple[Run, ...]]:
    """Runs as tasks of about equal size: long ones are cut, short ones put together."""
    all_runs = list(found)
    total = sum(run.byte_count for run in all_runs)
    target = min(partition_bytes, max(_TASK_BYTES_MIN, total // _TASK_COUNT_MIN))
    tasks: list[tuple[Run, ...]] = []
    task: list[Run] = []
    size = 0
    for piece in (piece for run in all_runs for piece in _cut(run, target)):
        if task and size + piece.byte_count > target:
            tasks.append(tuple(task))
            task, size = [], 0
        task.append(piece)
        size += piece.byte_count
    if task:
        tasks.append(tuple(task))
    return tasks


def _cut(run: Run, target: int) -> Iterator[Run]:
    first, size = run.first, 0
    for index in range(run.first, run.stop):
        batch_size = run.segment.batches[index].size
        if index > first and size + batch_size > target:
            yield replace(run, first=first, stop=index)
            first, size = index, 0
        size += batch_size
    yield replace(run, first=first)


def definitions(
    type_name: str, found: Iterable[tuple[Recording, Segment]], only: Iterable[int] | None = None
) -> list[StructType]:
    """The definitions of a type that the segments use, in the order they are first used.

    Each is read from the first segment that has it, and no segment is opened for nothing.
    """
    known: dict[int, StructType] = {}
    left_out = None if only is None else set(only)
    for _, segment in found:
        numbers = segment.fingerprints.get(type_name, ())
        fresh = [n for n in numbers if n not in known and (left_out is None or n in left_out)]
        if not fresh:
            continue
        described = read_types(segment)
        for number in fresh:
            type_ = described.get(number)
            if isinstance(type_, StructType) and type_.name == type_name:
                known[number] = type_
    return list(known.values())
