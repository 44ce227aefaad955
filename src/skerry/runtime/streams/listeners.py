"""The listeners of a node: sockets at its endpoints, for TCP, TLS, Unix sockets and WebSockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skerry.errors import ConnectFailed
from skerry.limits import TLS_HANDSHAKE_COUNT_MAX, WEBSOCKET_WAITING_COUNT_MAX
from skerry.runtime.streams.accepting import ProtocolServer
from skerry.runtime.streams.endpoints import Endpoint
from skerry.runtime.streams.sockets import SocketFile, bind_tcp, bind_unix
from skerry.runtime.streams.tls import TlsFiles, TlsHandshakes, load_certificates, server_context
from skerry.runtime.streams.websocket import WebSocketConfig, WebSocketListener
from skerry.schema.model import NamedType

if TYPE_CHECKING:
    from skerry.runtime.streams.node_server import NodeServer

_BACKLOG: Final = 1024
"""Connections that wait to be accepted. When a node restarts, all its clients reconnect at once."""
_PENDING_SHARE: Final = 8
"""Connections that are not clients yet may use one in so many file descriptors per listener."""


class Listeners:
    def __init__(
        self,
        server: NodeServer,
        protocol: Callable[[Endpoint], asyncio.BaseProtocol],
        types: Mapping[str, NamedType],
        *,
        tls: TlsFiles,
        websocket: WebSocketConfig | None,
        socket_mode: int,
        socket_group: str | None,
        connection_count_max: int | None,
        message_bytes_max: Callable[[], int],
    ) -> None:
        """`protocol` makes the protocol of one connection, except for WebSockets."""
        self.is_open = False
        self._server = server
        self._protocol = protocol
        self._types = types
        self._tls = tls
        self._websocket = websocket
        self._socket_mode = socket_mode
        self._socket_group = socket_group
        self._connection_count_max = connection_count_max
        self._message_bytes_max = message_bytes_max
        self._handshakes = TlsHandshakes(count_max=self._pending_max(TLS_HANDSHAKE_COUNT_MAX))
        self._websocket_listeners: list[WebSocketListener] = []
        self._contexts: list[tuple[ssl.SSLContext, TlsFiles]] = []
        self._servers: list[ProtocolServer] = []
        self._files: list[SocketFile] = []

    @property
    def pending_count(self) -> int:
        """Connections that are not clients yet: in a TLS or WebSocket handshake."""
        pending = sum(listener.pending_count for listener in self._websocket_listeners)
        return pending + self._handshakes.pending_count

    async def listen(self, endpoint: Endpoint) -> str:
        """Accept connections at an endpoint; the endpoint with the port that was chosen.

        ConnectFailed if the endpoint is in use, ConfigError if its certificates are invalid.
        """
        factory = self._factory(endpoint)
        context = self._context(endpoint) if endpoint.is_secure else None
        try:
            if endpoint.kind == "unix":
                made, file = bind_unix(
                    Path(endpoint.path), mode=self._socket_mode, group=self._socket_group
                )
                self._files.append(file)
                self._serve(made, factory)
                return endpoint.text
            port = endpoint.port
            for made in await bind_tcp(endpoint.host, endpoint.port):
                port = made.getsockname()[1]
                self._serve(made, factory, context)
        except (OSError, ValueError) as error:
            # ValueError has no strerror: a path may be too long.
            detail = getattr(error, "strerror", None) or error
            raise ConnectFailed(f"cannot listen at {endpoint.text}: {detail}") from None
        return f"{endpoint.text.rpartition(':')[0]}:{port}"

    def reload_certificates(self) -> None:
        """Read the certificates again, for later connections; ConfigError if that fails."""
        for context, files in self._contexts:
            load_certificates(context, files)

    async def close(self) -> None:
        """Stop accepting, and close connections that are not clients yet."""
        self.is_open = False
        for server in self._servers:
            await server.close()
        await self._handshakes.close()
        for listener in self._websocket_listeners:
            listener.close()

    def remove_files(self) -> None:
        """Remove the files of Unix sockets."""
        for file in self._files:
            file.remove()

    def _factory(self, endpoint: Endpoint) -> Callable[[], asyncio.BaseProtocol]:
        """Makes the protocol of one connection at an endpoint."""
        if endpoint.kind != "websocket":
            return partial(self._protocol, endpoint)
        listener = WebSocketListener(
            self._server,
            self._types,
            config=self._websocket,
            extensions=endpoint.extensions,
            message_bytes_max=self._message_bytes_max,
            pending_count_max=self._pending_max(WEBSOCKET_WAITING_COUNT_MAX),
        )
        self._websocket_listeners.append(listener)
        return listener.protocol

    def _context(self, endpoint: Endpoint) -> ssl.SSLContext:
        own = TlsFiles(cert=endpoint.cert, key=endpoint.key, ca=endpoint.ca)
        files = own.or_else(self._tls)
        context = server_context(files)
        self._contexts.append((context, files))
        return context

    def _pending_max(self, usual: int) -> int:
        """Limit of connections that are not clients yet, lower if file descriptors are few."""
        if self._connection_count_max is None:
            return usual
        return min(usual, max(self._connection_count_max // _PENDING_SHARE, 1))

    def _serve(
        self,
        made: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext | None = None,
    ) -> None:
        try:
            made.listen(_BACKLOG)
        except BaseException:
            made.close()
            raise
        if context is not None:
            self._handshakes.serve(made, context, factory)
        else:
            self._servers.append(ProtocolServer(made, factory))
        self.is_open = True
