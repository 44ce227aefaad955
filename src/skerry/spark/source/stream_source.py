"""Streams from recordings: offsets, and the segments of each batch.

An offset is the number of manifest lines read, per recording. Line numbers never change, even if
earlier lines are removed. So an offset keeps its meaning, and a batch that is repeated after a
crash reads the same rows. Only sealed segments are read, and none are deleted.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from skerry.errors import RecordingError
from skerry.recording.index import Segment
from skerry.runtime.recordings.files.followers import remove_follower, touch_follower
from skerry.runtime.recordings.reader import Recording
from skerry.spark.source.options import ReadOptions
from skerry.spark.source.planning import Recordings, Runs, pack, require_lines, runs
from skerry.spark.source.reading import RowShape, read_runs

log = logging.getLogger(__name__)

Offset = dict[str, int]
"""Number of manifest lines read, by recording id."""

_TOUCH_S: Final = 1.0
"""How often the presence of the follower is renewed."""


def next_offset(
    start: Offset,
    waiting: list[tuple[Recording, Segment]],
    *,
    segments_max: int | None,
    rows_max: int | None,
    bytes_max: int | None = None,
) -> Offset:
    """The offset after as many waiting segments as the limits allow, but at least one.

    The oldest segments are first, so that recordings of one space advance together.
    """
    offset = dict(start)
    rows = size = 0
    # Segments of one recording stay in order, even if its clock went back.
    queues: dict[str, list[Segment]] = {}
    for recording, segment in waiting:
        queues.setdefault(recording.id, []).append(segment)
    for count in range(len(waiting)):
        name = min(queues, key=lambda name: queues[name][0].time_min_ns)
        segment = queues[name][0]
        is_full = (
            (segments_max is not None and count >= segments_max)
            or (rows_max is not None and rows + segment.rows > rows_max)
            or (bytes_max is not None and size + segment.byte_count > bytes_max)
        )
        if count and is_full:
            break
        offset[name] = segment.line + 1
        rows += segment.rows
        size += segment.byte_count
        queues[name].pop(0)
        if not queues[name]:
            del queues[name]
    return offset


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads sealed segments, including those added while the query runs."""

    def __init__(self, options: ReadOptions, shape: RowShape) -> None:
        self._options = options
        self._shape = shape
        self._recordings = Recordings(options.paths)
        self._target: Offset | None = None
        self._presence: FollowerPresence | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_segments is not None:
            return ReadMaxFiles(self._options.max_segments)
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._latest({}, ReadAllAvailable())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Offset:  # noqa: N802
        offset = self._latest(start, limit)
        if self._target is None:
            self._follow()
        return offset

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        return self._latest({}, ReadAllAvailable())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        found = [
            (recording, segment)
            for recording, segment in self._recordings.sealed()
            if start.get(recording.id, 0) <= segment.line < end.get(recording.id, 0)
        ]
        for recording in self._recordings.all():
            require_lines(recording, end.get(recording.id, 0))
        tasks = pack(runs(found, self._shape.wanted), self._options.partition_bytes)
        return [Runs(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Runs)
        return read_runs(partition.runs, self._shape)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: only the recorder deletes segments, and other readers may need them."""

    def stop(self) -> None:
        if self._presence is not None:
            self._presence.end()
            self._presence = None

    def _latest(self, start: Offset, limit: ReadLimit) -> Offset:
        waiting = [
            (recording, segment)
            for recording, segment in self._recordings.arrived()
            if segment.line >= start.get(recording.id, 0) and self._is_due(recording, segment)
        ]
        is_all = isinstance(limit, ReadAllAvailable)
        return next_offset(
            start,
            waiting,
            segments_max=None if is_all else self._options.max_segments,
            rows_max=None if is_all else self._options.max_rows,
        )

    def _is_due(self, recording: Recording, segment: Segment) -> bool:
        """Whether the segment existed when a query with trigger `availableNow` began."""
        return self._target is None or segment.line < self._target.get(recording.id, 0)

    def _follow(self) -> None:
        if self._presence is None:
            name = self._options.follower or f"spark-{uuid.uuid4().hex[:12]}"
            self._presence = FollowerPresence(self._recordings, name)


class FollowerPresence:
    """Announces a follower to recorders every second, independent of the interval of batches."""

    def __init__(self, recordings: Recordings, name: str) -> None:
        self._recordings = recordings
        self._name = name
        self._is_over = threading.Event()
        self._has_warned = False
        self._touch()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Withdraw the follower; blocks until the thread has ended."""
        self._is_over.set()
        self._thread.join()
        for folder in self._recordings.folders():
            try:
                remove_follower(folder, self._name)
            except OSError:
                continue  # it expires

    def _run(self) -> None:
        while not self._is_over.wait(_TOUCH_S):
            self._touch()

    def _touch(self) -> None:
        for folder in self._recordings.folders():
            try:
                touch_follower(folder, self._name)
            except RecordingError as error:
                # A read-only recording can be followed, but its segments are sealed less often.
                if not self._has_warned:
                    log.warning("cannot announce the follower to the recorder: %s", error)
                self._has_warned = True
