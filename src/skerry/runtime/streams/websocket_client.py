"""The client end of a WebSocket, read and written like a stream, but message by message."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from ssl import SSLContext
from typing import Final

from websockets.exceptions import InvalidStatus
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.uri import WebSocketURI

from skerry.errors import ConnectFailed
from skerry.limits import FRAME_BYTES_MAX
from skerry.runtime.streams.websocket_base import (
    CLOSE_S_MAX,
    LIBRARY_LOG,
    SUBPROTOCOL,
    WebSocketBase,
    WebSocketClientProtocol,
)

_AHEAD_BYTES: Final = 1024 * 1024
"""Bytes of messages that are received ahead of `read`. Beyond that, the node has to wait."""
_ORDERLY: Final = (CloseCode.NORMAL_CLOSURE, CloseCode.GOING_AWAY, CloseCode.NO_STATUS_RCVD)


async def open_websocket(
    host: str,
    port: int,
    *,
    ssl: SSLContext | None = None,
    message_bytes_max: int = FRAME_BYTES_MAX,
    skipped: Callable[[int], None] | None = None,
    close_s_max: float = CLOSE_S_MAX,
    timeout: float = 10.0,
) -> WebSocketStream:
    """Connect to a node; ConnectFailed if the server there rejects the WebSocket.

    Messages above `message_bytes_max` are dropped as they arrive, and `skipped` is called with
    the size of each.

    OSError and TimeoutError as for `asyncio.open_connection`.
    """
    endpoint = f"{'wss' if ssl else 'ws'}://{f'[{host}]' if ':' in host else host}:{port}"
    uri = WebSocketURI(
        secure=ssl is not None,
        host=host,
        port=port,
        path="/",
        query="",
        username=None,
        password=None,
    )
    protocol = WebSocketClientProtocol(
        uri, subprotocols=[SUBPROTOCOL], max_size=None, logger=LIBRARY_LOG
    )

    def stream_of_connection() -> WebSocketStream:
        return WebSocketStream(
            protocol,
            endpoint=endpoint,
            message_bytes_max=message_bytes_max,
            skipped=skipped,
            close_s_max=close_s_max,
        )

    async with asyncio.timeout(timeout):
        _, stream = await asyncio.get_running_loop().create_connection(
            stream_of_connection, host, port, ssl=ssl
        )
        try:
            await stream.wait_open()
        except BaseException:
            stream.abort()
            raise
    return stream


class WebSocketStream(WebSocketBase):
    """One connection to a node. `write` sends frames of `JsonWire`, `read` returns messages."""

    def __init__(
        self,
        protocol: WebSocketClientProtocol,
        *,
        endpoint: str,
        message_bytes_max: int,
        skipped: Callable[[int], None] | None,
        close_s_max: float,
    ) -> None:
        super().__init__(protocol, message_bytes_max=message_bytes_max, close_s_max=close_s_max)
        self._client_protocol = protocol
        self._skipped = skipped
        self._endpoint = endpoint
        self._messages: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_reading_paused = False
        self._arrived = asyncio.Event()
        """Set while `read` returns at once, with a message or the end."""
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed = asyncio.Event()
        self._error: Exception | None = None

    async def read(self) -> bytes:
        """The next message, or nothing after an orderly close; ConnectionError otherwise."""
        await self._arrived.wait()
        if self._messages:
            message = self._messages.popleft()
            self._waiting_bytes -= len(message)
            if not self._messages and not self._closed.is_set():
                self._arrived.clear()
            if self._is_reading_paused and self._waiting_bytes <= _AHEAD_BYTES // 2:
                self._is_reading_paused = False
                self._transport.resume_reading()
            return message
        fault = self._fault()
        if fault is not None:
            raise fault
        return b""

    async def drain(self) -> None:
        """Wait until most of the written bytes are passed to the system."""
        await self._writable.wait()

    async def wait_open(self) -> None:
        """Wait for the handshake; ConnectFailed if the server rejects it."""
        await self._is_open

    async def wait_closed(self) -> None:
        """Wait until the connection is closed."""
        await self._closed.wait()

    def close(self) -> None:
        """Start the closing handshake after all that was written; unread messages are dropped."""
        # The close frame of the node follows the messages that were not read.
        if self._is_reading_paused and not self._closed.is_set():
            self._is_reading_paused = False
            self._transport.resume_reading()
        super().close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._client_protocol.send_request(self._client_protocol.connect())
        self._flush()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _handshake_received(self, event: Request | Response) -> None:
        assert isinstance(event, Response)
        if self._is_open.done():
            return
        fault = self._client_protocol.handshake_exc
        if fault is not None:
            self._is_open.set_exception(self._failed(_reason(fault)))
        elif self._client_protocol.subprotocol != SUBPROTOCOL:
            self._is_open.set_exception(self._failed(f"it does not support {SUBPROTOCOL}"))
            self._fail(CloseCode.PROTOCOL_ERROR, f"expected the subprotocol {SUBPROTOCOL}")
        else:
            self._is_open.set_result(None)

    def _message(self, data: bytes) -> None:
        self._messages.append(data)
        self._waiting_bytes += len(data)
        self._arrived.set()
        if self._waiting_bytes > _AHEAD_BYTES and not self._is_reading_paused:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _message_too_large(self, size: int) -> None:
        if self._skipped is not None:
            self._skipped(size)

    def _lost(self, error: Exception | None) -> None:
        self._error = error
        self._closed.set()
        self._arrived.set()
        self._writable.set()
        if not self._is_open.done():
            why = self._client_protocol.handshake_exc or error
            self._is_open.set_exception(self._failed(_reason(why)))
        # Marks the exception as retrieved: `wait_open` may have been cancelled.
        self._is_open.exception()

    def _failed(self, why: str) -> ConnectFailed:
        error = ConnectFailed(f"no node answered at {self._endpoint}: {why}")
        error.hint = "name the WebSocket endpoint of a node, as in ws://127.0.0.1:11233"
        return error

    def _fault(self) -> ConnectionError | None:
        """The error that ended the connection; None after an orderly close."""
        if self._error is not None:
            return ConnectionResetError(*self._error.args)
        sent, received = self._protocol.close_sent, self._protocol.close_rcvd
        if received is not None and received.code not in _ORDERLY:
            return ConnectionAbortedError(f"the node closed the connection: {received}")
        if sent is not None and sent.code not in _ORDERLY:
            return ConnectionAbortedError(f"the node violated the protocol: {sent}")
        return None


def _reason(error: Exception | None) -> str:
    if isinstance(error, InvalidStatus):
        body = (error.response.body or b"").decode("utf-8", "replace").strip()
        return f"{error}: {body:.200}" if body else str(error)
    if error is None:
        return "the connection was closed"
    return str(error.__cause__ or error)
