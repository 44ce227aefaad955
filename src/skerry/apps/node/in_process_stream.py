"""The stream of a client inside the node's own process, without a socket."""

from __future__ import annotations

import asyncio
from typing import Protocol

from skerry.protocol.machine import Address
from skerry.runtime.streams.node_server import NodeServer


class StreamOwner(Protocol):
    """The client of an in-process stream."""

    def data_written(self, stream: InProcessStream) -> None:
        """The node wrote to the stream; the client reads it in a later turn of the loop."""

    def stream_closed(self, stream: InProcessStream) -> None:
        """The node closed the stream."""


class InProcessStream:
    """Implements the stream interface of the server without a socket."""

    def __init__(self, owner: StreamOwner, server: NodeServer) -> None:
        self._owner = owner
        self._server = server
        self.address: Address | None = None
        self.waiting: list[bytes] = []
        """Data that the node wrote and the owner has not read."""
        self._is_over = False

    def write(self, data: bytes, /) -> None:
        self.waiting.append(data)
        self._owner.data_written(self)

    def close(self) -> None:
        """Close at once: there is no buffer in a kernel to drain."""
        if self._is_over:
            return
        self._is_over = True
        self._owner.stream_closed(self)
        # Not at once, since the caller may still use the connection.
        asyncio.get_running_loop().call_soon(self._leave)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._is_over

    def _leave(self) -> None:
        if self.address is not None:
            self._server.lost(self.address, self)
