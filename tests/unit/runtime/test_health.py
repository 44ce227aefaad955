"""The HTTP server for health and metrics: pages, limits and rejected requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from skerry.errors import ConnectFailed
from skerry.runtime.health import (
    HTTP_CONNECTION_COUNT_MAX,
    HTTP_REQUEST_BYTES_MAX,
    HealthServer,
    Page,
)

PATIENCE_S = 10.0
"""Far longer than anything here takes; a test that waits so long has failed."""


def broken() -> Page:
    raise ZeroDivisionError


PAGES = {
    "/healthz": lambda: Page(body=b"ok\n"),
    "/readyz": lambda: Page(body=b"no\n", status=503),
    "/status.json": lambda: Page(body=b"{}", content_type="application/json"),
    "/broken": broken,
}


@asynccontextmanager
async def served(request_s_max: float = PATIENCE_S) -> AsyncIterator[int]:
    server = HealthServer(PAGES, request_s_max=request_s_max)
    try:
        url = await server.listen("127.0.0.1", 0)
        yield int(url.rpartition(":")[2])
    finally:
        await asyncio.wait_for(server.close(), PATIENCE_S)


async def said(port: int, *pieces: bytes) -> tuple[str, dict[str, str], bytes]:
    """Status, headers and body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


async def rest(reader: asyncio.StreamReader) -> bytes:
    """The bytes received until the connection is closed."""
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except ConnectionResetError:
        return b""


def answered(*pieces: bytes) -> tuple[str, dict[str, str], bytes]:
    async def scene() -> tuple[str, dict[str, str], bytes]:
        async with served() as port:
            return await said(port, *pieces)

    return asyncio.run(scene())


def test_page_is_served_with_its_type_and_length() -> None:
    status, headers, body = answered(b"GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status == "HTTP/1.1 200 OK"
    assert headers["Content-Type"] == "application/json"
    assert headers["Content-Length"] == "2"
    assert headers["Connection"] == "close"
    assert body == b"{}"


def test_request_may_come_in_pieces_and_with_a_query() -> None:
    status, _, body = answered(b"GET /heal", b"thz?full=1 HTTP/1.0\r", b"\n\r\n")
    assert (status, body) == ("HTTP/1.1 200 OK", b"ok\n")


def test_head_is_answered_without_the_page() -> None:
    _, headers, body = answered(b"HEAD /healthz HTTP/1.1\r\n\r\n")
    assert (headers["Content-Length"], body) == ("3", b"")


@pytest.mark.parametrize(
    ("request_line", "status", "words"),
    [
        (b"GET /nothing HTTP/1.1", "404 Not Found", b"/broken /healthz /readyz /status.json"),
        (b"GET /\xff HTTP/1.1", "404 Not Found", b"no such page"),
        (b"POST /healthz HTTP/1.1", "405 Method Not Allowed", b"only GET"),
        (b"GET /healthz", "400 Bad Request", b"not an HTTP/1.1 request"),
        (b"GET /healthz SPDY/3", "400 Bad Request", b"not an HTTP/1.1 request"),
        (b"\x16\x03\x01 \x00", "400 Bad Request", b"not an HTTP/1.1 request"),
        (b"GET /readyz HTTP/1.1", "503 Service Unavailable", b"no\n"),
    ],
)
def test_what_is_not_served_is_answered_with_a_reason(
    request_line: bytes, status: str, words: bytes
) -> None:
    line, _, body = answered(request_line + b"\r\n\r\n")
    assert line == f"HTTP/1.1 {status}"
    assert words in body


def test_page_that_fails_is_reported_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    status, _, body = answered(b"GET /broken HTTP/1.1\r\n\r\n")
    assert status == "HTTP/1.1 500 Internal Server Error"
    assert b"the log of the node has the reason" in body
    (record,) = caplog.records
    assert (record.getMessage(), vars(record)["path"]) == ("a page failed", "/broken")


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
def test_length_of_a_request_is_limited(end: bytes) -> None:
    start = b"GET /healthz HTTP/1.1\r\nX: "
    fits = start + b"x" * (HTTP_REQUEST_BYTES_MAX - len(start))
    assert answered(fits + b"\r\n\r\n")[0] == "HTTP/1.1 200 OK"
    assert answered(fits + b"x" + end)[0] == "HTTP/1.1 431 Request Header Fields Too Large"


def test_silent_client_is_closed_after_the_timeout() -> None:
    async def scene() -> None:
        async with served(request_s_max=0.01) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /heal")
            assert await rest(reader) == b""
            writer.close()

    asyncio.run(scene())


def test_number_of_connections_is_limited() -> None:
    async def scene() -> None:
        async with served() as port:
            guests = [
                await asyncio.open_connection("127.0.0.1", port)
                for _ in range(HTTP_CONNECTION_COUNT_MAX)
            ]
            # They send nothing. Later requests are answered, and the oldest connection is closed.
            assert (await said(port, b"GET /healthz HTTP/1.1\r\n\r\n"))[2] == b"ok\n"
            assert await rest(guests[0][0]) == b""
            guests[1][1].write(b"GET /healthz HTTP/1.1\r\n\r\n")
            answer = await asyncio.wait_for(guests[1][0].read(), PATIENCE_S)
            assert answer.startswith(b"HTTP/1.1 200"), "the others are still there"
            for _, other in guests:
                other.close()

    asyncio.run(scene())


def test_what_follows_a_request_is_not_answered() -> None:
    status, _, body = answered(b"GET /healthz HTTP/1.1\r\n\r\n" * 3)
    assert (status, body) == ("HTTP/1.1 200 OK", b"ok\n")


def test_address_in_use_is_rejected() -> None:
    async def scene() -> None:
        async with served() as port:
            other = HealthServer(PAGES)
            with pytest.raises(
                ConnectFailed, match=rf"cannot serve metrics at 127\.0\.0\.1:{port}: .* in use"
            ):
                await other.listen("127.0.0.1", port)
            await other.close()

    asyncio.run(scene())


def test_closing_the_server_closes_its_connections() -> None:
    async def scene() -> None:
        server = HealthServer(PAGES)
        url = await server.listen("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"GET")
        # A round trip, so that it is in before the end.
        assert (await said(int(url.rpartition(":")[2]), b"GET /healthz HTTP/1.1\r\n\r\n"))[2]
        await asyncio.wait_for(server.close(), PATIENCE_S)
        assert await rest(reader) == b""
        writer.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ("Host: 127.0.0.1:11237", "/status.json", 200),
        ("Host: [::1]:11237", "/status.json", 200),
        ("Host: localhost", "/status.json", 200),
        ("host:LOCALHOST:80", "/status.json", 200),
        ("X: y", "/status.json", 200),
        ("Host: evil.example", "/status.json", 403),
        ("HOST: evil.example:11237", "/status.json", 403),
        ("Host: localhost\r\nHost: evil.example", "/status.json", 403),
        ("Host: localhost.evil.example", "/status.json", 403),
        ("Host: ", "/status.json", 403),
        ("Host: evil.example", "/status.json?x", 403),
        ("Host: node-1.fleet.example:11237", "/healthz", 200),
        ("Host: evil.example\r\nSec-Fetch-Site: same-origin", "/healthz", 403),
        ("Host: evil.example\r\nReferer: http://evil.example/", "/healthz", 403),
        ("Host: localhost\r\nSec-Fetch-Site: none", "/healthz", 200),
    ],
)
def test_page_of_another_host_cannot_read_by_dns_rebinding(
    headers: str, path: str, status: int
) -> None:
    request = f"GET {path} HTTP/1.1\r\n{headers}".encode()
    answer = HealthServer(PAGES).answer(request)
    assert answer.startswith(b"HTTP/1.1 %d " % status)


def test_answer_reaches_a_program_that_sends_a_body() -> None:
    status, _, body = answered(b"POST /healthz HTTP/1.1\r\n\r\n" + bytes(100_000))
    assert status == "HTTP/1.1 405 Method Not Allowed"
    assert body == b"only GET and HEAD are served\n"
