"""A minimal HTTP server for health, metrics and status pages.

A page is a function that is called for each request. It serves GET and HEAD only, limits the size
and time of requests, and closes the connection after the response.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from skerry.errors import ConnectFailed
from skerry.runtime.streams.accepting import ProtocolServer
from skerry.runtime.streams.orderly_close import OrderlyClose
from skerry.runtime.streams.sockets import bind_tcp
from skerry.runtime.streams.web_origins import host_fault, own_names

HTTP_CONNECTION_COUNT_MAX: Final = 32
"""Connections to the pages of metrics and health: some scrapers and a person."""
HTTP_REQUEST_BYTES_MAX: Final = 8192
"""Request line and headers of a request for such a page. Browsers send about one kilobyte."""

_REQUEST_S_MAX: Final = 5.0
"""Time for a client to send its request and read the response."""
_DROPPED_BYTES: Final = 4096
_TEXT: Final = "text/plain; charset=utf-8"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

_BROWSER_HEADERS: Final = frozenset({"origin", "referer", "sec-fetch-mode", "sec-fetch-site"})
"""Headers that only browsers send."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    body: bytes
    content_type: str = _TEXT
    status: int = 200


class HealthServer:
    def __init__(
        self, pages: Mapping[str, Callable[[], Page]], *, request_s_max: float = _REQUEST_S_MAX
    ) -> None:
        self.request_s_max = request_s_max
        self._pages = dict(pages)
        self._own_names = own_names()
        self._servers: list[ProtocolServer] = []
        self._open: dict[asyncio.Transport, None] = {}
        """Open connections, the oldest first."""

    async def listen(self, host: str, port: int) -> str:
        """Serve at an address; its URL. ConnectFailed if the address is in use."""
        self._own_names |= {host.lower()}
        try:
            for made in await bind_tcp(host, port):
                port = made.getsockname()[1]
                made.listen()
                self._servers.append(ProtocolServer(made, lambda: _PageConnection(self)))
        except OSError as error:
            shown = f"{_bracketed(host)}:{port}"
            detail = error.strerror or error
            raise ConnectFailed(f"cannot serve metrics at {shown}: {detail}") from None
        return f"http://{_bracketed(host)}:{port}"

    async def close(self) -> None:
        """Stop serving and abort all connections."""
        for server in self._servers:
            await server.close()
        for transport in list(self._open):
            transport.abort()

    def add(self, transport: asyncio.Transport) -> None:
        """Add a connection; if there are too many, the oldest is aborted.

        The oldest had the most time to send its request. If the newest were rejected, idle
        connections would lock out health checks, and a supervisor would restart the node.
        """
        if len(self._open) >= HTTP_CONNECTION_COUNT_MAX:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.abort()
        self._open[transport] = None

    def discard(self, transport: asyncio.Transport) -> None:
        """Remove a closed connection."""
        self._open.pop(transport, None)

    def answer(self, request: bytes) -> bytes:
        """The complete response to the request line and headers."""
        words = request.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _encode(Page(status=400, body=b"this is not an HTTP/1.1 request\n"))
        method, target, _ = words
        if method not in (b"GET", b"HEAD"):
            return _encode(Page(status=405, body=b"only GET and HEAD are served\n"))
        path = target.partition(b"?")[0].decode("ascii", "replace")
        page = self._rejection(path, request) or self._page(path)
        return _encode(page, is_head=method == b"HEAD")

    def _rejection(self, path: str, request: bytes) -> Page | None:
        """The rejection of a web page of another host whose name resolves to this computer.

        Monitoring programs may use names that this computer does not know to read health and
        metrics. Details of clients and types are only served for known names.
        """
        headers = _headers(request)
        if not path.endswith(".json") and not _BROWSER_HEADERS & {name for name, _ in headers}:
            return None
        hosts = [value for name, value in headers if name == "host"]
        fault = host_fault(hosts, self._own_names)
        if fault is None:
            return None
        hint = "use an address, localhost or the name of this computer"
        return Page(status=403, body=f"{fault}; {hint}\n".encode())

    def _page(self, path: str) -> Page:
        make = self._pages.get(path)
        if make is None:
            known = " ".join(sorted(self._pages))
            return Page(status=404, body=f"there is no such page; there are {known}\n".encode())
        try:
            return make()
        except Exception:  # A failing page must not stop the node.
            log.exception("a page failed", extra={"path": path})
            return Page(status=500, body=b"the page failed; the log of the node has the reason\n")


class _PageConnection(asyncio.Protocol):
    """One connection: a request, a response, then it is closed."""

    def __init__(self, server: HealthServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._request = b""
        self._is_answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: the transports of uvloop are not subclasses of asyncio.Transport.
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        self._server.add(transport)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._server.request_s_max, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._is_answered:
            return
        self._request += data
        head, end, _ = self._request.partition(b"\r\n\r\n")
        if len(head) > HTTP_REQUEST_BYTES_MAX:
            self._send(_encode(Page(status=431, body=b"the request is too long\n")))
        elif end:
            self._send(self._server.answer(head))

    def connection_lost(self, exc: Exception | None) -> None:
        assert self._transport is not None
        self._server.discard(self._transport)
        if self._timer is not None:
            self._timer.cancel()

    def _send(self, answer: bytes) -> None:
        assert self._transport is not None
        self._is_answered = True
        self._request = b""
        self._transport.write(answer)
        # Data after a request, such as the body of a POST, is not read.
        OrderlyClose(self._transport, self, memoryview(bytearray(_DROPPED_BYTES)))


def _headers(request: bytes) -> list[tuple[str, str]]:
    """Header names in lower case, and values."""
    found = []
    for line in request.split(b"\r\n")[1:]:
        name, _, value = line.decode("latin-1").partition(":")
        found.append((name.strip().lower(), value.strip()))
    return found


def _encode(page: Page, *, is_head: bool = False) -> bytes:
    head = (
        f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + (b"" if is_head else page.body)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
