"""What comes by one stream, worked off in slices, so that nobody waits long for his turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from skerry.limits import STREAM_CHUNK_BYTES_MAX
from skerry.runtime.clock import monotonic_ns

__all__ = ["TURN_NS_MAX", "TURN_PIECE_BYTES", "ReadSlices"]

TURN_NS_MAX: Final = 2_000_000
"""Time spent on the input of one WebSocket before other clients have their turn. Text costs fifty
times what binary frames do, so the number of bytes is not a measure of it."""
TURN_PIECE_BYTES: Final = 2048
"""Bytes after which the clock is read: some ten messages, or a millisecond of tiny frames."""


class ReadSlices:
    """Gives on what came, piece by piece, and in each turn of the loop only so much.

    A turn ends by its time and by its bytes. The time is what others wait; the bytes are for loops
    that read from one stream again and again as long as it fills their buffer: each of these reads
    is larger, so what is left of the first one holds the stream up.
    """

    def __init__(
        self,
        take: Callable[[bytes], None],
        *,
        hold: Callable[[bool], None],
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        """`hold` is told when something has to wait for the next turn, and when nothing does."""
        self._take = take
        self._hold = hold
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiting = b""
        self._next: asyncio.Handle | None = None
        self._is_holding = False
        self._is_blocked = False

    @property
    def is_waiting(self) -> bool:
        """Whether something may be left for later turns."""
        return self._is_holding

    def add(self, data: bytes) -> None:
        """More came. It is worked on at once, unless something waits."""
        if self._is_holding:
            # Seldom, as the stream is held up: what a transport had read before it heard of that.
            self._waiting += data
            return
        self._waiting = data
        if self._work_off() or self._is_blocked:
            self._is_holding = True
            self._schedule()
            self._hold(True)

    def block(self) -> None:
        """Deliver nothing more until `unblock`; called by the receiver of an item."""
        self._is_blocked = True

    def unblock(self) -> None:
        """Go on in the next turn."""
        self._is_blocked = False
        if self._is_holding and self._next is None:
            self._schedule()

    def drop(self) -> None:
        """Forget what waits."""
        self._waiting = b""
        self._is_holding = self._is_blocked = False
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _schedule(self) -> None:
        if not self._is_blocked:
            self._next = self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._next = None
        if self._work_off() or self._is_blocked:
            self._schedule()
        elif self._is_holding:
            self._is_holding = False
            self._hold(False)

    def _work_off(self) -> bool:
        """One turn; whether something is left."""
        data = self._waiting
        stop = min(len(data), STREAM_CHUNK_BYTES_MAX)
        end_ns = self._clock() + TURN_NS_MAX
        done = 0
        while done < stop and not self._is_blocked:
            piece = data[done : done + TURN_PIECE_BYTES]
            done += len(piece)
            self._take(piece)
            if self._clock() >= end_ns:
                break
        self._waiting = data[done:]
        return bool(self._waiting)
