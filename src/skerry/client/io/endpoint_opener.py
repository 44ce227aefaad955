"""Where a space finds its node, and how a stream to it is opened."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from skerry.errors import ConnectFailed, ConnectRefused
from skerry.limits import FRAME_BYTES_MAX
from skerry.protocol.access.json.wire import JsonWire
from skerry.protocol.access.wire import OldWire, Wire
from skerry.runtime.streams.endpoints import Endpoint
from skerry.runtime.streams.orderly_close import OrderlyClose
from skerry.runtime.streams.socket_stream import SocketStream, StreamUser
from skerry.runtime.streams.sockets import tune
from skerry.runtime.streams.tls import TlsFiles, client_context
from skerry.runtime.system_folders import find_socket
from skerry.schema.model import NamedType

if TYPE_CHECKING:
    from skerry.runtime.streams.websocket_client import WebSocketStream

__all__ = ["DEFAULT_ENDPOINT", "EndpointOpener", "NodeUser", "default_endpoint"]

DEFAULT_ENDPOINT: Final = "tcp://127.0.0.1:11235"
_OPEN_S_MAX: Final = 10.0
_WRITE_BYTES_HIGH: Final = 256 * 1024
"""Bytes that a stream takes before it asks for a pause."""
_READ_BYTES: Final = 64 * 1024
"""What is read at once: some hundred updates. More would leave the fast part of the memory."""
_HINT: Final = "start one with `skerry node run`, or name another with --node"
_HINT_TLS: Final = (
    "see that a node listens there with TLS, that --ca names who signed its certificate,"
    " and --cert ours if it asks for one"
)
_HINT_CERTIFICATE: Final = (
    "name ours with --cert, and its private key with --key; an authority that the node trusts"
    " (--tls-ca there) has to sign it"
)


def default_endpoint(environ: Mapping[str, str]) -> str:
    """The default endpoint: that of SKERRY_ENDPOINT, of DOTS_ENDPOINT, or of this computer.

    Raises ConfigError if the socket of this computer may belong to another user.
    """
    named = environ.get("SKERRY_ENDPOINT") or environ.get("DOTS_ENDPOINT")
    if named:
        return named
    path = find_socket(environ)
    return DEFAULT_ENDPOINT if path is None else f"uds:{path}"


class NodeUser(StreamUser, Protocol):
    """Callbacks for the events of a stream to a node."""

    def skipped(self, size: int) -> None:
        """A message by WebSocket was dropped because of its size."""


class EndpointOpener:
    """Opens streams to one endpoint. Certificates are files, read when a stream is opened.

    Messages by WebSocket above `message_bytes_max` are skipped.
    """

    def __init__(
        self,
        place: Endpoint,
        *,
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
        message_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self.place = place
        self._message_bytes_max = message_bytes_max
        given = TlsFiles(ca=ca, cert=cert, key=key)
        self._files = given.or_else(TlsFiles(ca=place.ca, cert=place.cert, key=place.key))
        if place.is_secure:
            # So that a file that is missing is found out here, and not when the stream is.
            client_context(self._files)

    def wire(self, types: Mapping[str, NamedType]) -> Wire:
        """The framing of a new stream."""
        if self.place.kind == "websocket":
            return JsonWire(types)
        return OldWire() if self.place.version == 1 else Wire()

    async def open(self, user: NodeUser) -> None:
        """Open a stream for somebody; OSError or ConnectFailed when that cannot be done."""
        async with asyncio.timeout(_OPEN_S_MAX):
            await self._open(user)

    async def _open(self, user: NodeUser) -> None:
        loop = asyncio.get_running_loop()
        place = self.place
        if place.kind == "unix":
            await _open_plain(user, lambda door: loop.create_unix_connection(door, place.path))
            return
        context = client_context(self._files) if place.is_secure else None
        if place.kind == "websocket":
            # Only who uses them pays for the library.
            from skerry.runtime.streams.websocket_client import open_websocket

            stream = await open_websocket(
                place.host,
                place.port,
                ssl=context,
                message_bytes_max=self._message_bytes_max,
                skipped=user.skipped,
            )
            _Messages(stream, user)
            return
        if context is None:
            await _open_plain(
                user, lambda door: loop.create_connection(door, place.host, place.port)
            )
            return
        await loop.create_connection(
            lambda: _Bytes(user), place.host, place.port, ssl=context, server_hostname=place.host
        )

    def failed(self, why: str, *, is_met: bool, is_secured: bool = False) -> ConnectFailed:
        """The error of a first connection that could not be made.

        `is_met` tells whether the node has said anything, `is_secured` that TLS was agreed on.
        """
        if is_met:
            return ConnectFailed(f"{self.place.text}: {why}")
        if is_secured:
            # By TLS 1.3 we are in before the node has looked at our certificate, and then out.
            return self._turned_out(why)
        what = f"no node answered at {self.place.text}: "
        # The WebSocket says it by itself.
        error = ConnectFailed(what + why.removeprefix(what))
        error.hint = _HINT_TLS if self.place.is_secure else _HINT
        return error

    def refused(self, why: str) -> ConnectRefused:
        """The error of a first connection that the node rejected."""
        return ConnectRefused(f"{self.place.text}: {why}")

    def _turned_out(self, why: str) -> ConnectFailed:
        own = self._files.cert
        guess = (
            "a certificate, and none was given"
            if own is None
            else f"another certificate than {own.name}"
        )
        error = ConnectFailed(
            f"{self.place.text}: {why} before its first word; probably the node wants {guess}"
        )
        error.hint = _HINT_CERTIFICATE
        return error


async def _open_plain(
    user: NodeUser, connect: Callable[[Callable[[], asyncio.BaseProtocol]], Awaitable[object]]
) -> None:
    """Open a connection without TLS, and look after it until it is handed on."""
    if os.name != "posix":
        # There a socket is no file, and the usual loop cannot watch one.
        await connect(lambda: _Bytes(user))
        return
    entry = _Entry(user)
    try:
        await connect(lambda: entry)
    except BaseException:
        if entry.stream is not None:
            # Whoever wanted it has given up in the very last moment.
            entry.stream.abort()
        raise
    if entry.fault is not None:
        raise entry.fault


class _Entry(asyncio.Protocol):
    """Opens a connection as only a loop can, and hands it on."""

    def __init__(self, user: NodeUser) -> None:
        self._user = user
        self.stream: SocketStream | None = None
        self.fault: OSError | None = None
        """Why it could not be handed on."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: the transports of other loops are no subclasses.
        entrance = cast("asyncio.Transport", transport)
        raw = entrance.get_extra_info("socket")
        try:
            tune(raw)
            stream = SocketStream(raw.fileno(), self._user, waiting_bytes_max=_WRITE_BYTES_HIGH)
        except OSError as error:
            self.fault = error
            return
        finally:
            # Before it has read anything. Only its own descriptor is closed by that.
            entrance.abort()
        self.stream = stream
        stream.start()


class _Bytes(asyncio.BufferedProtocol):
    """A stream of bytes, inside TLS as a rule, read into one buffer again and again.

    Left to itself, asyncio makes a quarter of a megabyte of fresh memory for each read.
    """

    def __init__(self, user: NodeUser) -> None:
        self._user = user
        self._room = memoryview(bytearray(_READ_BYTES))
        self._transport: asyncio.Transport | None = None
        self._is_closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: the transports of other loops are no subclasses.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BYTES_HIGH)
        raw = self._transport.get_extra_info("socket")
        if raw is not None:
            tune(raw)
        self._user.opened(self)

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        assert self._transport is not None
        if not self._is_closing and not self._transport.is_closing():
            self._is_closing = True
            OrderlyClose(self._transport, self, self._room)

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self._user.received(bytes(self._room[:nbytes]))

    def connection_lost(self, error: Exception | None) -> None:
        self._user.lost(error)

    def pause_writing(self) -> None:
        self._user.paused(is_full=True)

    def resume_writing(self) -> None:
        self._user.paused(is_full=False)


class _Messages:
    """A WebSocket, on which each piece is one message."""

    def __init__(self, stream: WebSocketStream, user: NodeUser) -> None:
        self._stream = stream
        self._user = user
        self._draining: asyncio.Task[None] | None = None
        user.opened(self)
        self._reading = asyncio.get_running_loop().create_task(self._read())

    def write(self, data: bytes) -> None:
        self._stream.write(data)
        if self._draining is None and self._stream.get_write_buffer_size() > _WRITE_BYTES_HIGH:
            self._user.paused(is_full=True)
            self._draining = asyncio.get_running_loop().create_task(self._drain())

    def close(self) -> None:
        self._stream.close()

    def abort(self) -> None:
        self._stream.abort()

    async def _drain(self) -> None:
        await self._stream.drain()
        self._draining = None
        self._user.paused(is_full=False)

    async def _read(self) -> None:
        error: Exception | None = None
        try:
            while data := await self._stream.read():
                self._user.received(data)
        except OSError as fault:
            error = fault
        await self._stream.wait_closed()
        self._user.lost(error)
