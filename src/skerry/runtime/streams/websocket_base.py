"""What both ends of a WebSocket have alike: whole messages over a stream, and an orderly end.

The rules of RFC 6455 are kept by the part of the `websockets` library that does no input or output
of its own; here it meets asyncio. Compression is not offered: a small message could become a huge
one.
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

__all__ = ["CLOSE_S_MAX", "LIBRARY_LOG", "SUBPROTOCOL", "ClientTalk", "ServerTalk", "WebSocketBase"]

SUBPROTOCOL: Final = Subprotocol("dots-json")
"""What both sides must agree on."""

CLOSE_S_MAX: Final = 10.0
"""How long the other end may take to read our last words and to answer them."""

LIBRARY_LOG: Final = logging.getLogger(f"{__name__}.library")
# On lower levels the library tells of every connection, and shows what is in every message.
LIBRARY_LOG.setLevel(logging.WARNING)


class _Reader(StreamReader):
    """Drops the content of frames above a limit as it arrives, instead of buffering it."""

    def __init__(self) -> None:
        super().__init__()
        self.frame_bytes_max = SMALL_FRAME_BYTES_MAX
        self.large_bytes = 0
        """Size of the frame that is being dropped, or was the last."""

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


class _Talk:
    """Common to both sides: bounds the content of frames, which the library would buffer."""

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


class ServerTalk(_Talk, ServerProtocol):  # type: ignore[misc]
    """The library's part of a node's end."""


class ClientTalk(_Talk, ClientProtocol):  # type: ignore[misc]
    """The library's part of a client's end."""


class WebSocketBase(asyncio.Protocol):
    """One end of a WebSocket. What is written are frames of `JsonWire`."""

    def __init__(
        self, talk: ServerTalk | ClientTalk, *, message_bytes_max: int, close_s_max: float
    ) -> None:
        self._talk = talk
        self._reader = talk.reader
        self._message_bytes_max = message_bytes_max
        self.limit_messages(message_bytes_max)
        self._is_part_large = False
        """Whether the current message is above the limit and dropped."""
        self._close_s_max = close_s_max
        self._stream: asyncio.Transport | None = None
        self._part = bytearray()
        """Of a message that comes in fragments. Those may be empty and without end, so they are
        not kept one by one."""
        self._close_code = CloseCode.NORMAL_CLOSURE
        self._is_over = False
        """Whether what still comes is not looked at."""
        self._alarm: asyncio.TimerHandle | None = None

    # -- for whoever writes to it, as to a stream

    def write(self, data: bytes) -> None:
        """Send frames, each as a message; nothing when the end has begun."""
        if self._talk.state is not State.OPEN:
            return
        for message in cut_messages(data):
            self._talk.send_text(message)
        self._flush()

    def close(self) -> None:
        """Say goodbye behind all that was written; who does not answer is cut."""
        self._is_over = True
        if self._talk.state is State.OPEN:
            self._talk.send_close(self._close_code)
            self._flush()
        elif self._talk.state is State.CONNECTING:
            self._transport.close()
            self._set_alarm(self._close_s_max)

    def abort(self) -> None:
        """End it now, whatever is under way."""
        self._is_over = True
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether what is written from now on would not arrive."""
        return self._talk.state is not State.OPEN or self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Bytes that the system has not taken yet."""
        return self._transport.get_write_buffer_size()

    # -- for asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: the transports of other loops are no subclasses.
        self._stream = cast("asyncio.Transport", transport)

    def limit_messages(self, message_bytes_max: int) -> None:
        """Change the message limit, from the next message on; larger ones are dropped."""
        self._message_bytes_max = self._reader.frame_bytes_max = message_bytes_max

    @property
    def pending_bytes(self) -> int:
        """Bytes of an incomplete message."""
        return len(self._reader.buffer) + len(self._part)

    def data_received(self, data: bytes) -> None:
        self._talk.receive_data(data)
        events = self._talk.events_received()
        self._flush_answers()
        for event in events:
            if self._is_over:
                return
            if isinstance(event, Frame):
                self._take_frame(event)
            else:
                assert isinstance(event, (Request, Response))
                self._greeted(event)
        if self._reader.large_bytes and not self._is_over:
            # Its end may never come.
            self._begin_large(len(self._part) + self._reader.large_bytes)

    def eof_received(self) -> None:
        self._talk.receive_eof()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_over = True
        self._clear_alarm()
        self._talk.receive_eof()
        self._lost(error)

    # -- for the two ends

    def _greeted(self, event: Request | Response) -> None:
        """The other end's part of the handshake."""
        raise NotImplementedError

    def _message(self, data: bytes) -> None:
        """A whole message, which is never empty."""
        raise NotImplementedError

    def _met_large(self, size: int) -> None:
        """A message above the limit, of at least so many bytes; it is dropped."""
        raise NotImplementedError

    def _lost(self, error: Exception | None) -> None:
        """The stream is gone."""
        raise NotImplementedError

    @property
    def _transport(self) -> asyncio.Transport:
        assert self._stream is not None
        return self._stream

    def _refuse(self, code: CloseCode, reason: str) -> None:
        """End it because of what the other end did."""
        self._is_over = True
        self._talk.fail(code, reason)
        self._flush()

    def _flush_answers(self) -> None:
        """Send what the library answers by itself: to a ping, to a farewell, or to a fault."""
        self._flush()

    def _flush(self) -> None:
        pieces = self._talk.data_to_send()
        if self._transport.is_closing():
            return
        data = b"".join(pieces)
        if data:
            self._transport.write(data)
        # The library's sign for the end of what we send.
        if SEND_EOF in pieces:
            self._end_sending()
        if self._talk.close_expected():
            self._set_alarm(self._close_s_max)

    def _end_sending(self) -> None:
        # To close with bytes unread would make the system reset the connection, and the other end
        # might never see why. So only our half ends, and the rest is read and dropped.
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
        self._set_alarm(self._close_s_max)

    def _set_alarm(self, delay_s: float) -> None:
        """Cut the stream unless it is gone by then; the first alarm counts."""
        if self._alarm is None:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(delay_s, self._transport.abort)

    def _clear_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _take_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.BINARY:
            self._refuse(CloseCode.UNSUPPORTED_DATA, "messages are JSON text, this one is binary")
        elif frame.opcode is Opcode.TEXT or frame.opcode is Opcode.CONT:
            self._take_part(frame)

    def _begin_large(self, size: int) -> None:
        if not self._is_part_large:
            self._is_part_large = True
            self._part.clear()
            self._met_large(size)

    def _take_part(self, frame: Frame) -> None:
        size = len(self._part) + len(frame.data)
        if isinstance(frame, _LargeFrame):
            size += frame.size
        if size > self._message_bytes_max:
            self._begin_large(size)
        if not self._is_part_large:
            self._part += frame.data
        if not frame.fin:
            return
        message, is_large = bytes(self._part), self._is_part_large
        self._part.clear()
        self._is_part_large = False
        if not is_large:
            if message:
                self._message(message)
            else:
                self._refuse(CloseCode.INVALID_DATA, "an empty message is no JSON")
