"""An event loop in its own thread, and work that other threads submit to it.

Submitted work is done or fails: no caller waits for a loop that has ended. A lock therefore
excludes that work is submitted while the loop stops accepting it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimedOut
from time import monotonic
from typing import Any, Final, TypeVar

from skerry.errors import Disconnected, LocalProtocolError, RequestTimedOut

T = TypeVar("T")

FORKED: Final = "the space belongs to the process that this one was forked from"
"""The error in a forked child process."""
_GRACE_S: Final = 0.1
"""Extra wait beyond the timeout of the work, whose own error is more precise."""
_CLOSED: Final = "the space is closed"


class LoopThread:
    """A loop that runs in a thread until `end`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        # Reentrant: the garbage collector may run while work is submitted, and find a space without
        # references, whose finalizer abandons this same thread.
        self._lock = threading.RLock()
        self._pending: set[Future[Any]] = set()
        self._is_open = True
        self._is_over = False
        self._is_stopped = False
        self.is_forked = False
        """Whether the thread is in the process that this one was forked from."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        _RUNNING.add(self)

    @property
    def is_running(self) -> bool:
        """Whether the thread runs. After a fork it does not run in the child process."""
        return not self.is_forked and self._thread.is_alive()

    @property
    def is_open(self) -> bool:
        return self._is_open and self.is_running

    def check_wait(self) -> None:
        """LocalProtocolError on the thread itself, which cannot wait for its own work."""
        if threading.current_thread() is self._thread:
            raise LocalProtocolError("a callback cannot wait: it runs on the thread that it needs")

    def run(
        self, work: Coroutine[Any, Any, T], *, timeout: float | None = None, what: str = "it"
    ) -> T:
        """Run work in the thread and wait for it; raises Disconnected if the thread ends meanwhile.

        Work with a timeout counts it itself, and raises its own error. It cannot do that while a
        callback blocks the thread: then RequestTimedOut is raised here, a tenth of a second after
        the timeout, and the work is cancelled where it first waits.
        """
        limit_s = _limit_s(timeout)
        try:
            self.check_wait()
            future = self._submit(work)
        except BaseException:
            work.close()
            raise
        try:
            return future.result(limit_s)
        except CancelledError:
            raise Disconnected(_CLOSED) from None
        except FutureTimedOut:
            if not future.cancel():
                # It finished at the last moment, or the work itself raised the error.
                return future.result()
            raise RequestTimedOut(
                f"timed out after {timeout} s waiting for {what}:"
                " a callback blocks the space's thread"
            ) from None
        except BaseException:
            # After an interrupt, such as Ctrl-C, the work is cancelled too.
            future.cancel()
            raise
        finally:
            self._pending.discard(future)

    def call(self, work: Callable[[], T]) -> T:
        """Call a function that does not wait, on the thread."""
        if threading.current_thread() is self._thread:
            return work()

        async def done() -> T:
            return work()

        return self.run(done())

    def end(self, timeout: float | None = None) -> bool:
        """Stop the loop and wait for its thread; unfinished work fails.

        Returns whether the thread ended in time.
        """
        with self._lock:
            self._is_open = False
            if self.is_running and not self._is_over:
                self._loop.call_soon_threadsafe(self._stop)
        if not self.is_forked:
            self._thread.join(timeout)
        return not self.is_running

    def abandon(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a last coroutine on the thread, then stop the loop. Does not wait."""

        def finish() -> None:
            task = self._loop.create_task(last())
            task.add_done_callback(lambda _: self._stop())

        with self._lock:
            is_open, self._is_open = self.is_open, False
            if is_open:
                self._loop.call_soon_threadsafe(finish)

    def join(self, timeout: float | None) -> None:
        self._thread.join(timeout)

    def forked(self) -> None:
        """Mark the thread as lost in a forked child; so is the thread that may hold the lock."""
        self.is_forked = True
        self._is_open = False
        self._lock = threading.RLock()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if not self.is_open:
                raise Disconnected(FORKED if self.is_forked else _CLOSED)
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._pending.add(future)
            return future

    # -- on the thread

    def _work(self) -> None:
        try:
            self._loop.run_forever()
            with self._lock:
                # Work submitted before starts in the next iteration, and is cancelled there.
                self._is_open = False
            self._loop.run_until_complete(_cancel_all())
        finally:
            with self._lock:
                self._is_open = False
                self._is_over = True
                for future in list(self._pending):
                    future.cancel()
                self._loop.close()
            _RUNNING.discard(self)

    def _stop(self) -> None:
        # Only once: a second stop would interrupt the cancellation that follows the first.
        if not self._is_stopped:
            self._is_stopped = True
            self._loop.stop()


_RUNNING: set[LoopThread] = set()


def join_abandoned(seconds: float) -> None:
    """Wait for the threads that were abandoned, up to a timeout."""
    until = monotonic() + seconds
    for thread in list(_RUNNING):
        if not thread.is_open and thread.is_running:
            thread.join(max(until - monotonic(), 0))


def _limit_s(timeout: Any) -> float | None:
    """How long to wait; None for ever, also if the timeout is invalid: the work checks it."""
    if not isinstance(timeout, (int, float)) or timeout != timeout:
        return None
    return min(max(timeout, 0) + _GRACE_S, threading.TIMEOUT_MAX)


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _forget_threads() -> None:
    """Mark all threads as lost in a forked child."""
    while _RUNNING:
        _RUNNING.pop().forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
