"""Writes batches of the journal to the storage, in a separate thread.

Everything except writing happens in the event loop, so the journal needs no lock. One batch is
written at a time. Changes made meanwhile go into the next batch, so a slower disk gets larger
batches and fewer syncs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from skerry.engine.persistence import Journal, WriteBatch
from skerry.errors import StorageError
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.storage.contract import Storage, failure

log = logging.getLogger(__name__)

_CLOSE_PATIENCE_S: Final = 10.0
"""Time for which a failing storage delays the end of a node."""


class StorageWriter:
    """Writes the journal. `on_stored` is called whenever a batch is stored."""

    def __init__(self, journal: Journal, storage: Storage, on_stored: Callable[[], None]) -> None:
        self._journal = journal
        self._storage = storage
        self._on_stored = on_stored
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="skerry-storage")
        self._writing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closing = False
        self._is_closed = False
        self._is_done = asyncio.Event()
        """Set when everything is stored, or nothing will be stored any more."""
        self._fault: BaseException | None = None
        """An unexpected exception of the storage. Nothing is written after it."""

    def start(self) -> None:
        """Start in the running loop, and write the changes already in the journal."""
        assert self._loop is None, "the writer is already started"
        self._loop = asyncio.get_running_loop()
        self.wake()

    def wake(self) -> None:
        """Write changes in the journal, if there are any; cheap if not."""
        if self._is_busy or self._is_closed:
            return
        due_ns = self._journal.deadline_ns()
        if due_ns is None or self._loop is None or self._fault is not None:
            return
        now_ns = monotonic_ns()
        # When closing, the interval is skipped, but not the delay after a failure.
        is_urgent = self._is_closing and not self._journal.trouble
        if due_ns <= now_ns or is_urgent:
            self._begin(is_urgent=is_urgent)
        else:
            self._timer = self._loop.call_later((due_ns - now_ns) / 1e9, self._timer_fired)

    async def close(self, *, patience_s: float = _CLOSE_PATIENCE_S) -> None:
        """Write all waiting changes and close the storage; StorageError if that failed.

        Writing to a failing storage is retried for `patience_s`.
        """
        assert self._loop is not None, "the writer is not started"
        self._is_closing = True
        self._cancel_timer()
        if self._writing is None and self._fault is None:
            self._begin(is_urgent=True)
        try:
            async with asyncio.timeout(patience_s):
                await self._is_done.wait()
        except TimeoutError:
            pass
        finally:
            await self._close_storage()
        if self._fault is not None:
            raise self._fault
        statistics = self._journal.statistics()
        if statistics.stored < statistics.number:
            raise failure(
                f"{statistics.waiting_count} changes were not stored: {statistics.trouble}",
                "they are lost; repair the storage before you start the node again",
            )

    async def _close_storage(self) -> None:
        assert self._loop is not None
        self._is_closed = True
        self._cancel_timer()
        if self._writing is not None:
            # A write cannot be interrupted, and the storage is in use until it has ended.
            await asyncio.wait([self._writing])
        try:
            await self._loop.run_in_executor(self._thread, self._storage.close)
        finally:
            self._thread.shutdown(wait=False)

    def _begin(self, *, is_urgent: bool) -> None:
        """Write the next batch, if there is one."""
        assert self._loop is not None
        batch = self._journal.take_batch(monotonic_ns(), is_urgent=is_urgent)
        if batch is None:
            self._is_done.set()
            return
        self._is_done.clear()
        self._writing = self._loop.run_in_executor(self._thread, self._storage.write, batch)
        self._writing.add_done_callback(lambda done: self._end(batch, done))

    def _end(self, batch: WriteBatch, done: asyncio.Future[None]) -> None:
        self._writing = None
        fault = done.exception()
        try:
            if fault is None:
                self._written(batch)
            elif isinstance(fault, StorageError):
                self._failed(batch, fault)
            else:
                self._break(batch, fault)
        finally:
            self.wake()
            if not self._is_busy:
                self._is_done.set()

    @property
    def _is_busy(self) -> bool:
        return self._writing is not None or self._timer is not None

    def _written(self, batch: WriteBatch) -> None:
        if self._journal.trouble:
            log.info("objects are stored again", extra={"place": self._storage.location})
        self._journal.written(batch.number)
        self._on_stored()

    def _failed(self, batch: WriteBatch, fault: StorageError) -> None:
        # Logged once; the statistics count the retries.
        if not self._journal.trouble:
            log.error("objects cannot be stored", extra={"reason": str(fault), "hint": fault.hint})
        self._journal.failed(batch.number, str(fault), monotonic_ns())

    def _break(self, batch: WriteBatch, fault: BaseException) -> None:
        """Handle a bug in the storage: publishers are rejected once the journal is full."""
        self._fault = fault
        self._journal.failed(batch.number, repr(fault), monotonic_ns())
        assert self._loop is not None
        self._loop.call_exception_handler(
            {"message": "the storage failed; nothing is stored any more", "exception": fault}
        )

    def _timer_fired(self) -> None:
        self._timer = None
        self.wake()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
