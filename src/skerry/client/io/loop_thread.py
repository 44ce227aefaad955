"""A loop in a thread of its own, and doing things there from others.

Work that is handed over is done, or fails: nobody waits for a loop that has ended. What is handed
over and the end of taking it therefore exclude each other.
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

__all__ = ["FORKED", "LoopThread", "wait_left"]

T = TypeVar("T")

FORKED: Final = "the space belongs to the process that this one was forked from"
"""Why nothing can be done in a child."""
_GRACE_S: Final = 0.1
"""Extra wait beyond the timeout of the work, whose own error is more precise."""
_CLOSED: Final = "the space is closed"


class LoopThread:
    """A loop that runs in a thread until `end`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        # One that its holder may take again: the collector may run at any time, also while work is
        # handed over, and find a space that nobody holds, which then leaves this very thread.
        self._gate = threading.RLock()
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
        """Whether the thread is there. Not after a fork: threads stay behind."""
        return not self.is_forked and self._thread.is_alive()

    @property
    def is_open(self) -> bool:
        """Whether something can be done there: nobody has asked for the end."""
        return self._is_open and self.is_running

    def check_wait(self) -> None:
        """LocalProtocolError on the thread itself, which cannot wait for what it has to do."""
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
            future = self._hand_over(work)
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
            # Whoever is interrupted (by the keyboard, say) waits no more, there as here.
            future.cancel()
            raise
        finally:
            self._pending.discard(future)

    def call(self, work: Callable[[], T]) -> T:
        """Do something there that does not wait."""
        if threading.current_thread() is self._thread:
            return work()

        async def done() -> T:
            return work()

        return self.run(done())

    def end(self, timeout: float | None = None) -> bool:
        """Stop the loop and wait for its thread; unfinished work fails.

        Returns whether the thread ended in time.
        """
        with self._gate:
            self._is_open = False
            if self.is_running and not self._is_over:
                self._loop.call_soon_threadsafe(self._stop)
        if not self.is_forked:
            self._thread.join(timeout)
        return not self.is_running

    def abandon(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Stop the loop when a last thing is done there; nobody waits for that."""

        def finish() -> None:
            task = self._loop.create_task(last())
            task.add_done_callback(lambda _: self._stop())

        with self._gate:
            is_open, self._is_open = self.is_open, False
            if is_open:
                self._loop.call_soon_threadsafe(finish)

    def join(self, timeout: float | None) -> None:
        """Wait for the end of the thread, but no longer than that."""
        self._thread.join(timeout)

    def forked(self) -> None:
        """This is another process, without the thread; who held the gate is not here, either."""
        self.is_forked = True
        self._is_open = False
        self._gate = threading.RLock()

    def _hand_over(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._gate:
            if not self.is_open:
                raise Disconnected(FORKED if self.is_forked else _CLOSED)
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._pending.add(future)
            return future

    # -- on the thread

    def _work(self) -> None:
        try:
            self._loop.run_forever()
            with self._gate:
                # What was handed over before is begun by the next turn, and cancelled there.
                self._is_open = False
            self._loop.run_until_complete(_cancel_all())
        finally:
            with self._gate:
                self._is_open = False
                self._is_over = True
                for future in list(self._pending):
                    future.cancel()
                self._loop.close()
            _RUNNING.discard(self)

    def _stop(self) -> None:
        # Once: a second time it would stop what is done after the first.
        if not self._is_stopped:
            self._is_stopped = True
            self._loop.stop()


_RUNNING: set[LoopThread] = set()


def wait_left(seconds: float) -> None:
    """Wait for the threads that are about to end by themselves, but no longer than that."""
    until = monotonic() + seconds
    for thread in list(_RUNNING):
        if not thread.is_open and thread.is_running:
            thread.join(max(until - monotonic(), 0))


def _limit_s(timeout: Any) -> float | None:
    """How long to wait; for ever if the timeout is not a number, which the work checks itself."""
    if not isinstance(timeout, (int, float)) or timeout != timeout:
        return None
    return min(max(timeout, 0) + _GRACE_S, threading.TIMEOUT_MAX)


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _forget_threads() -> None:
    """After a fork all of them are in the other process."""
    while _RUNNING:
        _RUNNING.pop().forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
