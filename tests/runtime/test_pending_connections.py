"""Many pending connections at a listener: other clients still connect."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

from skerry.engine.node import NodeCore
from skerry.protocol.access.wire import Wire
from skerry.runtime.loops import LoopKind, run_loop
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer
from skerry.runtime.streams.sockets import raise_descriptor_limit
from skerry.runtime.streams.tls import TLS_HANDSHAKE_PER_HOST_COUNT_MAX, TlsFiles, client_context
from skerry.runtime.streams.websocket import WEBSOCKET_WAITING_PER_HOST_COUNT_MAX
from skerry.runtime.streams.websocket_client import open_websocket

HONEST_COUNT = 150
SILENT_COUNT = max(TLS_HANDSHAKE_PER_HOST_COUNT_MAX, WEBSOCKET_WAITING_PER_HOST_COUNT_MAX) + 20
PATIENCE_S = 60.0


@pytest.fixture
def descriptors() -> Iterator[None]:
    """The highest number of descriptors; both ends of all streams are in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if raise_descriptor_limit() < 2 * SILENT_COUNT + 100:
        pytest.skip("this computer does not allow so many open files")
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificate of a node, and with that of its authority."""
    folder = tmp_path_factory.mktemp("papers")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "node.pem")
    return folder


async def greeted(scheme: str, port: int, context: ssl.SSLContext | None) -> str:
    """The greeting of the node."""
    if scheme.startswith("ws"):
        stream = await open_websocket("localhost", port, ssl=context, timeout=PATIENCE_S)
        data = await stream.read()
        stream.abort()
        return "DotsMsgHello" if b"DotsMsgHello" in data else repr(data)
    reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
    wire = Wire()
    try:
        while True:
            for header, _ in wire.feed(await reader.read(4096)):
                return header.type_name
    finally:
        writer.transport.abort()


async def come_silently(silent: socket.socket, port: int, words: bytes) -> None:
    loop = asyncio.get_running_loop()
    silent.setblocking(False)
    await loop.sock_connect(silent, ("127.0.0.1", port))
    await loop.sock_sendall(silent, words)


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("scheme", "words"),
    [("tls", b"\x16\x03\x01"), ("ws", b"GET / "), ("wss", b"\x16\x03\x01")],
    ids=["tls", "ws", "wss"],
)
def test_honest_clients_of_an_address_get_in_at_once_and_behind_a_silent_crowd(
    scheme: str, words: bytes, loop: LoopKind, papers: Path, descriptors: None
) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")

    async def scene() -> None:
        server = NodeServer(NodeCore(), tls=TlsFiles(cert=papers / "node.pem"))
        context = None if scheme == "ws" else client_context(TlsFiles(ca=papers / "ca.pem"))
        try:
            place = await server.listen(parse_endpoint(f"{scheme}://127.0.0.1:0"))
            port = int(place.rpartition(":")[2])
            crowd = [greeted(scheme, port, context) for _ in range(HONEST_COUNT)]
            assert await asyncio.gather(*crowd) == ["DotsMsgHello"] * HONEST_COUNT
            with ExitStack() as stack:
                silent = [stack.enter_context(socket.socket()) for _ in range(SILENT_COUNT)]
                await asyncio.gather(*(come_silently(one, port, words) for one in silent))
                assert await greeted(scheme, port, context) == "DotsMsgHello"
            while server._dead_peers._sockets:  # noqa: ASYNC110 - nothing is kept of those who are gone
                await asyncio.sleep(0.01)
        finally:
            await server.close()

    async def in_time() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scene()

    run_loop(in_time(), loop)
