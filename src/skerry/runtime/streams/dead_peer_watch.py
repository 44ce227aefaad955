"""Detects peers whose computer is gone while sent bytes are not acknowledged.

The system probes idle connections (keep-alive). It does not probe while sent bytes are
unacknowledged, but retransmits them for about 15 minutes. That is too long if other clients wait
for the claims of the peer. A program that is slow or stopped is not affected: its system still
acknowledges. `docs/decisions/dead-peers.md` has the reasons.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import Any, Final

_INFO: Final = struct.Struct("=2xBB52xI")
"""Fields of `TCP_INFO` of Linux: retransmissions and window probes since the last acknowledgement,
and the milliseconds since that acknowledgement."""
_PROBE_COUNT_MIN: Final = 3
"""A single probe may be lost. Linux sends the next window probe after up to two minutes."""
_CHECK_COUNT: Final = 5
"""Number of checks within the time after which a silent peer counts as gone."""

log = logging.getLogger(__name__)


class DeadPeerWatch:
    def __init__(self, silence_s_max: float) -> None:
        self._silence_s_max = silence_s_max
        self._sockets: dict[asyncio.WriteTransport, Any] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_active(self) -> bool:
        """Whether connections are checked."""
        return self._timer is not None

    def add(self, transport: asyncio.WriteTransport, raw: Any) -> None:
        """Check this connection until `discard`."""
        if raw.family == socket.AF_UNIX or not hasattr(socket, "TCP_INFO"):
            return
        self._sockets[transport] = raw
        if not self.is_active:
            self._set_timer()

    def discard(self, transport: asyncio.WriteTransport) -> None:
        """Stop checking a closed connection."""
        self._sockets.pop(transport, None)

    def close(self) -> None:
        """Stop all checks."""
        self._sockets.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._silence_s_max / _CHECK_COUNT, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._sockets:
            # First, so that an error with one connection does not end the checks of the others.
            self._set_timer()
        for transport, raw in list(self._sockets.items()):
            if not transport.is_closing() and is_gone(raw, self._silence_s_max):
                peer = transport.get_extra_info("peername")
                log.warning("the computer of a client is gone", extra={"peer": str(peer)})
                transport.abort()


def is_gone(raw: Any, silence_s_max: float) -> bool:
    """Whether the peer of a TCP connection was probed often enough and was silent for too long."""
    found = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    retransmit_count, probe_count, silence_ms = _INFO.unpack(found)
    is_probed = max(retransmit_count, probe_count) >= _PROBE_COUNT_MIN
    return bool(is_probed and silence_ms > silence_s_max * 1000)
