"""A connected socket on an event loop, read and written without an asyncio transport.

A transport of asyncio runs a dozen interpreted calls for each message that is sent or received,
which adds to the latency of every response. This module is compiled. It does not support TLS, nor
loops that cannot watch sockets.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final, Protocol

from skerry.limits import LINGER_BYTES_MAX
from skerry.runtime.streams.orderly_close import LINGER_S_MAX

_READ_BYTES: Final = 64 * 1024
"""Size of one read: some hundred updates. A larger buffer would not stay in the CPU cache."""


class Stream(Protocol):
    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class StreamUser(Protocol):
    """Receives the events of a stream."""

    def opened(self, stream: Stream) -> None: ...
    def received(self, data: bytes) -> None: ...
    def lost(self, error: Exception | None) -> None: ...
    def paused(self, *, is_full: bool) -> None: ...


class SocketStream:
    """One end of a connection."""

    def __init__(self, file: int, user: StreamUser, *, waiting_bytes_max: int) -> None:
        """Duplicates the descriptor `file` of a socket; `start` starts reading.

        When more than `waiting_bytes_max` wait to be sent, `user.paused` is called.
        """
        self._socket = socket.socket(fileno=os.dup(file))
        self._socket.setblocking(False)
        self._file = self._socket.fileno()
        self._user = user
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._waiting = bytearray()
        self._waiting_bytes_max = waiting_bytes_max
        self._is_full = False
        self._is_closing = False
        self._is_over = False
        self._has_ended = False
        """Whether the peer has ended sending."""
        self._dropped_bytes = 0
        self._timeout: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Notify the user that the stream is open, and start reading."""
        try:
            self._user.opened(self)
        except Exception as error:
            self._end(error)
            raise
        if not self._is_over:
            self._loop.add_reader(self._file, self._readable)

    def write(self, data: bytes) -> None:
        """Send, or buffer until it can be sent."""
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
        """Close the stream after everything is sent and received (`OrderlyClose`)."""
        if self._is_closing:
            return
        self._is_closing = True
        if not self._waiting:
            self._end_sending()

    def abort(self) -> None:
        """Close the stream now."""
        self._end(None)

    def _readable(self) -> None:
        try:
            size = self._socket.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if not size:
            # The peer has ended sending. It may still read.
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
            self._user.received(bytes(self._buffer[:size]))
        except Exception as error:
            # It is unknown how much was processed. The loop logs the exception.
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
        """Send what the system accepts; the number of bytes."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._end(error)
        return 0

    def _end_sending(self) -> None:
        """Shut down writing, and drop further input until the peer closes."""
        if not self._has_ended:
            try:
                self._socket.shutdown(socket.SHUT_WR)
            except OSError:
                self._end(None)
                return
            self._timeout = self._loop.call_later(LINGER_S_MAX, self._end, None)
            return
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        if self._timeout is not None:
            self._timeout.cancel()
        self._is_over = self._is_closing = True
        self._loop.remove_reader(self._file)
        self._loop.remove_writer(self._file)
        # Not at once: the caller may be in the middle of an operation.
        self._loop.call_soon(self._over, error)

    def _over(self, error: Exception | None) -> None:
        self._socket.close()
        self._user.lost(error)
