"""Opens streams to the endpoint of a node."""

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

DEFAULT_ENDPOINT: Final = "tcp://127.0.0.1:11235"
_OPEN_S_MAX: Final = 10.0
_WRITE_BYTES_HIGH: Final = 256 * 1024
"""Bytes in the write buffer of a stream above which the space pauses."""
_READ_BYTES: Final = 64 * 1024
"""Bytes per read: some hundred updates. More would not stay in the processor's cache."""
_HINT: Final = "start one with `skerry node run`, or name another with --node"
_HINT_TLS: Final = (
    "check that a node listens there with TLS, that --ca names the authority of its certificate,"
    " and --cert a client certificate if the node requires one"
)
_HINT_CERTIFICATE: Final = (
    "pass a client certificate with --cert and its private key with --key; it must be signed by"
    " an authority that the node trusts (--tls-ca there)"
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
        endpoint: Endpoint,
        *,
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
        message_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self.endpoint = endpoint
        self._message_bytes_max = message_bytes_max
        given = TlsFiles(ca=ca, cert=cert, key=key)
        self._files = given.or_else(TlsFiles(ca=endpoint.ca, cert=endpoint.cert, key=endpoint.key))
        if endpoint.is_secure:
            # Raises an error for a missing file now, and not when a stream is opened.
            client_context(self._files)

    def wire(self, types: Mapping[str, NamedType]) -> Wire:
        """The framing of a new stream."""
        if self.endpoint.kind == "websocket":
            return JsonWire(types)
        return OldWire() if self.endpoint.version == 1 else Wire()

    async def open(self, user: NodeUser) -> None:
        """Open a stream for `user`; raises OSError or ConnectFailed if that fails."""
        async with asyncio.timeout(_OPEN_S_MAX):
            await self._open(user)

    async def _open(self, user: NodeUser) -> None:
        loop = asyncio.get_running_loop()
        endpoint = self.endpoint
        if endpoint.kind == "unix":
            await _open_without_tls(
                user, lambda factory: loop.create_unix_connection(factory, endpoint.path)
            )
            return
        context = client_context(self._files) if endpoint.is_secure else None
        if endpoint.kind == "websocket":
            # Imported here, since most programs do not need the library.
            from skerry.runtime.streams.websocket_client import open_websocket

            stream = await open_websocket(
                endpoint.host,
                endpoint.port,
                ssl=context,
                message_bytes_max=self._message_bytes_max,
                skipped=user.skipped,
            )
            _Messages(stream, user)
            return
        if context is None:
            await _open_without_tls(
                user, lambda factory: loop.create_connection(factory, endpoint.host, endpoint.port)
            )
            return
        await loop.create_connection(
            lambda: _Bytes(user),
            endpoint.host,
            endpoint.port,
            ssl=context,
            server_hostname=endpoint.host,
        )

    def failed(self, why: str, *, has_answered: bool, is_secured: bool = False) -> ConnectFailed:
        """The error of a first connection that failed.

        `has_answered` is whether the node has sent anything, `is_secured` whether the TLS handshake
        succeeded.
        """
        if has_answered:
            return ConnectFailed(f"{self.endpoint.text}: {why}")
        if is_secured:
            # In TLS 1.3 the client's handshake ends before the node has checked its certificate.
            return self._certificate_refused(why)
        what = f"no node answered at {self.endpoint.text}: "
        # The WebSocket library's error has the same prefix.
        error = ConnectFailed(what + why.removeprefix(what))
        error.hint = _HINT_TLS if self.endpoint.is_secure else _HINT
        return error

    def refused(self, why: str) -> ConnectRefused:
        """The error of a first connection that the node rejected."""
        return ConnectRefused(f"{self.endpoint.text}: {why}")

    def _certificate_refused(self, why: str) -> ConnectFailed:
        own = self._files.cert
        guess = (
            "a certificate, and none was given"
            if own is None
            else f"another certificate than {own.name}"
        )
        error = ConnectFailed(
            f"{self.endpoint.text}: {why} before its first message;"
            f" probably the node requires {guess}"
        )
        error.hint = _HINT_CERTIFICATE
        return error


async def _open_without_tls(
    user: NodeUser, connect: Callable[[Callable[[], asyncio.BaseProtocol]], Awaitable[object]]
) -> None:
    """Open a connection without TLS, and hand its socket to a SocketStream."""
    if os.name != "posix":
        # On other systems the default loop cannot watch a file descriptor.
        await connect(lambda: _Bytes(user))
        return
    handover = _Handover(user)
    try:
        await connect(lambda: handover)
    except BaseException:
        if handover.stream is not None:
            # The caller was cancelled at the last moment.
            handover.stream.abort()
        raise
    if handover.fault is not None:
        raise handover.fault


class _Handover(asyncio.Protocol):
    """Opens a connection by the loop, and hands its socket to a SocketStream."""

    def __init__(self, user: NodeUser) -> None:
        self._user = user
        self.stream: SocketStream | None = None
        self.fault: OSError | None = None
        """Why the handover failed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: transports of other loops are not subclasses.
        asyncio_transport = cast("asyncio.Transport", transport)
        raw = asyncio_transport.get_extra_info("socket")
        try:
            tune(raw)
            stream = SocketStream(raw.fileno(), self._user, waiting_bytes_max=_WRITE_BYTES_HIGH)
        except OSError as error:
            self.fault = error
            return
        finally:
            # Before it has read anything. This closes only its own descriptor.
            asyncio_transport.abort()
        self.stream = stream
        stream.start()


class _Bytes(asyncio.BufferedProtocol):
    """A byte stream, usually TLS, that reads into one reused buffer.

    By default asyncio allocates a quarter of a megabyte for each read.
    """

    def __init__(self, user: NodeUser) -> None:
        self._user = user
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._transport: asyncio.Transport | None = None
        self._is_closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: transports of other loops are not subclasses.
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
            OrderlyClose(self._transport, self, self._buffer)

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._user.received(bytes(self._buffer[:nbytes]))

    def connection_lost(self, error: Exception | None) -> None:
        self._user.lost(error)

    def pause_writing(self) -> None:
        self._user.paused(is_full=True)

    def resume_writing(self) -> None:
        self._user.paused(is_full=False)


class _Messages:
    """A WebSocket stream, which transports messages."""

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
