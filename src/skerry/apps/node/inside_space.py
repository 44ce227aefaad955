"""The space of a node, for a client inside the node's process."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Final

from skerry.client.api.aio import AsyncSpace
from skerry.client.core.settings import SpaceConfig
from skerry.client.io.endpoint_opener import EndpointOpener, NodeUser
from skerry.client.io.session import Session
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer
from skerry.runtime.streams.socket_stream import SocketStream

_TIMEOUT_S: Final = 10.0
_WAITING_BYTES_MAX: Final = 256 * 1024
"""Bytes that wait for the node above which the space pauses."""


class InsideOpener(EndpointOpener):
    """Opens streams to the node of this process."""

    def __init__(self, connect: Callable[[], Awaitable[socket.socket]]) -> None:
        # It is only named in errors.
        super().__init__(parse_endpoint("uds:/inside"))
        self._connect = connect

    async def open(self, user: NodeUser) -> None:
        """Open a stream for `user`."""
        with await self._connect() as raw:
            SocketStream(raw.fileno(), user, waiting_bytes_max=_WAITING_BYTES_MAX).start()


async def open_inside_space(server: NodeServer, *, name: str) -> AsyncSpace:
    """The space of a node in this process, for a client of this name, which may do all."""
    session = Session(InsideOpener(server.connect_inside), SpaceConfig(name=name))
    await session.start(_TIMEOUT_S)
    return AsyncSpace(session)
