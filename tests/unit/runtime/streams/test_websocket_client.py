"""The client end of a WebSocket: with the listener of a node, and with other servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest
from websockets.asyncio.server import ServerConnection, serve

import skerry
from skerry.engine.admission.origins import Origin
from skerry.errors import ConnectFailed
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.access.json.wire import JsonWire, cut_messages
from skerry.protocol.access.json.writing import JsonNodeWire
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address
from skerry.runtime.streams.node_server import NodeServer
from skerry.runtime.streams.websocket import WebSocketListener
from skerry.runtime.streams.websocket_base import SUBPROTOCOL, WebSocketBase
from skerry.runtime.streams.websocket_client import WebSocketStream, open_websocket

PATIENCE_S = 10.0
TYPES = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: string name; }")
KNOWN = {"Boat": TYPES.Boat.descriptor}


class Mirror:
    """Stands for a node, and gives every transmission back as it understood it."""

    def __init__(self) -> None:
        self.wires: dict[Address, tuple[WebSocketBase, Wire]] = {}
        self.is_lost = asyncio.Event()

    def admit(self, _transport: asyncio.Transport) -> bool:
        return True

    def discard(self, _transport: asyncio.Transport) -> None: ...

    def opened(
        self, stream: WebSocketBase, wire: Wire, _origin: Origin, _extensions: bool
    ) -> Address:
        address = Address("client", len(self.wires) + 1, is_stream=True)
        self.wires[address] = stream, wire
        return address

    def received(self, address: Address, data: bytes) -> bool:
        stream, wire = self.wires[address]
        for header, payload in wire.feed(data):
            stream.write(text_of(wire, header, payload))
        return False

    def hold(self, _address: Address, _release: Callable[[], None]) -> None:
        raise AssertionError("nothing is held here")

    def unfinished(self, _address: Address, _size: int) -> None: ...

    def too_large(self, _address: Address, _size: int) -> None: ...

    def lost(self, _address: Address, _stream: WebSocketBase) -> None:
        self.is_lost.set()

    def paused(self, _address: Address) -> None:
        pass

    def resumed(self, _address: Address) -> None:
        pass


def text_of(wire: Wire, header: Header, payload: bytes) -> bytes:
    """A transmission as a node writes it to a client by WebSocket."""
    assert isinstance(wire, JsonNodeWire)
    return wire.text(wire.frame(header, payload))


@contextlib.asynccontextmanager
async def mirror() -> AsyncIterator[tuple[Mirror, int]]:
    made = Mirror()
    listener = WebSocketListener(cast("NodeServer", made), KNOWN)
    server = await asyncio.get_running_loop().create_server(listener.protocol, "127.0.0.1", 0)
    try:
        yield made, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        listener.close()
        for stream, _ in made.wires.values():
            stream.abort()
        await server.wait_closed()


@contextlib.asynccontextmanager
async def opened(port: int, **more: Any) -> AsyncIterator[WebSocketStream]:
    stream = await open_websocket("127.0.0.1", port, **more)
    try:
        yield stream
    finally:
        stream.abort()
        await asyncio.wait_for(stream.wait_closed(), PATIENCE_S)


def boat_frame(number: int, name: str = "x") -> bytes:
    header = Header("Boat")
    header.attributes = 6
    return JsonWire(KNOWN).frame(header, TYPES.Boat(id=number, name=name).encode())


async def until_full(stream: WebSocketStream) -> None:
    """Let the loop turn until so much waits that no more is taken from the system."""
    while stream._transport.is_reading():  # noqa: ASYNC110
        await asyncio.sleep(0)


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def stage() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scene()

    asyncio.run(stage())


def test_messages_are_sent_to_a_node_and_received() -> None:
    async def scene() -> None:
        async with mirror() as (_, port), opened(port) as stream:
            frames = [boat_frame(number) for number in range(100)]
            stream.write(b"".join(frames))
            await stream.drain()
            wire = JsonWire(KNOWN)
            for number in range(100):
                ((header, payload),) = wire.feed(await stream.read())
                assert header.type_name == "Boat"
                assert TYPES.Boat.decode(payload).id == number

    play(scene)


def test_close_frame_follows_the_written_messages() -> None:
    async def scene() -> None:
        async with mirror() as (node, port), opened(port) as stream:
            stream.write(boat_frame(1))
            stream.close()
            await stream.wait_closed()
            await node.is_lost.wait()
            assert await stream.read() == b""
            assert stream.is_closing()

    play(scene)


def test_close_frame_of_a_node_ends_the_stream() -> None:
    async def scene() -> None:
        async with mirror() as (node, port), opened(port) as stream:
            ((protocol, wire),) = node.wires.values()
            header = Header("DotsEcho")
            header.attributes = 2
            payload = internal_class("DotsEcho")(request=False).encode()
            protocol.write(text_of(wire, header, payload))
            protocol.close()
            assert json.loads(await stream.read())[1] == {"request": False}
            assert await stream.read() == b""
            assert await stream.read() == b""
            await stream.wait_closed()

    play(scene)


def test_end_without_a_close_frame_ends_the_stream() -> None:
    async def scene() -> None:
        async with mirror() as (node, port), opened(port) as stream:
            ((protocol, _),) = node.wires.values()
            protocol._transport.close()
            assert await stream.read() == b""

    play(scene)


def test_unread_messages_are_limited() -> None:
    async def scene() -> None:
        async with mirror() as (node, port), opened(port) as stream:
            ((protocol, _),) = node.wires.values()
            text = "x" * 100_000
            for number in range(200):
                protocol.write(boat_frame(number, text))
            await until_full(stream)
            assert stream._waiting_bytes < 2_000_000
            for number in range(200):
                assert json.loads(await stream.read())[1]["id"] == number
            assert stream._waiting_bytes == 0
            assert stream._transport.is_reading()

    play(scene)


def test_client_that_does_not_read_can_close() -> None:
    async def scene() -> None:
        async with mirror() as (node, port), opened(port) as stream:
            ((protocol, _),) = node.wires.values()
            for number in range(200):
                protocol.write(boat_frame(number, "x" * 100_000))
            await until_full(stream)
            stream.close()
            await stream.wait_closed()
            await node.is_lost.wait()

    play(scene)


def test_drain_waits_until_the_bytes_are_passed_on() -> None:
    async def scene() -> None:
        async with mirror() as (node, port), opened(port) as stream:
            ((protocol, _),) = node.wires.values()
            protocol._transport.pause_reading()
            while stream._writable.is_set():
                stream.write(boat_frame(1, "x" * 100_000))
            waiting = asyncio.create_task(stream.drain())
            await asyncio.sleep(0)
            assert not waiting.done()
            protocol._transport.resume_reading()
            await waiting

    play(scene)


def test_a_message_above_the_limit_is_skipped_and_reported() -> None:
    async def scene() -> None:
        sizes: list[int] = []
        async with (
            mirror() as (node, port),
            opened(port, message_bytes_max=1000, skipped=sizes.append) as stream,
        ):
            ((protocol, _),) = node.wires.values()
            protocol.write(boat_frame(1, "x" * 1000) + boat_frame(2, "y"))
            assert b'"y"' in await stream.read()
            assert len(sizes) == 1
            assert sizes[0] > 1000

    play(scene)


# -- servers that are no nodes


def test_reason_of_an_abnormal_close_is_reported() -> None:
    async def answer(peer: ServerConnection) -> None:
        await peer.send("[]")
        await peer.close(1011, "out of order")

    async def scene() -> None:
        async with serve(answer, "127.0.0.1", 0, subprotocols=[SUBPROTOCOL]) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            async with opened(port) as stream:
                assert await stream.read() == b"[]"
                with pytest.raises(ConnectionAbortedError, match="out of order"):
                    await stream.read()

    play(scene)


def test_what_is_written_reaches_the_server_of_the_library() -> None:
    heard: list[str | bytes] = []

    async def answer(peer: ServerConnection) -> None:
        heard.extend([message async for message in peer])

    async def scene() -> None:
        async with serve(answer, "127.0.0.1", 0, subprotocols=[SUBPROTOCOL]) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            async with opened(port) as stream:
                stream.write(boat_frame(1) + boat_frame(2))
                stream.close()
                await stream.wait_closed()

    play(scene)
    expected = [cut_messages(boat_frame(number))[0].decode() for number in (1, 2)]
    assert heard == expected


def test_server_with_another_subprotocol_is_rejected() -> None:
    async def answer(peer: ServerConnection) -> None:
        await peer.wait_closed()

    async def scene() -> None:
        async with serve(answer, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            with pytest.raises(ConnectFailed, match="does not support dots-json") as caught:
                await open_websocket("127.0.0.1", port)
            assert caught.value.hint

    play(scene)


@contextlib.asynccontextmanager
async def saying(data: bytes | None) -> AsyncIterator[int]:
    """A server that sends the same to every client; None to send nothing."""

    open_count = 0
    is_quiet = asyncio.Event()
    is_quiet.set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_count
        open_count += 1
        is_quiet.clear()
        # The other end may go first, and in any way.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if data is None:
                await reader.read()
            else:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(data)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        open_count -= 1
        if not open_count:
            is_quiet.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.wait_for(is_quiet.wait(), PATIENCE_S)
        await server.wait_closed()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnope\n", "HTTP 404: nope"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP 200"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "Connection"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "no node answered"),
        (b"", "no node answered"),
    ],
)
def test_answer_of_another_server_is_reported(data: bytes, why: str) -> None:
    async def scene() -> None:
        async with saying(data) as port:
            with pytest.raises(ConnectFailed, match=why) as caught:
                await open_websocket("127.0.0.1", port)
            assert f"ws://127.0.0.1:{port}" in str(caught.value)

    play(scene)


def test_server_that_never_answers_times_out() -> None:
    async def scene() -> None:
        async with saying(None) as port:
            with pytest.raises(TimeoutError):
                await open_websocket("127.0.0.1", port, timeout=0.05)

    play(scene)


def test_unused_port_is_an_error_of_the_system() -> None:
    async def scene() -> None:
        async with saying(None) as port:
            pass
        with pytest.raises(ConnectionRefusedError):
            await open_websocket("127.0.0.1", port)

    play(scene)
