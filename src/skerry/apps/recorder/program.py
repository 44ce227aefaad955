"""The recorder as a program: sources of updates, a queue, a thread that writes, an orderly end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from skerry.apps.node.config import split_place
from skerry.apps.recorder.config import RecorderConfig
from skerry.apps.recorder.row_queue import RowQueue
from skerry.apps.recorder.writing_thread import WritingThread
from skerry.observe.metrics import CONTENT_TYPE, scrape
from skerry.observe.recorder_metrics import RecorderStatistics, recorder_registry
from skerry.recording.manifest_lines import Repair
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.health import HealthServer, Page
from skerry.runtime.recordings.resume_point import ResumePoint
from skerry.runtime.recordings.writer import RecordingWriter

__all__ = ["Recorder", "RecorderSummary", "RecordingSource"]

_TICK_S_MAX: Final = 0.1
"""How soon a request to stop is seen."""


class RecordingSource(Protocol):
    """Where updates come from. It writes them as rows into the queue that it was made with."""

    @property
    def name(self) -> str: ...  # what is recorded, for people
    @property
    def taken_count(self) -> int: ...  # updates that came
    @property
    def is_complete(self) -> bool: ...  # whether all that was there has been told
    @property
    def lost_count(self) -> int: ...  # how often it was lost
    async def start(self) -> None: ...  # begin; ConnectFailed when that cannot be done
    async def stop(self) -> None: ...  # the last rows are in the queue when this returns
    def check(self) -> None: ...  # raises what ended it, if it is over


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSummary:
    """What became of a recording."""

    folder: str
    recording: str
    seconds: float
    updates: int
    rows: int
    bytes: int
    gaps: int
    lost_rows: int
    disconnects: int


class Recorder:
    """Records into a folder until told to stop. `tell` hears what happens."""

    def __init__(
        self,
        folder: Path,
        config: RecorderConfig | None = None,
        *,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """RecordingError when the folder cannot be written to, somebody else does, or it is of
        another space."""
        self.config = config = config or RecorderConfig()
        self._tell = tell
        self._writer = RecordingWriter(folder, config, space=config.space)
        self.queue = RowQueue(
            space=self.space,
            row_count_max=config.batch_rows,
            waiting_bytes_max=config.queue_bytes_max,
        )
        """Where sources put their rows."""
        self._writing = WritingThread(self.queue, self._writer, tell=tell)
        self._sources: list[RecordingSource] = []
        self._started_ns = monotonic_ns()

    @property
    def space(self) -> str:
        """The space that is recorded."""
        return self._writer.space

    @property
    def repairs(self) -> Sequence[Repair]:
        """What a recorder before this one left unfinished."""
        return self._writer.repairs

    @property
    def ending(self) -> ResumePoint | None:
        """Where a recorder before this one ended; None if there was none."""
        return self._writer.resume_point

    def add(self, source: RecordingSource) -> None:
        """One more source; before `run`."""
        self._sources.append(source)

    async def run(
        self,
        is_stopped: Callable[[], bool],
        *,
        seconds: float | None = None,
        count: int | None = None,
        show: Callable[[RecorderStatistics], None] = lambda _now: None,
        on_started: Callable[[], None] = lambda: None,
    ) -> RecorderSummary:
        """Record until stopped, for so many seconds, or until so many updates have come.

        `on_started` is called when all that was there has been told: nothing is missed from then
        on. All that came is written and sealed when this returns, or raises.
        """
        pages: HealthServer | None = None
        self._writing.start()
        try:
            if self.config.metrics != "off":
                pages = HealthServer(self._pages())
                self._tell(f"metrics at {await pages.listen(*split_place(self.config.metrics))}")
            for source in self._sources:
                await source.start()
            await self._wait(is_stopped, seconds, count, show, on_started)
        finally:
            await self._end(pages)
        return self._summary()

    def statistics(self) -> RecorderStatistics:
        """The recorder at this instant."""
        writer, queue = self._writer, self.queue
        return RecorderStatistics(
            updates=sum(source.taken_count for source in self._sources),
            rows=writer.row_count,
            bytes=writer.byte_count,
            gaps=queue.gap_count + writer.gap_count,
            lost_rows=queue.lost_count + writer.lost_row_count,
            disconnects=sum(source.lost_count for source in self._sources),
            dropped_segments=writer.dropped_count,
            queued_bytes=queue.waiting_bytes,
            trouble=self._writing.trouble,
        )

    async def _wait(
        self,
        is_stopped: Callable[[], bool],
        seconds: float | None,
        count: int | None,
        show: Callable[[RecorderStatistics], None],
        on_started: Callable[[], None],
    ) -> None:
        is_started = False
        batch_ns = self.config.batch_ms * 1_000_000
        tick_s = min(self.config.batch_ms / 1000, _TICK_S_MAX)
        self._started_ns = handed_ns = monotonic_ns()
        while not is_stopped():
            await asyncio.sleep(tick_s)
            now_ns = monotonic_ns()
            if now_ns - handed_ns >= batch_ns:
                self.queue.hand_over()
                handed_ns = now_ns
            for source in self._sources:
                source.check()
            if not is_started and all(source.is_complete for source in self._sources):
                is_started = True
                on_started()
            now = self.statistics()
            show(now)
            if seconds is not None and now_ns - self._started_ns >= seconds * 1e9:
                break
            if (count is not None and now.updates >= count) or not self._writing.is_alive:
                break

    async def _end(self, pages: HealthServer | None) -> None:
        # The last first; and each, whatever becomes of those before.
        async with AsyncExitStack() as stack:
            stack.callback(self._writing.stop)
            if pages is not None:
                stack.push_async_callback(pages.close)
            stack.callback(self.queue.close)
            for source in self._sources:
                stack.push_async_callback(source.stop)

    def _summary(self) -> RecorderSummary:
        now = self.statistics()
        return RecorderSummary(
            folder=str(self._writer.folder),
            recording=self._writer.identity.id,
            seconds=round((monotonic_ns() - self._started_ns) / 1e9, 3),
            updates=now.updates,
            rows=now.rows,
            bytes=now.bytes,
            gaps=now.gaps,
            lost_rows=now.lost_rows,
            disconnects=now.disconnects,
        )

    def _pages(self) -> dict[str, Callable[[], Page]]:
        registry = recorder_registry(self.statistics)
        return {
            "/healthz": lambda: Page(body=b"ok\n"),
            "/metrics": lambda: Page(body=scrape(registry), content_type=CONTENT_TYPE),
            "/readyz": self._ready,
            "/status.json": lambda: Page(
                body=f"{json.dumps(asdict(self.statistics()))}\n".encode(),
                content_type="application/json",
            ),
        }

    def _ready(self) -> Page:
        trouble = self._writing.trouble
        if trouble:
            return Page(status=503, body=f"{trouble}\n".encode())
        return Page(body=b"ready\n")
