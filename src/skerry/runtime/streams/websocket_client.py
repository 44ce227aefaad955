"""A client's end of a WebSocket, read and written like a stream, but by whole messages."""

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
    ClientTalk,
    WebSocketBase,
)

__all__ = ["WebSocketStream", "open_websocket"]

_AHEAD_BYTES: Final = 1024 * 1024
"""Messages that are read before somebody asks for them. Past it the node has to wait."""
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
    """Connect to a node; ConnectFailed when what answers there has no WebSocket for us.

    Messages above `message_bytes_max` are dropped as they arrive, and `skipped` is called with
    the size of each.

    OSError and TimeoutError as by `asyncio.open_connection`.
    """
    place = f"{'wss' if ssl else 'ws'}://{f'[{host}]' if ':' in host else host}:{port}"
    uri = WebSocketURI(
        secure=ssl is not None,
        host=host,
        port=port,
        path="/",
        query="",
        username=None,
        password=None,
    )
    talk = ClientTalk(uri, subprotocols=[SUBPROTOCOL], max_size=None, logger=LIBRARY_LOG)

    def door() -> WebSocketStream:
        return WebSocketStream(
            talk,
            place=place,
            message_bytes_max=message_bytes_max,
            skipped=skipped,
            close_s_max=close_s_max,
        )

    async with asyncio.timeout(timeout):
        _, stream = await asyncio.get_running_loop().create_connection(door, host, port, ssl=ssl)
        try:
            await stream.wait_open()
        except BaseException:
            stream.abort()
            raise
    return stream


class WebSocketStream(WebSocketBase):
    """One connection to a node. `write` takes frames of `JsonWire`, `read` gives messages."""

    def __init__(
        self,
        talk: ClientTalk,
        *,
        place: str,
        message_bytes_max: int,
        skipped: Callable[[int], None] | None,
        close_s_max: float,
    ) -> None:
        super().__init__(talk, message_bytes_max=message_bytes_max, close_s_max=close_s_max)
        self._client_talk = talk
        self._skipped = skipped
        self._place = place
        self._messages: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_reading_paused = False
        self._arrived = asyncio.Event()
        """Set while `read` has something to give, be it the end."""
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed = asyncio.Event()
        self._error: Exception | None = None

    async def read(self) -> bytes:
        """The next message, or nothing at an orderly end; ConnectionError at any other."""
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
        """Wait until the system has taken most of what was written."""
        await self._writable.wait()

    async def wait_open(self) -> None:
        """Wait for the handshake; ConnectFailed when the other end does not want it."""
        await self._is_open

    async def wait_closed(self) -> None:
        """Wait until the stream is gone."""
        await self._closed.wait()

    def close(self) -> None:
        """Say goodbye behind all that was written; what was not read yet is not read any more."""
        # The answer to the farewell stands behind what was not read.
        if self._is_reading_paused and not self._closed.is_set():
            self._is_reading_paused = False
            self._transport.resume_reading()
        super().close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._client_talk.send_request(self._client_talk.connect())
        self._flush()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _greeted(self, event: Request | Response) -> None:
        assert isinstance(event, Response)
        if self._is_open.done():
            return
        fault = self._client_talk.handshake_exc
        if fault is not None:
            self._is_open.set_exception(self._failed(_reason(fault)))
        elif self._client_talk.subprotocol != SUBPROTOCOL:
            self._is_open.set_exception(self._failed(f"it does not speak {SUBPROTOCOL}"))
            self._refuse(CloseCode.PROTOCOL_ERROR, f"expected the subprotocol {SUBPROTOCOL}")
        else:
            self._is_open.set_result(None)

    def _message(self, data: bytes) -> None:
        self._messages.append(data)
        self._waiting_bytes += len(data)
        self._arrived.set()
        if self._waiting_bytes > _AHEAD_BYTES and not self._is_reading_paused:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _met_large(self, size: int) -> None:
        if self._skipped is not None:
            self._skipped(size)

    def _lost(self, error: Exception | None) -> None:
        self._error = error
        self._closed.set()
        self._arrived.set()
        self._writable.set()
        if not self._is_open.done():
            why = self._client_talk.handshake_exc or error
            self._is_open.set_exception(self._failed(_reason(why)))
        # Nobody may be waiting for it any more.
        self._is_open.exception()

    def _failed(self, why: str) -> ConnectFailed:
        error = ConnectFailed(f"no node answered at {self._place}: {why}")
        error.hint = "name the WebSocket endpoint of a node, as in ws://127.0.0.1:11233"
        return error

    def _fault(self) -> ConnectionError | None:
        """What was not orderly about the end."""
        if self._error is not None:
            return ConnectionResetError(*self._error.args)
        sent, received = self._talk.close_sent, self._talk.close_rcvd
        if received is not None and received.code not in _ORDERLY:
            return ConnectionAbortedError(f"the node closed it: {received}")
        if sent is not None and sent.code not in _ORDERLY:
            return ConnectionAbortedError(f"the node broke the rules: {sent}")
        return None


def _reason(error: Exception | None) -> str:
    if isinstance(error, InvalidStatus):
        body = (error.response.body or b"").decode("utf-8", "replace").strip()
        return f"{error}: {body:.200}" if body else str(error)
    if error is None:
        return "the connection ended"
    return str(error.__cause__ or error)
