"""The listeners of a node, without a node."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from skerry.errors import ConfigError, ConnectFailed
from skerry.runtime.streams.endpoints import Endpoint, parse_endpoint
from skerry.runtime.streams.listeners import Listeners
from skerry.runtime.streams.node_server import NodeServer
from skerry.runtime.streams.tls import TlsFiles

TCP = "tcp://127.0.0.1:0"


class Connection(asyncio.Protocol):
    """Sends the kind of its endpoint, and closes."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._endpoint.kind.encode())
        transport.close()


class Server:
    """Admits every connection, and counts."""

    def __init__(self) -> None:
        self.admitted = asyncio.Event()

    def admit(self, _transport: asyncio.Transport) -> bool:
        self.admitted.set()
        return True

    def discard(self, _transport: asyncio.Transport) -> None:
        pass


@contextlib.asynccontextmanager
async def listeners(server: Server | None = None, **options: Any) -> AsyncIterator[Listeners]:
    defaults: dict[str, Any] = {
        "tls": TlsFiles(),
        "websocket": None,
        "socket_mode": 0o600,
        "socket_group": None,
        "connection_count_max": None,
        "message_bytes_max": lambda: 1000,
    }
    made = Listeners(
        cast("NodeServer", server or Server()), Connection, {}, **{**defaults, **options}
    )
    try:
        yield made
    finally:
        await made.close()
        made.remove_files()


async def read_all(endpoint: str) -> bytes:
    found = parse_endpoint(endpoint)
    if found.kind == "unix":
        reader, writer = await asyncio.open_unix_connection(found.path)
    else:
        reader, writer = await asyncio.open_connection(found.host, found.port)
    data = await reader.read()
    writer.close()
    await writer.wait_closed()
    return data


def test_each_endpoint_gets_its_protocol_until_the_listeners_are_closed(tmp_path: Path) -> None:
    async def scene() -> None:
        socket = tmp_path / "node.sock"
        async with listeners() as made:
            states = [made.is_open]
            tcp = await made.listen(parse_endpoint(TCP))
            unix = await made.listen(parse_endpoint(f"uds:{socket}"))
            states.append(made.is_open)
            assert tcp != TCP, "the port that was chosen"
            assert [await read_all(tcp), await read_all(unix)] == [b"tcp", b"unix"]
            assert socket.stat().st_mode & 0o777 == 0o600
        assert [*states, made.is_open] == [False, True, False]
        assert not socket.exists()
        with pytest.raises(OSError, match=r"refused|failed"):
            await read_all(tcp)

    asyncio.run(scene())


def test_endpoint_in_use_and_tls_without_a_certificate_are_errors() -> None:
    async def scene() -> None:
        async with listeners() as made, listeners() as other:
            tcp = await made.listen(parse_endpoint(TCP))
            with pytest.raises(ConnectFailed, match=f"cannot listen at {tcp}: "):
                await other.listen(parse_endpoint(tcp))
            with pytest.raises(ConfigError, match="requires a certificate"):
                await other.listen(parse_endpoint("tls://127.0.0.1:0"))
            assert not other.is_open

    asyncio.run(scene())


def test_pending_connections_are_counted_and_limited_by_the_file_descriptors() -> None:
    async def scene() -> None:
        server = Server()
        async with listeners(server, connection_count_max=8) as made:
            websocket = parse_endpoint(await made.listen(parse_endpoint("ws://127.0.0.1:0")))
            writers = []
            for _ in range(2):
                server.admitted.clear()
                _, writer = await asyncio.open_connection(websocket.host, websocket.port)
                writers.append(writer)
                await asyncio.wait_for(server.admitted.wait(), 10)
            # One in eight of the descriptors: the second connection replaces the first.
            assert made.pending_count == 1
            await made.close()
            for writer in writers:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()

    asyncio.run(scene())
