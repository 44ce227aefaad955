"""A loop in a thread of its own, and doing things there from others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from skerry.errors import Disconnected, LocalProtocolError

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """A loop that runs in a thread until `end`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name=name, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether something can be done there. Not after a fork: threads stay behind."""
        return self._thread.is_alive()

    def check_wait(self) -> None:
        """LocalProtocolError on the thread itself, which cannot wait for what it has to do."""
        if threading.current_thread() is self._thread:
            raise LocalProtocolError("a callback cannot wait: it runs on the thread that it needs")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there, and wait for it here."""
        try:
            self._check_run()
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Whoever is interrupted (by the keyboard, say) waits no more, there as here.
            future.cancel()
            raise

    def _check_run(self) -> None:
        self.check_wait()
        if not self.is_running:
            raise Disconnected("the space is closed")

    def call(self, work: Callable[[], T]) -> T:
        """Do something there that does not wait."""
        if threading.current_thread() is self._thread:
            return work()

        async def done() -> T:
            return work()

        return self.run(done())

    def end(self) -> None:
        """Stop the loop and wait for its thread."""
        if self.is_running:
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def abandon(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Stop the loop when a last thing is done there; nobody waits for that."""

        def finish() -> None:
            task = self._loop.create_task(last())
            task.add_done_callback(lambda _: self._loop.stop())

        if self.is_running:
            self._loop.call_soon_threadsafe(finish)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_all())
    finally:
        loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
