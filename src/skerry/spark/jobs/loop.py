"""The loop of a job: runs batches one after the other, from where the last plan ended.

The offsets of the recordings are part of each plan, so the rows of a batch and its offsets are
committed together. A batch runs in a separate thread; meanwhile the loop reports progress and
checks for a stop request, which ends the job after the batch.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Final

from skerry.errors import PipelineError, RecordingError, SkerryError
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.recordings.files.remote_paths import first_line
from skerry.runtime.recordings.reader import open_recordings
from skerry.spark.jobs.batch import Range, process_batch
from skerry.spark.jobs.derived_tables import build_derived
from skerry.spark.jobs.maintenance import clean_up, maintain
from skerry.spark.lake.lake import Lake
from skerry.spark.lake.plans import Plan
from skerry.spark.lake.store import require_file_system
from skerry.spark.source.planning import Recordings
from skerry.spark.source.stream_source import FollowerPresence, Offset, next_offset
from skerry.spark.startup.session import batch_bytes_of

_POLL_S: Final = 0.5
_LAST_HOURS: Final = 2
"""Maximum number of hours of derived tables that are still built when a job is stopped."""
_OWN_ERROR: Final = re.compile(r"skerry\.errors\.\w+: (.+)")
_PYTHON_ERROR: Final = re.compile(r"^(\w[\w.]*(?:Error|Exception): .+)$", re.MULTILINE)
_TRIES: Final = 6
"""On a busy computer Python workers start too slowly for Spark; a failed step is retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    batch_count: int = 0
    row_count: int = 0
    """New rows of all batches."""
    read_count: int = 0
    """Rows that were read in all batches, duplicates included."""
    rows_per_s: float = 0.0
    """Rows read per second, over all batches of this job."""
    backlog_rows: int = 0
    """Recorded rows that are not in the tables yet, those of the running batch included."""
    batch_rows: int = 0
    """Rows of the batch that is running; 0 between batches."""
    batch_s: float = 0.0
    stages_done: int = 0
    stages_total: int = 0
    """Tasks of the running Spark stages: completed, and all."""
    notices: tuple[str, ...] = ()
    damaged_count: int = 0
    """Segments with a damaged batch, of all batches."""

    @property
    def left_s(self) -> float | None:
        """Estimated seconds until the backlog is in the tables; None if unknown."""
        return self.backlog_rows / self.rows_per_s if self.rows_per_s else None


INTERVAL_S: Final = 1.0
"""Minimum time from the start of one batch to the start of the next."""
DERIVED_INTERVAL_S: Final = 60.0
"""Derived tables have figures by the minute, so a shorter interval gains nothing."""

_Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


def run_all(
    lake: Lake,
    recordings: _Paths,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    is_stopping: Callable[[], bool] | None = None,
    batch_bytes: int | None = None,
) -> Progress:
    """Merge all sealed segments into the tables, starting after the last committed batch."""
    loop = Loop(lake, recordings, batch_bytes=batch_bytes)
    return loop.run(on_progress=on_progress, is_stopping=is_stopping)


def follow(
    lake: Lake,
    recordings: _Paths,
    *,
    is_stopping: Callable[[], bool],
    on_progress: Callable[[Progress], None] | None = None,
    interval_s: float = INTERVAL_S,
    derived_interval_s: float = DERIVED_INTERVAL_S,
    batch_bytes: int | None = None,
    name: str = "pipeline",
) -> Progress:
    """Keep the tables up to date until `is_stopping` returns true.

    Recorders see `name` as the name of a follower, and do not delete segments it has not read.
    """
    loop = Loop(
        lake,
        recordings,
        batch_bytes=batch_bytes,
        follower=name,
        interval_s=interval_s,
        derived_interval_s=derived_interval_s,
    )
    return loop.run(on_progress=on_progress, is_stopping=is_stopping)


class Loop:
    """A job that merges recordings into tables."""

    def __init__(
        self,
        lake: Lake,
        recordings: _Paths,
        *,
        batch_bytes: int | None = None,
        follower: str | None = None,
        interval_s: float | None = None,
        derived_interval_s: float = 0.0,
    ) -> None:
        paths = [recordings] if isinstance(recordings, str | PathLike) else recordings
        self.lake = lake
        self.paths = [fspath(path) for path in paths]
        # Kept over batches: manifests can be long, and each call reads only new lines.
        self._recordings = Recordings(self.paths)
        self._batch_bytes = batch_bytes or lake.config.batch_bytes
        self._follower = follower
        self._interval_s = interval_s
        """None for a job that ends after the rows that are recorded at its start."""
        self._derived_interval_ns = int(derived_interval_s * 1e9)
        self._derived_ns = monotonic_ns()
        self._target: Offset | None = None
        self._done = Progress()
        self._busy_ns = 0
        self._batch_rows = 0
        self._seen: dict[str, int] = {}
        self._absent: dict[str, str] = {}
        """By recording id, the description of the segment that it waits for."""
        self._lock = threading.Lock()
        self._on_progress: Callable[[Progress], None] | None = None
        self._is_stopping: Callable[[], bool] | None = None
        self._is_ending = False

    def run(
        self,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        is_stopping: Callable[[], bool] | None = None,
    ) -> Progress:
        """Run batches until all rows are in the tables, or `is_stopping` returns true.

        Returns the final progress. Raises RecordingError if a segment is missing.
        """
        self._on_progress, self._is_stopping = on_progress, is_stopping
        for path in self.paths:
            open_recordings(path)
        require_file_system(self.lake.spark, self.lake.store)
        self._batch_bytes = self._batch_bytes or batch_bytes_of(self.lake.spark)
        with self.lake.writing():
            last = self.lake.last_plan()
            self.lake.commit_plan(last)
            self._seen = dict(last.offsets)
            presence = None
            if self._interval_s is None:
                self._target = _ends(self._recordings)
            else:
                self._recordings.all()
                presence = FollowerPresence(self._recordings, self._follower or "pipeline")
            try:
                self._run_steps()
            finally:
                if presence is not None:
                    presence.end()
        final = self.progress()
        if on_progress is not None:
            on_progress(final)
        if self._target is not None and not self._is_ending:
            self._require_all()
        return final

    def _run_steps(self) -> None:
        with ThreadPoolExecutor(1, "skerry-batch") as pool:
            while not self._is_ending:
                started_ns = monotonic_ns()
                ranges = self._next()
                step = self._run_batch if ranges else self._build_derived
                job = pool.submit(self._retried, step, ranges)
                has_worked = self._awaited(job)
                if has_worked:
                    if self._interval_s is None or self._is_late(started_ns):
                        continue
                elif self._interval_s is None:
                    return
                self._wait(started_ns)
            # More hours are left to the next job, so that a stopped job ends soon.
            if self._interval_s is not None and self._has_few_stale_hours():
                self._awaited(pool.submit(self._build_derived, []))

    def _has_few_stale_hours(self) -> bool:
        return 0 < len(self.lake.last_plan().stale_hours) <= _LAST_HOURS

    def _poll(self) -> None:
        """Report progress, and note a request to stop."""
        if self._on_progress is not None:
            self._on_progress(self.progress())
        self._is_ending |= self._is_stopping is not None and self._is_stopping()

    def _awaited(self, job: Future[bool]) -> bool:
        """Wait for the result of a step; meanwhile report progress."""
        while True:
            self._poll()
            try:
                return job.result(timeout=_POLL_S)
            except FutureTimeout:
                if job.done():
                    raise

    def _is_late(self, started_ns: int) -> bool:
        assert self._interval_s is not None
        return monotonic_ns() - started_ns >= self._interval_s * 1e9

    def _wait(self, started_ns: int) -> None:
        """Wait until the end of the interval."""
        assert self._interval_s is not None
        stop_ns = started_ns + int(self._interval_s * 1e9)
        pause = threading.Event()
        while not self._is_ending:
            self._poll()
            left_s = (stop_ns - monotonic_ns()) / 1e9
            if left_s <= 0:
                return
            pause.wait(min(left_s, _POLL_S))

    # -- steps

    def _next(self) -> list[Range]:
        """The ranges of the next batch; empty if there are no new segments."""
        waiting = [
            (recording, segment)
            for recording, segment in self._recordings.arrived()
            if segment.line >= self._seen.get(recording.id, 0)
            and (self._target is None or segment.line < self._target.get(recording.id, 0))
        ]
        after = next_offset(
            self._seen, waiting, segments_max=None, rows_max=None, bytes_max=self._batch_bytes
        )
        self._batch_rows = sum(
            segment.rows for r, segment in waiting if segment.line < after.get(r.id, 0)
        )
        return [
            (name, self._seen.get(name, 0), stop)
            for name, stop in sorted(after.items())
            if stop > self._seen.get(name, 0)
        ]

    def _retried(self, step: Callable[[list[Range]], bool], ranges: list[Range]) -> bool:
        for left in reversed(range(_TRIES)):
            try:
                return step(ranges)
            except Exception as error:
                if left == 0 or not _is_start_failure(error):
                    raise _pipeline_error(error) from error
        raise AssertionError("the last try returns or raises")

    def _run_batch(self, ranges: list[Range]) -> bool:
        started_ns = monotonic_ns()
        lake = self.lake
        with lake.batch():
            plan = process_batch(lake, self.paths, ranges)
            maintain(lake, plan)
        clean_up(lake)
        self._add_progress(plan, monotonic_ns() - started_ns)
        if self._interval_s is not None and self._is_derived_due():
            self._build_derived([])
        return True

    def _add_progress(self, plan: Plan, spent_ns: int) -> None:
        done = self._done
        with self._lock:
            self._seen = dict(plan.offsets)
            self._busy_ns += spent_ns
            self._batch_rows = 0
            read = done.read_count + plan.read_count
            self._done = Progress(
                batch_count=done.batch_count + 1,
                row_count=done.row_count + plan.row_count,
                read_count=read,
                rows_per_s=read * 1e9 / max(1, self._busy_ns),
                batch_s=spent_ns / 1e9,
                notices=(*done.notices, *plan.notices),
                damaged_count=done.damaged_count + len(plan.damaged),
            )

    def _is_derived_due(self) -> bool:
        return monotonic_ns() - self._derived_ns >= self._derived_interval_ns

    def _build_derived(self, _ranges: list[Range]) -> bool:
        """Build the derived tables if they are due; returns False: there is no backlog."""
        is_due = self._interval_s is None or self._is_ending or self._is_derived_due()
        if is_due:
            build_derived(self.lake)
            self._derived_ns = monotonic_ns()
        return False

    # -- progress

    def progress(self) -> Progress:
        stages_done, stages_total = _stages(self.lake)
        with self._lock:
            done, seen, batch_rows = self._done, dict(self._seen), self._batch_rows
        backlog_rows = _rows_after(self._recordings, seen)
        notices = (*done.notices, *self._absence_notices())
        with self._lock:
            if self._done is done:
                self._done = done = replace(done, notices=notices)
        return replace(
            done,
            backlog_rows=backlog_rows,
            batch_rows=batch_rows,
            stages_done=stages_done,
            stages_total=stages_total,
        )

    def _absence_notices(self) -> list[str]:
        """Notices about missing segments, one per recording and segment."""
        waiting = {
            r.id: f"segment {missing[0].name} of {r.path} is missing or incomplete"
            for r, missing in self._recordings.absent()
        }
        new = [
            f"{text}; later segments of the recording wait for it"
            for name, text in waiting.items()
            if self._absent.get(name) != text
        ]
        self._absent = waiting
        return new

    def _require_all(self) -> None:
        """RecordingError if a manifest names a segment that is missing."""
        for text in self._absent.values():
            error = RecordingError(f"{text}; all segments before it are in the tables")
            error.hint = "copy it and run again; copy segments before manifests"
            raise error


def backlog(paths: Sequence[str], seen: Mapping[str, int]) -> int:
    """The number of rows in sealed segments after these manifest lines."""
    return _rows_after(Recordings(paths), seen)


def _ends(recordings: Recordings) -> Offset:
    ends: Offset = {}
    for recording, segment in recordings.arrived():
        ends[recording.id] = max(ends.get(recording.id, 0), segment.line + 1)
    return ends


def _rows_after(recordings: Recordings, seen: Mapping[str, int]) -> int:
    return sum(
        segment.rows
        for recording in recordings.all()
        for segment in recording.segments()
        if segment.line >= seen.get(recording.id, 0)
    )


def _is_start_failure(error: Exception) -> bool:
    """Whether a Python worker did not start within Spark's timeout of ten seconds."""
    return "Python worker failed to connect back" in str(error)


_HINTS: Final = (
    (
        re.compile(r"OutOfMemoryError|Java heap space|GC overhead"),
        "the JVM ran out of memory",
        "raise --memory, or make batches smaller with --batch-bytes",
    ),
    (
        re.compile(r"MemoryError|ArrowMemoryError|Python worker exited unexpectedly"),
        "a Python worker ended, probably because it ran out of memory",
        "make batches smaller with --batch-bytes",
    ),
    (
        re.compile(r"No space left|Disk quota exceeded", re.IGNORECASE),
        "",
        "free disk space and start again; complete batches are kept, the rest is repeated",
    ),
)
"""Pattern of a failure, its cause, and a hint."""


def _pipeline_error(error: Exception) -> Exception:
    """The error in one line, with a hint."""
    if isinstance(error, SkerryError):
        return error
    text = str(error)
    # Spark reports the failure of a worker as text with tracebacks.
    own = _OWN_ERROR.findall(text)
    for pattern, cause, hint in _HINTS:
        if pattern.search(text):
            what = own[-1] if own else cause or first_line(error)
            fault = PipelineError(f"the job failed: {what}")
            fault.hint = hint
            return fault
    found = own or _PYTHON_ERROR.findall(text)
    return PipelineError(f"the job failed: {found[-1] if found else first_line(error)}")


def _stages(lake: Lake) -> tuple[int, int]:
    """The number of completed and of all tasks, over the running stages."""
    tracker = lake.spark.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [info for info in infos if info is not None]
    return sum(info.numCompletedTasks for info in known), sum(info.numTasks for info in known)
