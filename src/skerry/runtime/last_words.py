"""The orderly end of a stream: what was written last reaches the other end.

When a socket is closed with unread input, the system resets the connection, and the other end may
lose what it has not read yet, such as the answer that it is rejected. So our half is ended first,
and what still arrives is read and dropped, until the other end closes, or for a bounded time and
number of bytes.
"""

from __future__ import annotations

import asyncio
from typing import Final

from skerry.limits import LINGER_BYTES_MAX

__all__ = ["LINGER_S_MAX", "LastWords"]

LINGER_S_MAX: Final = 1.0
"""How long the other end may take to read what was sent to it, and to close."""
_QUIET_S: Final = 0.1
"""TLS streams of asyncio cannot end one half. They are closed when nothing came for so long."""


class LastWords(asyncio.BufferedProtocol):
    """Takes over a transport to which nothing more is written, until the connection is over."""

    def __init__(
        self, transport: asyncio.Transport, former: asyncio.BaseProtocol, buffer: memoryview
    ) -> None:
        """`former` is told of the end, as the protocol that the transport had; `buffer` is for
        input that is dropped, and may be shared."""
        self._transport = transport
        self._former = former
        self._buffer = buffer
        self._room = LINGER_BYTES_MAX
        self._is_quiet = True
        self._loop = asyncio.get_running_loop()
        self._alarm = self._loop.call_later(LINGER_S_MAX, transport.abort)
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
        """Where to read to."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Something came, and is dropped."""
        self._is_quiet = False
        self._room -= nbytes
        if self._room < 0:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._alarm.cancel()
        if self._quiet is not None:
            self._quiet.cancel()
        self._former.connection_lost(exc)

    def _close_if_quiet(self) -> None:
        if self._is_quiet and not self._transport.get_write_buffer_size():
            self._transport.close()
            return
        self._is_quiet = True
        self._quiet = self._loop.call_later(_QUIET_S, self._close_if_quiet)
