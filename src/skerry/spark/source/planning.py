"""Plans which batches of which segments each task reads, from manifests only."""

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

_TASK_COUNT_MIN: Final = max(4, os.cpu_count() or 1)
"""Minimum number of tasks of a large read, so that no core is idle."""
_TASK_BYTES_MIN: Final = 16 * 1024 * 1024
"""A smaller task would take longer to start than to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive batches of one segment, from `first` to `stop`, exclusive."""

    recording: str
    space: str
    segment: Segment
    first: int
    stop: int

    @property
    def byte_count(self) -> int:
        return sum(batch.size for batch in self.segment.batches[self.first : self.stop])


class Runs(InputPartition):
    def __init__(self, runs: tuple[Run, ...]) -> None:
        super().__init__(None)
        self.runs = runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The selection of rows by options and filters."""

    types: frozenset[str] | None = None
    """None for all."""
    fingerprints: frozenset[int] | None = None
    from_ns: int | None = None
    to_ns: int | None = None

    def has_segment(self, segment: Segment) -> bool:
        """Whether the segment may have such rows, by its manifest entry."""
        if not self._has_times(segment.time_min_ns, segment.time_max_ns):
            return False
        if self.types is None:
            return True
        found = self.types & segment.types.keys()
        if self.fingerprints is None:
            return bool(found)
        return any(self.fingerprints & set(segment.fingerprints.get(t, ())) for t in found)

    def has_batch(self, batch: RecordedBatch) -> bool:
        """Whether the batch may have such rows; a batch without an index may have any."""
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
    """The recordings at some paths, each a recording or a folder of recordings.

    New recordings in such a folder are found by the next call.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(paths)
        self._known: dict[Path | RemotePath, Recording] = {}

    def all(self) -> list[Recording]:
        """All current recordings, each once even if several paths lead to it."""
        found: dict[str, Recording] = {}
        for path in self._paths:
            for folder in find_recordings(resolve_path(path)):
                recording = self._known.get(folder)
                if recording is None:
                    recording = self._known[folder] = Recording(folder)
                found.setdefault(recording.id, recording)
        return list(found.values())

    def folders(self) -> list[Path]:
        """The local folders of the recordings found so far."""
        return [folder for folder in self._known if isinstance(folder, Path)]

    def arrived(self) -> Iterator[tuple[Recording, Segment]]:
        """The segments in the manifests, of each recording up to its first missing segment."""
        for recording in self.all():
            for segment in recording.arrived():
                yield recording, segment

    def absent(self) -> Iterator[tuple[Recording, list[Segment]]]:
        """The recordings found so far that have missing segments, and these segments."""
        for recording in self._known.values():
            if missing := recording.absent():
                yield recording, missing

    def sealed(self) -> Iterator[tuple[Recording, Segment]]:
        """The segments in the manifests, whose line number is final."""
        for recording in self.all():
            for segment in recording.segments():
                if segment.line < recording.lines.count:
                    yield recording, segment


def segments(options: ReadOptions) -> Iterator[tuple[Recording, Segment]]:
    """The sealed segments within the ranges of the options, in manifest order."""
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
    # It may be missing only now, such as an unmounted disk; without it, its rows would be lost.
    error = PipelineError(
        f"recording {name} is missing in {', '.join(paths)}; an unfinished batch has rows of it"
    )
    error.hint = "restore it, or make new tables from the other recordings in another folder"
    return error


def require_lines(recording: Recording, stop: int) -> None:
    """PipelineError if a remote manifest, as last read, has fewer than `stop` lines.

    After two concurrent copies the older manifest may be the last one written; continuing would
    skip rows.
    """
    if isinstance(recording.path, RemotePath) and recording.lines.count < stop:
        error = PipelineError(
            f"the manifest of {recording.path} has fewer lines than when this batch began"
        )
        error.hint = "copy the recording again, then repeat the command"
        raise error


def dropped(options: ReadOptions) -> Iterator[str]:
    """Notices about rows in the ranges that the recorder deleted before they were read."""
    by_id = {recording.id: recording for recording in Recordings(options.paths).all()}
    for name, first, stop in options.ranges or ():
        recording = by_id.get(name)
        if recording is None:
            continue  # Deleted just now; its rows were read before.
        recording.segments()
        notice = _drop_notice(recording, first, stop)
        if notice:
            yield notice


def _drop_notice(recording: Recording, first: int, stop: int) -> str:
    gone = recording.dropped_between(first, stop)
    rows = sum(segment.rows for segment in gone)
    times = [(segment.time_min_ns, segment.time_max_ns) for segment in gone]
    reasons = {recording.lines.dropped[segment.name] for segment in gone}
    forgotten = recording.forgotten_between(first, stop)
    if forgotten is not None:
        # Its manifest lines are gone, so how much of it was within the range is unknown.
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
    """Runs as tasks of about equal size: long runs are cut, short ones are combined."""
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
    """The definitions of a type in the segments, in the order of first use.

    Each is read from the first segment that has it; only segments with a new one are opened.
    """
    known: dict[int, StructType] = {}
    wanted = None if only is None else set(only)
    for _, segment in found:
        numbers = segment.fingerprints.get(type_name, ())
        fresh = [n for n in numbers if n not in known and (wanted is None or n in wanted)]
        if not fresh:
            continue
        described = read_types(segment)
        for number in fresh:
            type_ = described.get(number)
            if isinstance(type_, StructType) and type_.name == type_name:
                known[number] = type_
    return list(known.values())
