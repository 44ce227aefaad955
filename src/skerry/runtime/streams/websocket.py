"""WebSockets of a node: lets clients in by HTTP, and carries JSON messages to and from them.

Whoever has connected and not yet asked for a WebSocket in the right way is no client. There are
only some of these at a time, and they are cut soon, so that they cost the clients nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol

from websockets.exceptions import InvalidMessage
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.protocol import State

from skerry.engine.admission.origins import Origin
from skerry.engine.admission.pending_connections import PendingConnections
from skerry.limits import FRAME_BYTES_MAX, SMALL_FRAME_BYTES_MAX, WEBSOCKET_WAITING_COUNT_MAX
from skerry.protocol.access.json.writing import JsonNodeWire
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address
from skerry.runtime.streams.read_slices import ReadSlices
from skerry.runtime.streams.tls import common_name
from skerry.runtime.streams.web_origins import ANY_ORIGIN, origin_fault, own_names
from skerry.runtime.streams.websocket_base import (
    CLOSE_S_MAX,
    LIBRARY_LOG,
    SUBPROTOCOL,
    ServerTalk,
    WebSocketBase,
)
from skerry.schema.model import NamedType

__all__ = [
    "WEBSOCKET_HEAD_BYTES_MAX",
    "WEBSOCKET_WAITING_PER_HOST_COUNT_MAX",
    "ClientStreams",
    "WebSocketConfig",
    "WebSocketEntrance",
]

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
    """Web pages that may connect besides those of this host, as `https://console.example`."""
    handshake_s_max: float = 10.0
    """How long somebody may take to ask for a WebSocket."""
    close_s_max: float = CLOSE_S_MAX
    """How long a client may take to read our last words and to answer them."""

    def __post_init__(self) -> None:
        for origin in self.origins:
            if origin not in (ANY_ORIGIN, "null") and "://" not in origin:
                raise ValueError(
                    f"origins: {origin!r} is none; write it as in https://console.example,"
                    f" or {ANY_ORIGIN} for all pages"
                )
        if self.handshake_s_max <= 0:
            raise ValueError("handshake_s_max: a handshake takes some time")
        if self.close_s_max <= 0:
            raise ValueError("close_s_max: a farewell takes some time")


class ClientStreams(Protocol):
    """What a door needs of the node behind it."""

    def enter(self, transport: asyncio.Transport) -> bool: ...
    def leave(self, transport: asyncio.Transport) -> None: ...
    def opened(
        self, stream: WebSocketBase, wire: Wire, origin: Origin, extensions: bool
    ) -> Address: ...
    def received(self, address: Address, data: bytes) -> bool: ...
    def hold(self, address: Address, release: Callable[[], None]) -> None: ...
    def unfinished(self, address: Address, size: int) -> None: ...
    def too_large(self, address: Address, size: int) -> None: ...
    def lost(self, address: Address, stream: WebSocketBase) -> None: ...
    def paused(self, address: Address) -> None: ...
    def resumed(self, address: Address) -> None: ...


class WebSocketEntrance:
    """The WebSocket listener of a node. `types` are those the node knows.

    `message_bytes_max` gives the largest message of a client that may publish.
    """

    def __init__(
        self,
        node: ClientStreams,
        types: Mapping[str, NamedType],
        *,
        config: WebSocketConfig | None = None,
        extensions: bool = True,
        message_bytes_max: Callable[[], int] = lambda: FRAME_BYTES_MAX,
        waiting_count_max: int = WEBSOCKET_WAITING_COUNT_MAX,
    ) -> None:
        self.node = node
        self.config = config or WebSocketConfig()
        self.extensions = extensions
        self._message_bytes_max = message_bytes_max
        self._types = types
        self._own_names = own_names()
        self._waiting: PendingConnections[_Door] = PendingConnections(
            count_max=waiting_count_max, per_host_count_max=WEBSOCKET_WAITING_PER_HOST_COUNT_MAX
        )

    @property
    def waiting_count(self) -> int:
        """How many have not asked for a WebSocket yet."""
        return len(self._waiting)

    def door(self) -> asyncio.Protocol:
        """For one arriving stream, plain or inside TLS; what asyncio calls a protocol factory."""
        return _Door(self)

    def close(self) -> None:
        """Turn out whoever has no WebSocket yet. Clients are their node's to end."""
        for door in self._waiting.guests():
            door.abort()

    def arrived(self, door: _Door, host: str) -> None:
        """Somebody came and is no client yet; where there are too many, the oldest has to go."""
        oldest = self._waiting.enter(door, host)
        if oldest is not None:
            log.warning(
                "too many connections without a WebSocket, the oldest is cut", extra={"host": host}
            )
            oldest.abort()

    def waits_no_more(self, door: _Door, host: str) -> None:
        """It became a client, or is gone."""
        self._waiting.leave(door, host)

    def wire(self) -> JsonNodeWire:
        """The framing for one client."""
        return JsonNodeWire(self._types, frame_bytes_max=self._message_bytes_max())

    def answer(self, talk: ServerTalk, request: Request, host: str) -> Response:
        """The response to a request from an address: a WebSocket, or the reason for a rejection."""
        headers = request.headers
        path = request.path.partition("?")[0]
        if path != "/":
            return talk.reject(HTTPStatus.NOT_FOUND, f"No {path!r:.100} here. WebSockets: /\n")
        if not headers.get_all("Upgrade"):
            response = talk.reject(HTTPStatus.UPGRADE_REQUIRED, _NO_PAGES)
            response.headers["Upgrade"] = "websocket"
            return response
        fault = origin_fault(
            origins=headers.get_all("Origin"),
            hosts=headers.get_all("Host"),
            allowed=self.config.origins,
            own_names=self._own_names,
        )
        if fault is not None:
            log.warning("web page refused", extra={"host": host, "reason": fault})
            return talk.reject(
                HTTPStatus.FORBIDDEN, f"{fault}; allow them by node.websocket.origins.\n"
            )
        return talk.accept(request)


_NO_PAGES: Final = (
    "This is a skerry node, and no web server. Connect with a WebSocket client that asks for the"
    " subprotocol dots-json.\n"
)
_NO_REQUEST: Final = (
    "This is no HTTP request, and this is the WebSocket door of a skerry node. Other programs"
    " connect to its doors for TCP, TLS or Unix sockets.\n"
)


class _Door(WebSocketBase):
    """One client's stream."""

    def __init__(self, entrance: WebSocketEntrance) -> None:
        talk = ServerTalk(
            # As the C++ host, which answers so whatever the client offers.
            select_subprotocol=lambda _talk, _offered: SUBPROTOCOL,
            max_size=None,
            logger=LIBRARY_LOG,
        )
        super().__init__(
            talk,
            message_bytes_max=SMALL_FRAME_BYTES_MAX,
            close_s_max=entrance.config.close_s_max,
        )
        self._server_talk = talk
        self._entrance = entrance
        self._host = ""
        self._head: bytearray | None = bytearray()
        """The request, until it is whole."""
        self._is_answered = False
        """Whether the request was read, or refused."""
        self._address: Address | None = None
        self._wire: JsonNodeWire | None = None
        self._noted_bytes = 0
        """The number of bytes of an incomplete message that the node was notified of."""
        self._is_paused = False
        """Whether the client does not take what is written."""
        self._pong = b""
        """The answer to the last ping that came meanwhile."""
        self._turns = ReadSlices(self._take, hold=self._hold)
        self._is_gone = False
        self._loss: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_HIGH, low=_WRITE_BUFFER_LOW)
        self._host = str((transport.get_extra_info("peername") or ("",))[0])
        if not self._entrance.node.enter(self._transport):
            self._is_over = True
        else:
            self._entrance.arrived(self, self._host)
            self._set_alarm(self._entrance.config.handshake_s_max)

    def data_received(self, data: bytes) -> None:
        if self._head is None:
            self._turns.add(data)
            return
        # Only the request is given to the library at first. It would take what stands behind for
        # messages before it is known whether there is a WebSocket at all.
        begin = max(len(self._head) - len(_HEAD_END) + 1, 0)
        self._head += data
        end = self._head.find(_HEAD_END, begin)
        if not self._head[:1].isalpha():
            # Said at once: who speaks another language may wait for an answer and say no more.
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
                self._turns.add(rest)

    def eof_received(self) -> None:
        # Inside TLS the end is told at once. It counts when all is worked off that came before.
        if not self._turns.is_waiting:
            super().eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._entrance.node.leave(self._transport)
        if self._turns.is_waiting and not self._is_over:
            # What came before the end counts.
            self._is_gone = True
            self._loss = error
            return
        self._turns.drop()
        super().connection_lost(error)

    def pause_writing(self) -> None:
        self._is_paused = True
        if self._address is not None:
            self._entrance.node.paused(self._address)

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._pong and self._talk.state is State.OPEN:
            self._transport.write(self._pong)
        self._pong = b""
        if self._address is not None:
            self._entrance.node.resumed(self._address)

    def _take(self, data: bytes) -> None:
        try:
            if self._wire is not None:
                # The node changes it when the rights of the client change.
                self.limit_messages(self._wire.read_bytes_max)
            super().data_received(data)
            self._note_unfinished()
        except Exception:
            # Nobody knows how much of it was taken. The loop tells of the mistake.
            self.abort()
            if self._is_gone:
                self._turns.drop()
                super().connection_lost(self._loss)
            raise

    def _hold(self, is_held: bool) -> None:
        """Let the rest wait with the system, which lets the client wait; or go on reading."""
        if self._is_gone:
            super().connection_lost(self._loss)
        elif self._transport.is_closing():
            return
        elif is_held:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _flush_answers(self) -> None:
        if not self._is_paused or self._talk.state is not State.OPEN:
            self._flush()
            return
        # Nothing but answers to pings. A client that sends them without an end and does not read
        # would fill our memory, so it gets that to the last one (RFC 6455, 5.5.3).
        pongs = self._talk.data_to_send()
        if pongs:
            self._pong = pongs[-1]

    def _reject_head(self, status: HTTPStatus, detail: str) -> None:
        self._head = None
        self._is_answered = True
        self._server_talk.send_response(self._server_talk.reject(status, detail))
        self._flush()

    def _flush(self) -> None:
        talk = self._server_talk
        if isinstance(talk.handshake_exc, InvalidMessage) and not self._is_answered:
            # The library ends what it cannot read at all without a word.
            self._is_answered = True
            self._transport.write(talk.reject(HTTPStatus.BAD_REQUEST, _NO_REQUEST).serialize())
        super()._flush()

    def _greeted(self, event: Request | Response) -> None:
        assert isinstance(event, Request)
        self._is_answered = True
        response = self._entrance.answer(self._server_talk, event, self._host)
        self._server_talk.send_response(response)
        self._flush()
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            return
        self._clear_alarm()
        self._entrance.waits_no_more(self, self._host)
        origin = Origin(kind="websocket", host=self._host, certificate=common_name(self._transport))
        self._wire = self._entrance.wire()
        self._address = self._entrance.node.opened(
            self, self._wire, origin, self._entrance.extensions
        )
        if self._is_paused:
            self._entrance.node.paused(self._address)

    def _message(self, data: bytes) -> None:
        assert self._address is not None
        if self._entrance.node.received(self._address, data):
            self._turns.block()
            self._entrance.node.hold(self._address, self._turns.unblock)

    def _met_large(self, size: int) -> None:
        assert self._address is not None
        self._close_code = CloseCode.MESSAGE_TOO_BIG
        self._entrance.node.too_large(self._address, size)
        if not self._is_over:
            self._close_code = CloseCode.NORMAL_CLOSURE

    def _note_unfinished(self) -> None:
        size = self.pending_bytes
        if size != self._noted_bytes and self._address is not None:
            self._noted_bytes = size
            self._entrance.node.unfinished(self._address, size)

    def _lost(self, error: Exception | None) -> None:
        self._entrance.waits_no_more(self, self._host)
        if self._address is not None:
            self._entrance.node.lost(self._address, self)
