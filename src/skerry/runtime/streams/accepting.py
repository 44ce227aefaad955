"""Accepts connections at a listening socket.

The servers of asyncio do the same, but when no file descriptor is left they start timers that fail
after the server is closed.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

_BURST: Final = 64
"""Connections that are accepted before the loop continues with other events."""
_PAUSE_S: Final = 1.0
"""Pause after a failed accept: without it, the node would do nothing but retry."""

log = logging.getLogger(__name__)


class Acceptor:
    """Calls `accepted` with each connection at a socket, and with its host (empty for Unix).

    The listening socket belongs to this object from now on.
    """

    def __init__(
        self, listening: socket.socket, accepted: Callable[[socket.socket, str], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._accepted = accepted
        self._retry: asyncio.TimerHandle | None = None
        self._resume()

    def close(self) -> None:
        """Stop accepting."""
        if self._retry is not None:
            self._retry.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()

    def _resume(self) -> None:
        self._loop.add_reader(self._listening.fileno(), self._readable)

    def _readable(self) -> None:
        for _ in range(_BURST):
            try:
                raw, peer = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # No file descriptor is left.
                log.warning("cannot accept connections", extra={"reason": error.strerror})
                self._loop.remove_reader(self._listening.fileno())
                self._retry = self._loop.call_later(_PAUSE_S, self._resume)
                return
            raw.setblocking(False)
            self._accepted(raw, str(peer[0]) if isinstance(peer, tuple) else "")


class ProtocolServer:
    """Accepts connections at a socket, and attaches a protocol to each."""

    def __init__(
        self, listening: socket.socket, factory: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self._factory = factory
        self._connecting: set[asyncio.Task[None]] = set()
        """Accepted connections that do not have their protocol yet."""
        self._acceptor = Acceptor(listening, self._accepted)

    async def close(self) -> None:
        """Stop accepting. Connections that have their protocol remain open."""
        self._acceptor.close()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def _accepted(self, raw: socket.socket, _host: str) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(raw))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, raw: socket.socket) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(self._factory, raw)
