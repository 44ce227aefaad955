"""Calls the user of a socket on an asyncio loop: when it is readable, when woken, at a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["LoopTurns"]


class LoopTurns:
    """The reader, the wake-up and the timer of one socket on the running loop."""

    def __init__(self, fileno: int, turn: Callable[[], None]) -> None:
        """`turn` is called when woken and at the deadline; it sets the next deadline."""
        self._loop = asyncio.get_running_loop()
        self._fileno = fileno
        self._turn = turn
        self._timer: asyncio.TimerHandle | None = None
        self._waking: asyncio.Handle | None = None

    def start(self, readable: Callable[[], None]) -> None:
        """Call `readable` whenever the socket is readable."""
        self._loop.add_reader(self._fileno, readable)

    def wake(self) -> None:
        """Call `turn` in the next iteration of the loop: the caller may be in the middle of one."""
        if self._waking is None:
            self._waking = self._loop.call_soon(self._turn)

    def begin_turn(self) -> None:
        """Cancel a wake-up, since `turn` runs now."""
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None

    def set_timer(self, delay_s: float | None) -> None:
        """Call `turn` after a delay, in place of the last one; None for no timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if delay_s is not None:
            self._timer = self._loop.call_later(delay_s, self._turn)

    def close(self) -> None:
        """Stop reading, and cancel the wake-up and the timer. Before the socket is closed."""
        self._loop.remove_reader(self._fileno)
        self.begin_turn()
        self.set_timer(None)
