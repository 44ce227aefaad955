"""The WebSocket listener of a node: HTTP handshake, then JSON messages from and to clients.

A connection that has not completed the handshake is not a client yet. The number of these pending
connections is limited and so is their time, so that they do not harm the clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from websockets.exceptions import InvalidMessage
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.protocol import State

from skerry.engine.admission.origins import Origin
from skerry.engine.admission.pending_connections import PendingConnections
from skerry.limits import FRAME_BYTES_MAX, SMALL_FRAME_BYTES_MAX, WEBSOCKET_WAITING_COUNT_MAX
from skerry.protocol.access.json.writing import JsonNodeWire
from skerry.protocol.machine import Address
from skerry.runtime.streams.read_slices import ReadSlices
from skerry.runtime.streams.tls import common_name
from skerry.runtime.streams.web_origins import ANY_ORIGIN, origin_fault, own_names
from skerry.runtime.streams.websocket_base import (
    CLOSE_S_MAX,
    LIBRARY_LOG,
    SUBPROTOCOL,
    WebSocketBase,
    WebSocketServerProtocol,
)
from skerry.schema.model import NamedType

if TYPE_CHECKING:
    from skerry.runtime.streams.node_server import NodeServer

WEBSOCKET_HEAD_BYTES_MAX: Final = 65536
"""Request of a client for a WebSocket, which is buffered until it is complete. Cookies are the
largest part of it, and browsers stop at some kilobytes."""
WEBSOCKET_WAITING_PER_HOST_COUNT_MAX: Final = 1024
"""Of these, connections from one address, so that one computer cannot use all of them. Its clients
connect at the same time when a node restarts, a thousand of them in one turn of the loop."""

_WRITE_BUFFER_HIGH: Final = 256 * 1024
_WRITE_BUFFER_LOW: Final = 64 * 1024
_HEAD_END: Final = b"\r\n\r\n"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketConfig:
    """Section `node.websocket`."""

    origins: tuple[str, ...] = ()
    """Origins of web pages that may connect besides this host, such as `https://console.example`."""
    handshake_s_max: float = 10.0
    """Time for a connection to complete the handshake."""
    close_s_max: float = CLOSE_S_MAX
    """Time for a client to complete the closing handshake."""

    def __post_init__(self) -> None:
        for origin in self.origins:
            if origin not in (ANY_ORIGIN, "null") and "://" not in origin:
                raise ValueError(
                    f"origins: {origin!r} is not an origin; write it as in"
                    f" https://console.example, or {ANY_ORIGIN} for all pages"
                )
        if self.handshake_s_max <= 0:
            raise ValueError(f"handshake_s_max is {self.handshake_s_max}; it must be above 0")
        if self.close_s_max <= 0:
            raise ValueError(f"close_s_max is {self.close_s_max}; it must be above 0")


class WebSocketListener:
    """The WebSocket listener of a node. `types` are the types that the node knows.

    `message_bytes_max` returns the size limit for messages of a client that may publish.
    """

    def __init__(
        self,
        node: NodeServer,
        types: Mapping[str, NamedType],
        *,
        config: WebSocketConfig | None = None,
        extensions: bool = True,
        message_bytes_max: Callable[[], int] = lambda: FRAME_BYTES_MAX,
        pending_count_max: int = WEBSOCKET_WAITING_COUNT_MAX,
    ) -> None:
        self.node = node
        self.config = config or WebSocketConfig()
        self.extensions = extensions
        self._message_bytes_max = message_bytes_max
        self._types = types
        self._own_names = own_names()
        self._pending: PendingConnections[_ServerProtocol] = PendingConnections(
            count_max=pending_count_max, per_host_count_max=WEBSOCKET_WAITING_PER_HOST_COUNT_MAX
        )

    @property
    def pending_count(self) -> int:
        """Connections that have not completed the handshake."""
        return len(self._pending)

    def protocol(self) -> asyncio.Protocol:
        """The protocol of one new connection, with or without TLS."""
        return _ServerProtocol(self)

    def close(self) -> None:
        """Abort pending connections. The node closes the connections of clients."""
        for protocol in self._pending.waiting():
            protocol.abort()

    def add_pending(self, protocol: _ServerProtocol, host: str) -> None:
        """Add a pending connection; if there are too many, the oldest is aborted."""
        oldest = self._pending.add(protocol, host)
        if oldest is not None:
            log.warning(
                "too many connections without a WebSocket, the oldest is closed",
                extra={"host": host},
            )
            oldest.abort()

    def remove_pending(self, protocol: _ServerProtocol, host: str) -> None:
        """Remove a pending connection that became a client or was closed."""
        self._pending.remove(protocol, host)

    def wire(self) -> JsonNodeWire:
        """The framing for one client."""
        return JsonNodeWire(self._types, frame_bytes_max=self._message_bytes_max())

    def answer(self, protocol: WebSocketServerProtocol, request: Request, host: str) -> Response:
        """The response to a handshake request from an address: acceptance or rejection."""
        headers = request.headers
        path = request.path.partition("?")[0]
        if path != "/":
            return protocol.reject(HTTPStatus.NOT_FOUND, f"No {path!r:.100} here. WebSockets: /\n")
        if not headers.get_all("Upgrade"):
            response = protocol.reject(HTTPStatus.UPGRADE_REQUIRED, _NO_PAGES)
            response.headers["Upgrade"] = "websocket"
            return response
        fault = origin_fault(
            origins=headers.get_all("Origin"),
            hosts=headers.get_all("Host"),
            allowed=self.config.origins,
            own_names=self._own_names,
        )
        if fault is not None:
            log.warning("web page rejected", extra={"host": host, "reason": fault})
            return protocol.reject(
                HTTPStatus.FORBIDDEN, f"{fault}; allow them by node.websocket.origins.\n"
            )
        return protocol.accept(request)


_NO_PAGES: Final = (
    "This is a skerry node, not a web server. Connect with a WebSocket client that requests the"
    " subprotocol dots-json.\n"
)
_NO_REQUEST: Final = (
    "This is not an HTTP request. This is the WebSocket endpoint of a skerry node; other programs"
    " connect to its endpoints for TCP, TLS or Unix sockets.\n"
)


class _ServerProtocol(WebSocketBase):
    """The stream of one client."""

    def __init__(self, listener: WebSocketListener) -> None:
        protocol = WebSocketServerProtocol(
            # Like the C++ host, which answers so whatever the client offers.
            select_subprotocol=lambda _protocol, _offered: SUBPROTOCOL,
            max_size=None,
            logger=LIBRARY_LOG,
        )
        super().__init__(
            protocol,
            message_bytes_max=SMALL_FRAME_BYTES_MAX,
            close_s_max=listener.config.close_s_max,
        )
        self._server_protocol = protocol
        self._listener = listener
        self._host = ""
        self._head: bytearray | None = bytearray()
        """The handshake request until it is complete."""
        self._is_answered = False
        """Whether the request was accepted or rejected."""
        self._address: Address | None = None
        self._wire: JsonNodeWire | None = None
        self._reported_bytes = 0
        """Size of the incomplete message that was last reported to the node."""
        self._is_paused = False
        """Whether the write buffer is full."""
        self._pong = b""
        """The answer to the last ping that was received while the write buffer was full."""
        self._slices = ReadSlices(self._take, hold=self._hold)
        self._is_lost = False
        """Whether the connection was lost while received input was still waiting."""
        self._error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_HIGH, low=_WRITE_BUFFER_LOW)
        self._host = str((transport.get_extra_info("peername") or ("",))[0])
        if not self._listener.node.admit(self._transport):
            self._is_over = True
        else:
            self._listener.add_pending(self, self._host)
            self._set_timeout(self._listener.config.handshake_s_max)

    def data_received(self, data: bytes) -> None:
        if self._head is None:
            self._slices.add(data)
            return
        # At first the library only gets the request. It would interpret the bytes that follow as
        # messages before the request is accepted.
        begin = max(len(self._head) - len(_HEAD_END) + 1, 0)
        self._head += data
        end = self._head.find(_HEAD_END, begin)
        if not self._head[:1].isalpha():
            # Rejected at once: a client of another protocol may wait for an answer.
            self._reject_head(HTTPStatus.BAD_REQUEST, _NO_REQUEST)
        elif (end if end >= 0 else len(self._head)) > WEBSOCKET_HEAD_BYTES_MAX:
            detail = f"The request is larger than {WEBSOCKET_HEAD_BYTES_MAX} bytes.\n"
            self._reject_head(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, detail)
        elif end >= 0:
            end += len(_HEAD_END)
            head, rest = bytes(self._head[:end]), bytes(self._head[end:])
            self._head = None
            super().data_received(head)
            if rest:
                self._slices.add(rest)

    def eof_received(self) -> None:
        # With TLS the end is reported at once. It counts when all input before it is processed.
        if not self._slices.is_waiting:
            super().eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._listener.node.discard(self._transport)
        if self._slices.is_waiting and not self._is_over:
            # Input that was received before the end is still processed.
            self._is_lost = True
            self._error = error
            return
        self._slices.drop()
        super().connection_lost(error)

    def pause_writing(self) -> None:
        self._is_paused = True
        if self._address is not None:
            self._listener.node.paused(self._address)

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._pong and self._protocol.state is State.OPEN:
            self._transport.write(self._pong)
        self._pong = b""
        if self._address is not None:
            self._listener.node.resumed(self._address)

    def _take(self, data: bytes) -> None:
        try:
            if self._wire is not None:
                # The node changes the limit when the permissions of the client change.
                self.limit_messages(self._wire.read_bytes_max)
            super().data_received(data)
            self._report_unfinished()
        except Exception:
            # It is unknown how much was processed. The loop logs the exception.
            self.abort()
            if self._is_lost:
                self._slices.drop()
                super().connection_lost(self._error)
            raise

    def _hold(self, is_held: bool) -> None:
        """Pause or resume reading. While it is paused, the client has to wait."""
        if self._is_lost:
            super().connection_lost(self._error)
        elif self._transport.is_closing():
            return
        elif is_held:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _flush_answers(self) -> None:
        if not self._is_paused or self._protocol.state is not State.OPEN:
            self._flush()
            return
        # These are only answers to pings. A client that sends pings and does not read would fill
        # the memory, so only the last one is answered (RFC 6455, 5.5.3).
        pongs = self._protocol.data_to_send()
        if pongs:
            self._pong = pongs[-1]

    def _reject_head(self, status: HTTPStatus, detail: str) -> None:
        self._head = None
        self._is_answered = True
        self._server_protocol.send_response(self._server_protocol.reject(status, detail))
        self._flush()

    def _flush(self) -> None:
        protocol = self._server_protocol
        if isinstance(protocol.handshake_exc, InvalidMessage) and not self._is_answered:
            # The library closes without a response if it cannot parse the request.
            self._is_answered = True
            self._transport.write(protocol.reject(HTTPStatus.BAD_REQUEST, _NO_REQUEST).serialize())
        super()._flush()

    def _handshake_received(self, event: Request | Response) -> None:
        assert isinstance(event, Request)
        self._is_answered = True
        response = self._listener.answer(self._server_protocol, event, self._host)
        self._server_protocol.send_response(response)
        self._flush()
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            return
        self._clear_timeout()
        self._listener.remove_pending(self, self._host)
        origin = Origin(kind="websocket", host=self._host, certificate=common_name(self._transport))
        self._wire = self._listener.wire()
        self._address = self._listener.node.opened(
            self, self._wire, origin, self._listener.extensions
        )
        if self._is_paused:
            self._listener.node.paused(self._address)

    def _message(self, data: bytes) -> None:
        assert self._address is not None
        if self._listener.node.received(self._address, data):
            self._slices.block()
            self._listener.node.hold(self._address, self._slices.unblock)

    def _message_too_large(self, size: int) -> None:
        assert self._address is not None
        self._close_code = CloseCode.MESSAGE_TOO_BIG
        self._listener.node.too_large(self._address, size)
        if not self._is_over:
            self._close_code = CloseCode.NORMAL_CLOSURE

    def _report_unfinished(self) -> None:
        size = self.pending_bytes
        if size != self._reported_bytes and self._address is not None:
            self._reported_bytes = size
            self._listener.node.unfinished(self._address, size)

    def _lost(self, error: Exception | None) -> None:
        self._listener.remove_pending(self, self._host)
        if self._address is not None:
            self._listener.node.lost(self._address, self)
