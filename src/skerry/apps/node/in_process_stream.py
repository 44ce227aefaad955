"""The stream of a client that is a part of the node's own program: no socket lies between."""

from __future__ import annotations

import asyncio
from typing import Protocol

from skerry.protocol.machine import Address
from skerry.runtime.streams.node_server import NodeServer

__all__ = ["InsideStream", "StreamOwner"]


class StreamOwner(Protocol):
    """Who is the client."""

    def said(self, stream: InsideStream) -> None:
        """The node wrote something: it is taken up when all others had their turn."""

    def ended(self, stream: InsideStream) -> None:
        """The node ended the stream."""


class InsideStream:
    """What the server takes for the stream of a client."""

    def __init__(self, owner: StreamOwner, server: NodeServer) -> None:
        self._owner = owner
        self._server = server
        self.address: Address | None = None
        self.waiting: list[bytes] = []
        """What the node wrote and the owner has not taken up."""
        self._is_over = False

    def write(self, data: bytes, /) -> None:
        """Keep it for the next turn."""
        self.waiting.append(data)
        self._owner.said(self)

    def close(self) -> None:
        """It is over at once: there is nobody to wait for."""
        if self._is_over:
            return
        self._is_over = True
        self._owner.ended(self)
        # Not now: whoever calls is still at it.
        asyncio.get_running_loop().call_soon(self._leave)

    def abort(self) -> None:
        """The same."""
        self.close()

    def is_closing(self) -> bool:
        """Whether it is over."""
        return self._is_over

    def _leave(self) -> None:
        if self.address is not None:
            self._server.lost(self.address, self)
