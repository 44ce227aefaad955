"""Following recordings with Spark: which segments the next batch of a stream reads.

An offset says for each recording how many lines of its manifest were read. The number of
a line never changes, also where earlier lines are left out, so an offset means the same whenever it
is asked for again, and a batch that is repeated after a crash reads the same rows. Only sealed
segments are read, and nothing is ever deleted here.
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

__all__ = ["FollowerPresence", "Offset", "StreamReader", "next_offset"]

log = logging.getLogger(__name__)

Offset = dict[str, int]
"""Lines of the manifest that were read, by the id of the recording."""

_TOUCH_S: Final = 1.0
"""How often recorders are told that somebody follows."""


def next_offset(
    start: Offset,
    waiting: list[tuple[Recording, Segment]],
    *,
    segments_max: int | None,
    rows_max: int | None,
    bytes_max: int | None = None,
) -> Offset:
    """The offset after as many of the waiting segments as the limits let in, but at least one.

    The oldest come first, so that recordings of one space advance together.
    """
    offset = dict(start)
    rows = size = 0
    # Segments of one recording stay in their order, whatever its clock did.
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
    """Reads what was recorded, and what is added while it runs."""

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
        """Nothing to do: recordings belong to their recorder, and others may read them too."""

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
        """Whether it was there when a query began that only reads what was there."""
        return self._target is None or segment.line < self._target.get(recording.id, 0)

    def _follow(self) -> None:
        if self._presence is None:
            name = self._options.follower or f"spark-{uuid.uuid4().hex[:12]}"
            self._presence = FollowerPresence(self._recordings, name)


class FollowerPresence:
    """Tells recorders each second that somebody follows, however rarely Spark asks for more."""

    def __init__(self, recordings: Recordings, name: str) -> None:
        self._recordings = recordings
        self._name = name
        self._is_over = threading.Event()
        self._has_complained = False
        self._touch()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Follow no longer."""
        self._is_over.set()
        self._thread.join()
        for folder in self._recordings.folders():
            try:
                remove_follower(folder, self._name)
            except OSError:
                continue  # it gets old by itself

    def _run(self) -> None:
        while not self._is_over.wait(_TOUCH_S):
            self._touch()

    def _touch(self) -> None:
        for folder in self._recordings.folders():
            try:
                touch_follower(folder, self._name)
            except RecordingError as error:
                # One may follow what one may not write to; it is only sealed less often.
                if not self._has_complained:
                    log.warning("cannot tell the recorder that somebody follows: %s", error)
                self._has_complained = True
