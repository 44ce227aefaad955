"""Notices peers whose computer is gone while bytes are under way to them.

A quiet peer is asked by the system whether it lives. One to which bytes are under way is not: they
are sent to it again and again, for a quarter of an hour. That is too long where others wait for
what it holds. A peer that is only slow, or stopped, is there: its system answers for it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import Any, Final

__all__ = ["DeadPeerWatch", "is_gone"]

_INFO: Final = struct.Struct("=2xBB52xI")
"""Of what Linux tells of a TCP connection: how often it has sent the same again, how often it has
asked whether there is room by now, both since the last answer; and how many ms ago that was."""
_ASKED_COUNT_MIN: Final = 3
"""What is asked once may be lost. To ask for room, Linux takes up to two minutes the next time."""
_LOOKS: Final = 5
"""How often somebody silent is looked at until it counts as gone."""

log = logging.getLogger(__name__)


class DeadPeerWatch:
    """Ends connections of a node to those who are gone; looks while there are connections."""

    def __init__(self, silence_s_max: float) -> None:
        self._silence_s_max = silence_s_max
        self._sockets: dict[asyncio.WriteTransport, Any] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_looking(self) -> bool:
        """Whether there is anybody to look at."""
        return self._timer is not None

    def add(self, transport: asyncio.WriteTransport, raw: Any) -> None:
        """Look at this one, too, until `discard`."""
        if raw.family == socket.AF_UNIX or not hasattr(socket, "TCP_INFO"):
            return
        self._sockets[transport] = raw
        if not self.is_looking:
            self._set_timer()

    def discard(self, transport: asyncio.WriteTransport) -> None:
        """It is closed."""
        self._sockets.pop(transport, None)

    def close(self) -> None:
        """Look no more."""
        self._sockets.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._silence_s_max / _LOOKS, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._sockets:
            # First: whatever may go wrong with one, the others are looked at again.
            self._set_timer()
        for transport, raw in list(self._sockets.items()):
            if not transport.is_closing() and is_gone(raw, self._silence_s_max):
                peer = transport.get_extra_info("peername")
                log.warning("the computer of a client is gone", extra={"peer": str(peer)})
                transport.abort()


def is_gone(raw: Any, silence_s_max: float) -> bool:
    """Whether the other end of a TCP connection was asked often, and has been silent for long."""
    found = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    sent_again, asked_for_room, silence_ms = _INFO.unpack(found)
    is_asked = max(sent_again, asked_for_room) >= _ASKED_COUNT_MIN
    return bool(is_asked and silence_ms > silence_s_max * 1000)
