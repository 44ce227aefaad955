"""Base of both ends of a WebSocket: complete messages over a stream, and the closing handshake.

The I/O-free part of the `websockets` library implements RFC 6455, and this module connects it to
asyncio. Compression is not offered: a small message could expand to a huge one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, cast

from websockets.client import ClientProtocol
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import SEND_EOF, State
from websockets.server import ServerProtocol
from websockets.streams import StreamReader
from websockets.typing import Subprotocol

from skerry.limits import SMALL_FRAME_BYTES_MAX
from skerry.protocol.access.json.wire import cut_messages

SUBPROTOCOL: Final = Subprotocol("dots-json")
"""The subprotocol that both ends must support."""

CLOSE_S_MAX: Final = 10.0
"""Time for the peer to complete the closing handshake."""

LIBRARY_LOG: Final = logging.getLogger(f"{__name__}.library")
# On lower levels the library logs every connection and the content of every message.
LIBRARY_LOG.setLevel(logging.WARNING)


class _Reader(StreamReader):
    """Drops the content of frames above a limit as it arrives, instead of buffering it."""

    def __init__(self) -> None:
        super().__init__()
        self.frame_bytes_max = SMALL_FRAME_BYTES_MAX
        self.large_bytes = 0
        """Size of the frame that is being dropped or was dropped last."""

    def read_exact(self, n: int) -> Generator[None, None, bytearray]:
        if n <= self.frame_bytes_max:
            return (yield from super().read_exact(n))
        self.large_bytes = left = n
        while True:
            left -= min(left, len(self.buffer))
            del self.buffer[: n - left]
            n = left
            if not left:
                return bytearray()
            if self.eof:
                raise EOFError(f"stream ends {left} bytes before the end of a frame")
            yield


@dataclass
class _LargeFrame(Frame):
    """A frame above the limit, whose content was dropped."""

    size: int = 0


class _BoundedFrames:
    """Limits the size of frames, which the library would buffer completely."""

    @property
    def reader(self) -> _Reader:
        """Replaces the reader that the library sets at the start."""
        return self._reader

    @reader.setter
    def reader(self, _usual: StreamReader) -> None:
        self._reader = _Reader()

    def recv_frame(self, frame: Frame) -> None:
        size, self._reader.large_bytes = self._reader.large_bytes, 0
        if size:
            frame = _LargeFrame(frame.opcode, b"", frame.fin, size=size)
        super().recv_frame(frame)  # type: ignore[misc]


class WebSocketServerProtocol(_BoundedFrames, ServerProtocol):  # type: ignore[misc]
    """The I/O-free part of the end of a node."""


class WebSocketClientProtocol(_BoundedFrames, ClientProtocol):  # type: ignore[misc]
    """The I/O-free part of the end of a client."""


class WebSocketBase(asyncio.Protocol):
    """One end of a WebSocket. It sends frames of `JsonWire`, each as a message."""

    def __init__(
        self,
        protocol: WebSocketServerProtocol | WebSocketClientProtocol,
        *,
        message_bytes_max: int,
        close_s_max: float,
    ) -> None:
        self._protocol = protocol
        self._reader = protocol.reader
        self._message_bytes_max = message_bytes_max
        self.limit_messages(message_bytes_max)
        self._is_dropping = False
        """Whether the current message exceeds the limit and is dropped."""
        self._close_s_max = close_s_max
        self._stream: asyncio.Transport | None = None
        self._fragments = bytearray()
        """The received fragments of a message, joined: a peer may send any number of empty ones."""
        self._close_code = CloseCode.NORMAL_CLOSURE
        self._is_over = False
        """Whether further input is ignored."""
        self._timeout: asyncio.TimerHandle | None = None

    # -- the interface of a stream

    def write(self, data: bytes) -> None:
        """Send frames, each as a message; no effect when the WebSocket is closing."""
        if self._protocol.state is not State.OPEN:
            return
        for message in cut_messages(data):
            self._protocol.send_text(message)
        self._flush()

    def close(self) -> None:
        """Start the closing handshake after all that was written; abort if the peer is too slow."""
        self._is_over = True
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(self._close_code)
            self._flush()
        elif self._protocol.state is State.CONNECTING:
            self._transport.close()
            self._set_timeout(self._close_s_max)

    def abort(self) -> None:
        """Close the connection now."""
        self._is_over = True
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._protocol.state is not State.OPEN or self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Bytes that were not passed to the system yet."""
        return self._transport.get_write_buffer_size()

    # -- for asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: the transports of other loops are not subclasses of asyncio.Transport.
        self._stream = cast("asyncio.Transport", transport)

    def limit_messages(self, message_bytes_max: int) -> None:
        """Change the message limit, from the next message on; larger ones are dropped."""
        self._message_bytes_max = self._reader.frame_bytes_max = message_bytes_max

    @property
    def pending_bytes(self) -> int:
        """Bytes of an incomplete message."""
        return len(self._reader.buffer) + len(self._fragments)

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        events = self._protocol.events_received()
        self._flush_answers()
        for event in events:
            if self._is_over:
                return
            if isinstance(event, Frame):
                self._receive_frame(event)
            else:
                assert isinstance(event, (Request, Response))
                self._handshake_received(event)
        if self._reader.large_bytes and not self._is_over:
            # The end of the frame may never be received.
            self._begin_dropping(len(self._fragments) + self._reader.large_bytes)

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_over = True
        self._clear_timeout()
        self._protocol.receive_eof()
        self._lost(error)

    # -- for the two ends

    def _handshake_received(self, event: Request | Response) -> None:
        """Handle the handshake message of the peer."""
        raise NotImplementedError

    def _message(self, data: bytes) -> None:
        """Handle a complete message, which is never empty."""
        raise NotImplementedError

    def _message_too_large(self, size: int) -> None:
        """Handle a dropped message above the limit, of at least `size` bytes."""
        raise NotImplementedError

    def _lost(self, error: Exception | None) -> None:
        """Handle the end of the connection."""
        raise NotImplementedError

    @property
    def _transport(self) -> asyncio.Transport:
        assert self._stream is not None
        return self._stream

    def _fail(self, code: CloseCode, reason: str) -> None:
        """Close the WebSocket because of an error of the peer."""
        self._is_over = True
        self._protocol.fail(code, reason)
        self._flush()

    def _flush_answers(self) -> None:
        """Send the answers of the library: to a ping, to a close frame, or to an error."""
        self._flush()

    def _flush(self) -> None:
        pieces = self._protocol.data_to_send()
        if self._transport.is_closing():
            return
        data = b"".join(pieces)
        if data:
            self._transport.write(data)
        # With this marker the library requests the end of sending.
        if SEND_EOF in pieces:
            self._end_sending()
        if self._protocol.close_expected():
            self._set_timeout(self._close_s_max)

    def _end_sending(self) -> None:
        # When a socket is closed with unread input, the system resets the connection, and the peer
        # may lose the reason. So only sending ends, and further input is read and dropped.
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
        self._set_timeout(self._close_s_max)

    def _set_timeout(self, delay_s: float) -> None:
        """Abort the connection unless it is closed by then; later calls have no effect."""
        if self._timeout is None:
            loop = asyncio.get_running_loop()
            self._timeout = loop.call_later(delay_s, self._transport.abort)

    def _clear_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _receive_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.BINARY:
            self._fail(CloseCode.UNSUPPORTED_DATA, "messages are JSON text, this one is binary")
        elif frame.opcode is Opcode.TEXT or frame.opcode is Opcode.CONT:
            self._receive_fragment(frame)

    def _begin_dropping(self, size: int) -> None:
        if not self._is_dropping:
            self._is_dropping = True
            self._fragments.clear()
            self._message_too_large(size)

    def _receive_fragment(self, frame: Frame) -> None:
        size = len(self._fragments) + len(frame.data)
        if isinstance(frame, _LargeFrame):
            size += frame.size
        if size > self._message_bytes_max:
            self._begin_dropping(size)
        if not self._is_dropping:
            self._fragments += frame.data
        if not frame.fin:
            return
        message, is_large = bytes(self._fragments), self._is_dropping
        self._fragments.clear()
        self._is_dropping = False
        if not is_large:
            if message:
                self._message(message)
            else:
                self._fail(CloseCode.INVALID_DATA, "an empty message is not JSON")
