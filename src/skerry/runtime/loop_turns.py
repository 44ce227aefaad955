"""Calls the user of some sockets on an asyncio loop: when readable, when woken, at a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from skerry.runtime.clock import monotonic_ns

_MS: Final = 1_000_000


class LoopTurns:
    """The readers, the wake-up and the one timer of a user on the running loop."""

    def __init__(self, turn: Callable[[], None]) -> None:
        """`turn` is called when woken and at the deadline; it sets the next deadline."""
        self._loop = asyncio.get_running_loop()
        self._turn = turn
        self._readers: set[int] = set()
        self._writers: set[int] = set()
        self._waking: asyncio.Handle | None = None
        self._timer: asyncio.Handle | None = None
        self._timer_ns = 0
        """When the timer fires; never after the deadline."""
        self._due_ns: int | None = None

    def add_reader(self, fileno: int, readable: Callable[[], None]) -> None:
        """Call `readable` whenever a socket is readable."""
        self._loop.add_reader(fileno, readable)
        self._readers.add(fileno)

    def add_writer(self, fileno: int, writable: Callable[[], None]) -> None:
        """Call `writable` whenever a socket has room."""
        self._loop.add_writer(fileno, writable)
        self._writers.add(fileno)

    def remove_writer(self, fileno: int) -> None:
        """Do not ask for room any more."""
        self._writers.discard(fileno)
        self._loop.remove_writer(fileno)

    def remove_sockets(self) -> None:
        """Stop reading and writing. Before the sockets are closed."""
        for fileno in self._readers:
            self._loop.remove_reader(fileno)
        for fileno in self._writers:
            self._loop.remove_writer(fileno)
        self._readers.clear()
        self._writers.clear()

    def wake(self) -> None:
        """Call `turn` in the next iteration of the loop: the caller may be in the middle of one."""
        if self._waking is None:
            self._waking = self._loop.call_soon(self._turn)

    def begin_turn(self) -> None:
        """Cancel a wake-up, since `turn` runs now."""
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None

    def set_deadline(self, due_ns: int | None) -> None:
        """Call `turn` at a monotonic time, in place of the last one; None for no deadline."""
        self._due_ns = due_ns
        # A timer that fires too early is set again then, which is cheaper than at every change.
        if due_ns is not None and (self._timer is None or due_ns < self._timer_ns):
            self._set_timer(due_ns, monotonic_ns())

    def close(self) -> None:
        """Stop reading, and cancel the wake-up and the timer. Before the sockets are closed."""
        self.remove_sockets()
        self.begin_turn()
        self._due_ns = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- inside

    def _set_timer(self, due_ns: int, now_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due_ns
        if due_ns <= now_ns:
            # After the other callbacks that are ready.
            self._timer = self._loop.call_soon(self._fired)
        else:
            # In whole milliseconds: uvloop rounds to them, and down to none at all, so that a timer
            # of a third of a millisecond would fire in each iteration of the loop until it is due.
            self._timer = self._loop.call_later(-((now_ns - due_ns) // _MS) / 1000, self._fired)

    def _fired(self) -> None:
        self._timer = None
        due_ns = self._due_ns
        if due_ns is None:
            return
        now_ns = monotonic_ns()
        if now_ns < due_ns:
            self._set_timer(due_ns, now_ns)
            return
        self._due_ns = None
        self._turn()
