"""The recorder: connects sources, the row queue and the writing thread, and ends them in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from skerry.apps.node.config import split_host_port
from skerry.apps.recorder.config import RecorderConfig
from skerry.apps.recorder.row_queue import RowQueue
from skerry.apps.recorder.writing_thread import WritingThread
from skerry.observe.metrics import CONTENT_TYPE, scrape
from skerry.observe.number_metrics import RecorderStatistics, recorder_registry
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.health import HealthServer, Page
from skerry.runtime.recordings.writer import RecordingWriter

_TICK_S_MAX: Final = 0.1
"""Interval at which a stop request is polled."""


class RecordingSource(Protocol):
    """A source of updates, which it appends as rows to its queue."""

    @property
    def name(self) -> str: ...  # for messages
    @property
    def received_count(self) -> int: ...  # updates received
    @property
    def is_complete(self) -> bool: ...  # whether all existing objects were received
    @property
    def lost_count(self) -> int: ...  # lost connections
    async def start(self) -> None: ...  # raises ConnectFailed
    async def stop(self) -> None: ...  # the last rows are in the queue when this returns
    def check(self) -> None: ...  # raises the error that ended the source, if any


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSummary:
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
    """Records into a folder until a stop request. `report` receives messages."""

    def __init__(
        self,
        folder: Path,
        config: RecorderConfig | None = None,
        *,
        report: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """RecordingError if the folder is not writable, is in use by another recorder, or holds a
        recording of another space."""
        self.config = config = config or RecorderConfig()
        self._report = report
        self.writer = RecordingWriter(folder, config, space=config.space)
        self.queue = RowQueue(
            space=self.writer.space,
            row_count_max=config.batch_rows,
            waiting_bytes_max=config.queue_bytes_max,
        )
        self._writing = WritingThread(self.queue, self.writer, report=report)
        self._sources: list[RecordingSource] = []
        self._started_ns = monotonic_ns()

    def add(self, source: RecordingSource) -> None:
        """Add a source, before `run`."""
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
        """Record until `is_stopped`, for `seconds`, or until `count` updates were received.

        `on_started` is called when all existing objects were received: no update is missed from
        then on. When this returns or raises, all received updates are written and sealed.
        """
        pages: HealthServer | None = None
        self._writing.start()
        try:
            if self.config.metrics != "off":
                pages = HealthServer(self._pages())
                self._report(
                    f"metrics at {await pages.listen(*split_host_port(self.config.metrics))}"
                )
            for source in self._sources:
                await source.start()
            await self._wait(is_stopped, seconds, count, show, on_started)
        finally:
            await self._end(pages)
        return self._summary()

    def statistics(self) -> RecorderStatistics:
        writer, queue = self.writer, self.queue
        return RecorderStatistics(
            updates=sum(source.received_count for source in self._sources),
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
            if (count is not None and now.updates >= count) or not self._writing.thread.is_alive():
                break

    async def _end(self, pages: HealthServer | None) -> None:
        # Callbacks run in reverse order, and all of them run even if one fails.
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
            folder=str(self.writer.folder),
            recording=self.writer.identity.id,
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
