"""A connected socket on a loop, read and written without a transport between.

A transport of asyncio is a dozen calls of interpreted code for each message that comes or goes, and
a program waits for them in each answer it gets. This one is compiled with the rest. What a
transport does that this does not: TLS, and loops that cannot watch sockets.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final, Protocol

from skerry.limits import LINGER_BYTES_MAX
from skerry.runtime.streams.orderly_close import LINGER_S_MAX

__all__ = ["SocketStream", "Stream", "StreamUser"]

_READ_BYTES: Final = 64 * 1024
"""What is read at once: some hundred updates. More would leave the fast part of the memory."""


class Stream(Protocol):
    """What can be done with an open stream."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class StreamUser(Protocol):
    """Who is told what happens on a stream."""

    def opened(self, stream: Stream) -> None: ...
    def received(self, data: bytes) -> None: ...
    def lost(self, error: Exception | None) -> None: ...
    def paused(self, *, is_full: bool) -> None: ...


class SocketStream:
    """One end of a connection."""

    def __init__(self, file: int, user: StreamUser, *, waiting_bytes_max: int) -> None:
        """On the socket with this descriptor, of which it makes its own; begins with `start`.

        When more than `waiting_bytes_max` wait to be sent, the user is asked for a pause.
        """
        self._socket = socket.socket(fileno=os.dup(file))
        self._socket.setblocking(False)
        self._file = self._socket.fileno()
        self._user = user
        self._loop = asyncio.get_running_loop()
        self._room = memoryview(bytearray(_READ_BYTES))
        self._waiting = bytearray()
        self._waiting_bytes_max = waiting_bytes_max
        self._is_full = False
        self._is_closing = False
        self._is_over = False
        self._has_ended = False
        """Whether the peer sends nothing more."""
        self._dropped_bytes = 0
        self._alarm: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Tell the user that it is open, and of all that comes."""
        try:
            self._user.opened(self)
        except Exception as error:
            self._end(error)
            raise
        if not self._is_over:
            self._loop.add_reader(self._file, self._readable)

    def write(self, data: bytes) -> None:
        """Send, or keep until it can be sent."""
        if self._is_closing:
            return
        if self._waiting:
            self._waiting += data
        else:
            sent = self._send(data)
            if sent == len(data) or self._is_closing:
                return
            self._waiting += memoryview(data)[sent:]
            self._loop.add_writer(self._file, self._writable)
        if not self._is_full and len(self._waiting) > self._waiting_bytes_max:
            self._is_full = True
            self._user.paused(is_full=True)

    def close(self) -> None:
        """Close it after all is sent, so that it is received (`runtime.streams.orderly_close`)."""
        if self._is_closing:
            return
        self._is_closing = True
        if not self._waiting:
            self._end_sending()

    def abort(self) -> None:
        """End it now."""
        self._end(None)

    def _readable(self) -> None:
        try:
            size = self._socket.recv_into(self._room)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if not size:
            # Nothing more comes. The other side may still read.
            self._has_ended = True
            self._loop.remove_reader(self._file)
            if self._is_closing and not self._waiting:
                self._end(None)
            else:
                self.close()
            return
        if self._is_closing:
            self._dropped_bytes += size
            if self._dropped_bytes > LINGER_BYTES_MAX:
                self._end(None)
            return
        try:
            self._user.received(bytes(self._room[:size]))
        except Exception as error:
            # Nobody knows how much of it was taken. The loop tells of the mistake.
            self._end(error)
            raise

    def _writable(self) -> None:
        sent = self._send(self._waiting)
        if self._is_over:
            return
        del self._waiting[:sent]
        if not self._waiting:
            self._loop.remove_writer(self._file)
            if self._is_closing:
                self._end_sending()
                return
        if self._is_full and len(self._waiting) <= self._waiting_bytes_max // 4:
            self._is_full = False
            self._user.paused(is_full=False)

    def _send(self, data: bytes | bytearray) -> int:
        """How much was taken."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._end(error)
        return 0

    def _end_sending(self) -> None:
        """All is sent: shut down writing, and drop further input until the peer closes."""
        if not self._has_ended:
            try:
                self._socket.shutdown(socket.SHUT_WR)
            except OSError:
                self._end(None)
                return
            self._alarm = self._loop.call_later(LINGER_S_MAX, self._end, None)
            return
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._is_over = self._is_closing = True
        self._loop.remove_reader(self._file)
        self._loop.remove_writer(self._file)
        # Not at once: whoever called this is in the middle of something.
        self._loop.call_soon(self._over, error)

    def _over(self, error: Exception | None) -> None:
        self._socket.close()
        self._user.lost(error)
