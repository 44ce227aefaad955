"""Closes a stream so that the last message reaches the peer.

When a socket is closed with unread input, the system resets the connection, and the peer may lose
data that it has not read yet, such as the answer that it is rejected. So this side is shut down for
writing first, and remaining input is read and dropped, until the peer closes, or up to a bounded
time and number of bytes.
"""

from __future__ import annotations

import asyncio
from typing import Final

from skerry.limits import LINGER_BYTES_MAX

LINGER_S_MAX: Final = 1.0
"""Time for the peer to read the sent bytes and to close."""
_QUIET_S: Final = 0.1
"""TLS streams of asyncio cannot shut down one side. They close after this time without input."""


class OrderlyClose(asyncio.BufferedProtocol):
    """Takes over a transport after the last write, until the connection is closed."""

    def __init__(
        self, transport: asyncio.Transport, former: asyncio.BaseProtocol, buffer: memoryview
    ) -> None:
        """`former`, the former protocol of the transport, is notified of the end; `buffer` receives
        the dropped input, and may be shared."""
        self._transport = transport
        self._former = former
        self._buffer = buffer
        self._bytes_left = LINGER_BYTES_MAX
        self._is_quiet = True
        self._loop = asyncio.get_running_loop()
        self._timeout = self._loop.call_later(LINGER_S_MAX, transport.abort)
        transport.set_protocol(self)
        self._quiet: asyncio.TimerHandle | None = None
        if transport.can_write_eof():
            try:
                transport.write_eof()
            except (OSError, RuntimeError):
                # The connection broke, and the loop has not noticed it yet.
                transport.abort()
        else:
            self._quiet = self._loop.call_later(_QUIET_S, self._close_if_quiet)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next read."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Drop received input."""
        self._is_quiet = False
        self._bytes_left -= nbytes
        if self._bytes_left < 0:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the former protocol that the connection is closed."""
        self._timeout.cancel()
        if self._quiet is not None:
            self._quiet.cancel()
        self._former.connection_lost(exc)

    def _close_if_quiet(self) -> None:
        if self._is_quiet and not self._transport.get_write_buffer_size():
            self._transport.close()
            return
        self._is_quiet = True
        self._quiet = self._loop.call_later(_QUIET_S, self._close_if_quiet)
