"""Processes the input of one stream in slices, so that other streams do not wait long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from skerry.limits import STREAM_CHUNK_BYTES_MAX
from skerry.runtime.clock import monotonic_ns

TURN_NS_MAX: Final = 2_000_000
"""Time spent on the input of one WebSocket before other clients have their turn. Text costs fifty
times what binary frames do, so the number of bytes is not a measure of it."""
TURN_PIECE_BYTES: Final = 2048
"""Bytes after which the clock is read: some ten messages, or a millisecond of tiny frames."""


class ReadSlices:
    """Delivers input piece by piece, with a limit per iteration of the loop.

    A slice is limited by time and by bytes. The time limits how long other streams wait. The bytes
    are for loops that read repeatedly from a stream that fills their buffer: such a read exceeds
    the limit, so its rest pauses the stream.
    """

    def __init__(
        self,
        take: Callable[[bytes], None],
        *,
        hold: Callable[[bool], None],
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        """`hold` is called with True when input waits for the next slice, with False when not."""
        self._take = take
        self._hold = hold
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiting = b""
        self._next: asyncio.Handle | None = None
        self.is_waiting = False
        """Whether input may wait for later slices."""
        self._is_blocked = False

    def add(self, data: bytes) -> None:
        """Add input, which is processed at once unless earlier input waits."""
        if self.is_waiting:
            # Rare, as the stream is paused: input that the transport had read before the pause.
            self._waiting += data
            return
        self._waiting = data
        if self._process_slice() or self._is_blocked:
            self.is_waiting = True
            self._schedule()
            self._hold(True)

    def block(self) -> None:
        """Deliver nothing more until `unblock`; called by the receiver of an item."""
        self._is_blocked = True

    def unblock(self) -> None:
        """Continue in the next iteration of the loop."""
        self._is_blocked = False
        if self.is_waiting and self._next is None:
            self._schedule()

    def drop(self) -> None:
        """Drop the waiting input."""
        self._waiting = b""
        self.is_waiting = self._is_blocked = False
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _schedule(self) -> None:
        if not self._is_blocked:
            self._next = self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        self._next = None
        if self._process_slice() or self._is_blocked:
            self._schedule()
        elif self.is_waiting:
            self.is_waiting = False
            self._hold(False)

    def _process_slice(self) -> bool:
        """Process one slice; whether input is left."""
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
