"""Batches as a query of Spark: how far they have come survives whatever happens.

Spark decides when a batch is due and writes down what it consists of; the batch itself reads that
and does not touch the frame it is handed, which costs nothing unless it is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from skerry.errors import PipelineError, RecordingError, SkerryError
from skerry.recording.index import Segment
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.recordings.places import first_line
from skerry.runtime.recordings.reader import Recording, open_recordings
from skerry.spark.file_systems import require_file_system
from skerry.spark.jobs.batch import process_batch
from skerry.spark.jobs.maintenance import clean_up, maintain
from skerry.spark.jobs.offset_log import offset_of, query_id, ranges_of
from skerry.spark.lake import Lake, Plan
from skerry.spark.planning import Recordings

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["BATCH_ROWS", "Progress", "Stream", "backlog"]

BATCH_ROWS: Final = 20_000_000
"""Rows of one batch at most: more gain nothing, and a batch is what is done anew after a crash."""


_OWN_ERROR: Final = re.compile(r"skerry\.errors\.\w+: (.+)")
_TRIES: Final = 6
"""On a busy computer Python starts too slowly for Spark; going on where it was costs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How a job is doing."""

    batch_count: int
    row_count: int
    """Rows that were new, of all batches."""
    rows_per_s: float
    """Over the last batch."""
    backlog_rows: int
    """Rows that are recorded and not in the tables yet."""
    stages_done: int
    stages_total: int
    """Tasks of the stages that run now."""
    notices: tuple[str, ...] = ()
    damaged_count: int = 0
    """Segments with a damaged batch, of all batches."""


class _EndedEarly(Exception):
    """A batch was due when there were to be no more; the next job makes it."""


class Stream:
    """A query that brings recordings into tables, from where it was left."""

    def __init__(
        self,
        lake: Lake,
        recordings: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        batch_rows: int = BATCH_ROWS,
        follower: str | None = None,
    ) -> None:
        one = [recordings] if isinstance(recordings, str | PathLike) else recordings
        self.lake = lake
        self.paths = [fspath(path) for path in one]
        # Kept: somebody looks every second, and manifests of long recordings are long.
        self._recordings = Recordings(self.paths)
        self._batch_rows = batch_rows
        self._follower = follower
        self._failure: BaseException | None = None
        self._batches = 0
        self._rows = 0
        self._rate = 0.0
        self._notices: tuple[str, ...] = ()
        self._damaged = 0
        self._seen: dict[str, int] = {}
        self._absent: dict[str, str] = {}
        """By the id of a recording, what is said of the segment that it waits for."""
        self._is_busy = False
        self._is_ending = False

    def run(
        self,
        trigger: Mapping[str, Any],
        *,
        on_progress: Callable[[Progress], None] | None = None,
        is_stopping: Callable[[], bool] | None = None,
    ) -> Progress:
        """Bring in batches until the trigger has no more or it is to stop; tells how it went."""
        for path in self.paths:
            open_recordings(path)
        require_file_system(self.lake.spark, self.lake.store)
        with self.lake.writing():
            self._seen = self._known()
            for left in reversed(range(_TRIES)):
                try:
                    self._run_once(trigger, on_progress, is_stopping)
                    break
                except Exception as error:
                    if isinstance(self._failure, _EndedEarly):
                        break
                    if left == 0 or not _is_start_failure(error):
                        raise self._spoken(error) from error
        final = self.progress()
        if on_progress is not None:
            on_progress(final)
        if "availableNow" in trigger and not self._is_ending:
            self._require_all()
        return final

    def _run_once(
        self,
        trigger: Mapping[str, Any],
        on_progress: Callable[[Progress], None] | None,
        is_stopping: Callable[[], bool] | None,
    ) -> None:
        query = self._start(trigger)
        try:
            while not query.awaitTermination(1):
                if on_progress is not None:
                    on_progress(self.progress())
                self._is_ending |= is_stopping is not None and is_stopping()
                # A batch that has begun comes to its end first.
                if self._is_ending and not self._is_busy:
                    return
        finally:
            query.stop()

    def progress(self) -> Progress:
        """How far it is at this moment."""
        done, total = _stages(self.lake)
        backlog_rows = _rows_after(self._recordings, self._seen)
        self._tell_of_absent()
        return Progress(
            batch_count=self._batches,
            row_count=self._rows,
            rows_per_s=self._rate,
            backlog_rows=backlog_rows,
            stages_done=done,
            stages_total=total,
            notices=self._notices,
            damaged_count=self._damaged,
        )

    def _tell_of_absent(self) -> None:
        """Say once of each recording that it waits for a segment, as long as it is that one."""
        waiting = {r.id: _absence(r, missing) for r, missing in self._recordings.absent()}
        self._notices += tuple(
            f"{text}; what comes after it waits"
            for name, text in waiting.items()
            if self._absent.get(name) != text
        )
        self._absent = waiting

    def _require_all(self) -> None:
        """RecordingError if something that a manifest names could not be brought in."""
        for text in self._absent.values():
            error = RecordingError(f"{text}; what comes before it is in the tables")
            error.hint = "copy it there and run again; segments are to be copied before manifests"
            raise error

    def _known(self) -> dict[str, int]:
        """How far earlier jobs came."""
        lake, last = self.lake, self.lake.last_plan()
        if last.number < 0:
            return {}
        return dict(offset_of(lake.store, lake.checkpoint, last.batch) or {})

    def _start(self, trigger: Mapping[str, Any]) -> StreamingQuery:
        reader = (
            self.lake.spark.readStream.format("skerry")
            .option("paths", json.dumps(self.paths))
            .option("maxRows", str(self._batch_rows))
        )
        if self._follower is not None:
            reader = reader.option("follower", self._follower)
        writer = reader.load().writeStream.foreachBatch(self._process)
        place = self.lake.store.spark_path(self.lake.checkpoint)
        return writer.option("checkpointLocation", place).trigger(**trigger).start()

    def _process(self, _frame: Any, batch: int) -> None:
        started_ns = monotonic_ns()
        self._is_busy = True
        try:
            plan = self._brought_in(batch)
        except BaseException as error:
            # What Spark makes of it on its way through the JVM is hard to read.
            self._failure = error
            raise
        finally:
            self._is_busy = False
        self._batches += 1
        self._rows += plan.row_count
        self._rate = plan.row_count * 1e9 / max(1, monotonic_ns() - started_ns)
        self._notices += plan.notices
        self._damaged += len(plan.damaged)

    def _brought_in(self, batch: int) -> Plan:
        if self._is_ending:
            raise _EndedEarly
        lake = self.lake
        ranges = ranges_of(lake.store, lake.checkpoint, batch)
        query = query_id(lake.store, lake.checkpoint)
        with lake.batch():
            plan = process_batch(lake, self.paths, ranges, query=query, batch=batch)
            maintain(lake, plan)
        clean_up(lake)
        self._seen |= {name: stop for name, _, stop in ranges}
        return plan

    def _spoken(self, error: BaseException) -> BaseException:
        cause = self._failure if self._failure is not None else error
        if isinstance(cause, SkerryError):
            return cause
        # What went wrong in a process of Spark's comes back as text, with all that led to it.
        own = _OWN_ERROR.search(str(cause))
        return PipelineError(f"the job failed: {first_line(cause) if own is None else own[1]}")


def backlog(paths: Sequence[str], seen: Mapping[str, int]) -> int:
    """Rows in sealed segments after the lines that were seen."""
    return _rows_after(Recordings(paths), seen)


def _rows_after(recordings: Recordings, seen: Mapping[str, int]) -> int:
    return sum(
        segment.rows
        for recording in recordings.all()
        for segment in recording.segments()
        if segment.line >= seen.get(recording.id, 0)
    )


def _absence(recording: Recording, missing: Sequence[Segment]) -> str:
    return f"{missing[0].name} of {recording.place} is not there, or not whole yet"


def _is_start_failure(error: Exception) -> bool:
    """Whether a process of Spark's did not start in the ten seconds it is given."""
    return "Python worker failed to connect back" in str(error)


def _stages(lake: Lake) -> tuple[int, int]:
    """Tasks that are done and that there are, of all stages that run now."""
    tracker = lake.spark.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [info for info in infos if info is not None]
    return sum(info.numCompletedTasks for info in known), sum(info.numTasks for info in known)
