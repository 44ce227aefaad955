"""The WebSocket listener of a node on real sockets: handshakes, limits and messages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

import skerry
from skerry.engine.admission.admission import AdmissionConfig
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.node import NodeCore
from skerry.limits import STREAM_CHUNK_BYTES_MAX, WEBSOCKET_WAITING_COUNT_MAX
from skerry.protocol.access.json.writing import JsonNodeWire
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address, CloseReason, Disconnect
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.streams.node_server import NodeServer
from skerry.runtime.streams.websocket import (
    WEBSOCKET_HEAD_BYTES_MAX,
    WEBSOCKET_WAITING_PER_HOST_COUNT_MAX,
    WebSocketConfig,
    WebSocketListener,
    _ServerProtocol,
)
from skerry.runtime.streams.websocket_base import SUBPROTOCOL, WebSocketBase
from skerry.runtime.streams.websocket_client import open_websocket

PATIENCE_S = 10.0
SESSION = json.loads(
    (Path(__file__).parents[3] / "golden" / "dots" / "websocket-json.json").read_text(
        encoding="utf-8"
    )
)["messages"]
TYPES = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: string name; }")


@dataclass
class FakeNode:
    """A node behind the protocol."""

    core: NodeCore = field(default_factory=lambda: NodeCore(name="harbour"))
    streams: dict[Address, WebSocketBase] = field(default_factory=dict)
    origins: list[Origin] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    left: list[asyncio.Transport] = field(default_factory=list)
    is_full: bool = False

    def __post_init__(self) -> None:
        self.changed = asyncio.Condition()

    def admit(self, transport: asyncio.Transport) -> bool:
        if self.is_full:
            transport.abort()
        return not self.is_full

    def discard(self, transport: asyncio.Transport) -> None:
        self.left.append(transport)

    def opened(
        self, stream: WebSocketBase, wire: Wire, origin: Origin, extensions: bool
    ) -> Address:
        address = Address("client", len(self.origins) + 1, is_stream=True)
        self.origins.append(origin)
        self.streams[address] = stream
        self.core.open(address, wire, monotonic_ns(), origin=origin, extensions=extensions)
        self.carry()
        return address

    def received(self, address: Address, data: bytes) -> bool:
        self.core.receive(data, address, monotonic_ns())
        self.carry()
        return False

    def hold(self, _address: Address, _release: Callable[[], None]) -> None:
        raise AssertionError("nothing is held here")

    def unfinished(self, address: Address, size: int) -> None:
        self.emit(f"unfinished {size}")

    def too_large(self, address: Address, size: int) -> None:
        self.core.refuse_large(address, size, monotonic_ns())
        self.carry()

    def lost(self, address: Address, stream: WebSocketBase) -> None:
        self.emit("lost")
        if self.streams.pop(address, None) is not None:
            self.core.stream_closed(address, CloseReason.LOST, monotonic_ns())
            self.carry()

    def paused(self, _address: Address) -> None:
        self.emit("paused")

    def resumed(self, _address: Address) -> None:
        self.emit("resumed")

    def carry(self) -> None:
        for transmit in self.core.take_transmits():
            stream = self.streams.get(transmit.destination)
            if stream is None:
                continue
            if isinstance(transmit, Disconnect):
                del self.streams[transmit.destination]
                stream.close()
            else:
                stream.write(transmit.data)

    def emit(self, what: str) -> None:
        self.reports.append(what)
        asyncio.get_running_loop().create_task(self._wake())

    async def _wake(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def until_reported(self, what: str) -> None:
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(lambda: what in self.reports), PATIENCE_S)


@dataclass(frozen=True)
class Harbour:
    fake_node: FakeNode
    listener: WebSocketListener
    port: int

    def dial(self, path: str = "/", **more: Any) -> connect:
        return connect(f"ws://127.0.0.1:{self.port}{path}", subprotocols=[SUBPROTOCOL], **more)

    async def ask(self, request: bytes) -> bytes:
        """The response to bytes until the stream is closed; empty if it is aborted."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request)
            return await asyncio.wait_for(reader.read(), PATIENCE_S)
        except ConnectionResetError:
            # How a cut looks depends on what of ours had not been read.
            return b""
        finally:
            await hang_up(writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionResetError):
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def harbour(
    config: WebSocketConfig | None = None,
    *,
    context: ssl.SSLContext | None = None,
    **more: Any,
) -> AsyncIterator[Harbour]:
    fake_node = FakeNode()
    listener = WebSocketListener(
        cast("NodeServer", fake_node), fake_node.core.registry, config=config, **more
    )
    server = await asyncio.get_running_loop().create_server(
        listener.protocol, "127.0.0.1", 0, ssl=context
    )
    try:
        yield Harbour(fake_node, listener, server.sockets[0].getsockname()[1])
    finally:
        server.close()
        listener.close()
        for stream in list(fake_node.streams.values()):
            stream.abort()
        await asyncio.wait_for(server.wait_closed(), PATIENCE_S)


async def hear(peer: ClientConnection, type_name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The next message about a type; earlier ones are skipped."""
    while True:
        header, plain = json.loads(await asyncio.wait_for(peer.recv(), PATIENCE_S))
        if header["typeName"] == type_name:
            return header, plain


async def say(peer: ClientConnection, type_name: str, attributes: int, **plain: Any) -> None:
    header = {"typeName": type_name, "attributes": attributes}
    await peer.send(json.dumps([header, plain]))


async def enter(peer: ClientConnection, name: str) -> None:
    assert (await hear(peer, "DotsMsgHello"))[1]["serverName"] == "harbour"
    await say(peer, "DotsMsgConnect", 6, clientName=name, preloadCache=False)
    assert (await hear(peer, "DotsMsgConnectResponse"))[1]["accepted"] is True


async def describe_boat(peer: ClientConnection) -> None:
    properties = [
        {"name": "id", "tag": 1, "isKey": True, "type": "uint32"},
        {"name": "name", "tag": 2, "isKey": False, "type": "string"},
    ]
    await say(
        peer, "StructDescriptorData", 38, name="Boat", properties=properties, flags={"cached": True}
    )


def test_clients_publish_and_receive() -> None:
    async def scene() -> None:
        async with harbour() as served, served.dial() as ann, served.dial() as bob:
            await enter(ann, "ann")
            await enter(bob, "bob")
            await describe_boat(ann)
            await say(ann, "Boat", 6, id=1, name="Aurora")
            await say(bob, "DotsMember", 6, groupName="Boat", event=1)
            header, boat = await hear(bob, "Boat")
            assert header["fromCache"] == 0
            assert boat == {"id": 1, "name": "Aurora"}
            await say(ann, "Boat", 6, id=1, name=None)
            header, boat = await hear(bob, "Boat")
            assert header["attributes"] == 6
            assert boat == {"id": 1}
            assert {origin.kind for origin in served.fake_node.origins} == {"websocket"}
            assert {origin.host for origin in served.fake_node.origins} == {"127.0.0.1"}

    asyncio.run(scene())


def test_greeting_of_the_captured_client_is_answered_as_by_the_host() -> None:
    (greeting,) = [message for message in SESSION if "http_request" in message]
    expected = greeting["http_response"].split("\r\n")

    async def scene() -> None:
        async with harbour() as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(greeting["http_request"].encode())
            answer = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            writer.close()
            await writer.wait_closed()
            assert answer[0] == expected[0]
            ours, theirs = headers_of(answer), headers_of(expected)
            for name in ("upgrade", "connection", "sec-websocket-accept", "sec-websocket-protocol"):
                assert ours[name].lower() == theirs[name].lower()

    asyncio.run(scene())


def headers_of(lines: list[str]) -> dict[str, str]:
    return {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines[1:] if line}


def greeting(*lines: str, path: str = "/", method: str = "GET") -> bytes:
    usual = (
        "Host: 127.0.0.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
        "Sec-WebSocket-Version: 13",
    )
    return "\r\n".join([f"{method} {path} HTTP/1.1", *usual, *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("request_", "status", "hint"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"426 ", b"subprotocol dots-json"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n\xff\xffsome data", b"426 ", b"skerry node"),
        (greeting(path="/elsewhere"), b"404 ", b"WebSockets: /\n"),
        (greeting(path="/elsewhere") + b"\xff" * 100, b"404 ", b"'/elsewhere'"),
        (greeting(method="PUT"), b"405 ", b""),
        (greeting().replace(b"Version: 13", b"Version: 8"), b"400 ", b""),
        (greeting().replace(b"MDEy", b"??"), b"400 ", b""),
        (greeting("Origin: http://evil.example"), b"403 ", b"node.websocket.origins"),
        (greeting(*["Origin: http://127.0.0.1"] * 2), b"403 ", b"one Origin"),
        (greeting("X: " + "x" * 9000), b"431 ", b""),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", b"414 ", b""),
    ],
)
def test_invalid_request_gets_a_reason(request_: bytes, status: bytes, hint: bytes) -> None:
    async def scene() -> None:
        async with harbour() as served:
            answer = await served.ask(request_)
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert hint in answer
            assert served.fake_node.origins == []

    asyncio.run(scene())


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"\x1a\x00\x00",
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nno header\r\n\r\n" + b"\xff" * 100,
        b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\ndata",
    ],
)
def test_input_that_is_not_http_gets_a_reason(data: bytes) -> None:
    async def scene() -> None:
        async with harbour() as served:
            answer = await served.ask(data)
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert answer.count(b"HTTP/1.1") == 1
            assert b"the WebSocket endpoint of a skerry node" in answer
            assert served.fake_node.origins == []

    asyncio.run(scene())


def test_path_may_have_a_query() -> None:
    async def scene() -> None:
        async with harbour() as served, served.dial("/?from=console") as peer:
            await enter(peer, "ann")

    asyncio.run(scene())


def test_page_of_the_same_host_may_connect() -> None:
    async def scene() -> None:
        async with harbour() as served, served.dial(origin="http://127.0.0.1:8080") as peer:
            await enter(peer, "page")

    asyncio.run(scene())


def test_page_of_another_host_may_connect_if_it_is_named() -> None:
    async def scene(*allowed: str) -> None:
        config = WebSocketConfig(origins=allowed)
        async with (
            harbour(config) as served,
            served.dial(origin="https://console.example") as peer,
        ):
            await enter(peer, "page")

    with pytest.raises(InvalidStatus) as caught:
        asyncio.run(scene("https://other.example"))
    assert caught.value.response.status_code == 403
    asyncio.run(scene("https://console.example"))
    asyncio.run(scene("*"))


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"origins": ("console.example",)}, "origins: 'console.example' is not an origin"),
        ({"handshake_s_max": 0}, "handshake_s_max"),
        ({"close_s_max": -1}, "close_s_max"),
    ],
)
def test_configuration_is_checked(values: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        WebSocketConfig(**values)


def test_messages_may_follow_the_greeting_at_once() -> None:
    async def scene() -> None:
        async with harbour() as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            text = SESSION[2]["text"].encode()
            writer.write(greeting() + Frame(Opcode.TEXT, text).serialize(mask=True))
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b'"accepted": true'), PATIENCE_S)
            writer.close()
            await writer.wait_closed()

    asyncio.run(scene())


def test_greeting_may_come_in_any_pieces() -> None:
    async def scene() -> None:
        async with harbour() as served:
            protocol = served.listener.protocol()
            assert isinstance(protocol, _ServerProtocol)
            left, right = await pipe(protocol)
            for byte in greeting():
                protocol.data_received(bytes([byte]))
            assert served.fake_node.streams
            assert (await left.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            right.close()
            await right.wait_closed()

    asyncio.run(scene())


async def until(condition: Callable[[], bool]) -> None:
    """Run the loop until a condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def pipe(protocol: _ServerProtocol) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Streams to a protocol whose input the test passes."""
    server = await asyncio.get_running_loop().create_server(lambda: protocol, "127.0.0.1", 0)
    streams = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    server.close()
    await until(lambda: protocol._stream is not None)
    return streams


def test_silent_connection_is_closed_and_does_not_delay_others() -> None:
    async def scene() -> None:
        async with harbour(WebSocketConfig(handshake_s_max=0.05)) as served:
            silent = asyncio.create_task(served.ask(b""))
            slow = asyncio.create_task(served.ask(b"GET / HTTP/1.1\r\n"))
            async with served.dial() as peer:
                await enter(peer, "ann")
                assert await silent == b""
                assert await slow == b""
                # Who is in is not cut.
                await say(peer, "DotsEcho", 2, request=True)
                await hear(peer, "DotsEcho")
            assert served.listener.pending_count == 0

    asyncio.run(scene())


def test_size_of_a_request_is_limited() -> None:
    def head(size: int) -> bytes:
        lines = [f"X-{number}: {'x' * 7000}" for number in range(9)]
        short = len(greeting(*lines, "Y: ")) - len(b"\r\n\r\n")
        return greeting(*lines, f"Y: {'y' * (size - short)}")

    async def scene() -> None:
        async with harbour() as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(head(WEBSOCKET_HEAD_BYTES_MAX))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            writer.close()
            await writer.wait_closed()
            answer = await served.ask(head(WEBSOCKET_HEAD_BYTES_MAX + 1))
            assert answer.startswith(b"HTTP/1.1 431 ")
            answer = await served.ask(b"x" * (WEBSOCKET_HEAD_BYTES_MAX + 1))
            assert answer.startswith(b"HTTP/1.1 431 ")

    asyncio.run(scene())


def test_oldest_pending_connection_is_closed_at_the_limit() -> None:
    async def scene() -> None:
        async with (
            harbour(pending_count_max=3) as served,
            contextlib.AsyncExitStack() as stack,
        ):
            waiting = []
            for _ in range(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
                stack.push_async_callback(hang_up, writer)
                writer.write(b"GET")
                waiting.append((reader, writer))
            for reader, _ in waiting[:2]:
                assert await ending(reader) == b""
            assert served.listener.pending_count == 3
            async with served.dial() as peer:
                await enter(peer, "ann")
                assert await ending(waiting[2][0]) == b""
                # Who is left may still ask, and who is in has no served among them.
                reader, writer = waiting[3]
                writer.write(greeting()[len(b"GET") :])
                await reader.readuntil(b"\r\n\r\n")
                assert served.listener.pending_count == 1

    asyncio.run(scene())


async def ending(reader: asyncio.StreamReader) -> bytes:
    """The bytes received until the stream is closed or aborted."""
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except ConnectionResetError:
        return b""


class Crowd(WebSocketListener):
    """Counts aborted connections, without streams."""

    cut_count = 0

    def protocol(self) -> _ServerProtocol:
        crowd = self

        class Silent(_ServerProtocol):
            def abort(self) -> None:
                crowd.cut_count += 1

        return Silent(self)


def test_pending_connections_are_limited_per_address_and_in_total() -> None:
    async def scene() -> None:
        fake_node = FakeNode()
        listener = Crowd(cast("NodeServer", fake_node), fake_node.core.registry)
        for _ in range(WEBSOCKET_WAITING_PER_HOST_COUNT_MAX):
            listener.add_pending(listener.protocol(), "192.0.2.1")
        assert listener.cut_count == 0
        listener.add_pending(listener.protocol(), "192.0.2.1")
        assert listener.cut_count == 1
        assert listener.pending_count == WEBSOCKET_WAITING_PER_HOST_COUNT_MAX
        while listener.pending_count < WEBSOCKET_WAITING_COUNT_MAX:
            listener.add_pending(listener.protocol(), f"198.51.100.{listener.pending_count % 200}")
        assert listener.cut_count == 1
        listener.add_pending(listener.protocol(), "203.0.113.1")
        assert listener.cut_count == 2
        assert listener.pending_count == WEBSOCKET_WAITING_COUNT_MAX
        assert len(listener._pending._hosts["192.0.2.1"]) < WEBSOCKET_WAITING_PER_HOST_COUNT_MAX

    asyncio.run(scene())


def test_pings_of_a_client_that_does_not_read_are_answered_by_the_last_one() -> None:
    async def scene() -> None:
        async with harbour() as served:
            protocol = served.listener.protocol()
            assert isinstance(protocol, _ServerProtocol)
            reader, writer = await pipe(protocol)
            protocol.data_received(greeting())
            protocol.pause_writing()
            before = protocol.get_write_buffer_size()
            ping = Frame(Opcode.PING, b"p" * 125).serialize(mask=True)
            for _ in range(200):
                protocol.data_received(ping * 100)
                await asyncio.sleep(0)
            await until(lambda: not protocol._slices.is_waiting)
            assert protocol.get_write_buffer_size() == before
            protocol.data_received(Frame(Opcode.PING, b"last").serialize(mask=True))
            await until(lambda: not protocol._slices.is_waiting)
            protocol.resume_writing()
            heard = await asyncio.wait_for(reader.readuntil(b"last"), PATIENCE_S)
            assert heard.endswith(b"\x8a\x04last")
            assert b"ppp" not in heard
            await hang_up(writer)
            await served.fake_node.until_reported("lost")

    asyncio.run(scene())


def test_error_of_a_client_that_does_not_read_is_reported() -> None:
    async def scene() -> None:
        async with harbour() as served:
            protocol = served.listener.protocol()
            assert isinstance(protocol, _ServerProtocol)
            reader, writer = await pipe(protocol)
            protocol.data_received(greeting())
            protocol.pause_writing()
            # A frame of a client has a mask.
            protocol.data_received(Frame(Opcode.PING, b"").serialize(mask=False))
            heard = await ending(reader)
            assert b"\x88" in heard
            assert b"incorrect masking" in heard
            await hang_up(writer)
            await served.fake_node.until_reported("lost")

    asyncio.run(scene())


def boats(count: int) -> bytes:
    """Frames of so many messages."""
    header = {"typeName": "Boat", "attributes": 6}
    texts = [json.dumps([header, {"id": n, "name": "x" * 40}]).encode() for n in range(count)]
    return b"".join(Frame(Opcode.TEXT, text).serialize(mask=True) for text in texts)


async def let_in(
    served: Harbour, protocol: _ServerProtocol
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client whose input the test passes to its protocol, and that has described boats."""
    async with served.dial() as peer:
        await enter(peer, "ann")
        await describe_boat(peer)
        await say(peer, "DotsEcho", 2, request=True)
        await hear(peer, "DotsEcho")
    reader, writer = await pipe(protocol)
    protocol.data_received(greeting())
    text = SESSION[2]["text"].encode()
    protocol.data_received(Frame(Opcode.TEXT, text).serialize(mask=True))
    await asyncio.wait_for(reader.readuntil(b'"accepted": true'), PATIENCE_S)
    return reader, writer


def boat_count(served: Harbour) -> int:
    return len(list(served.fake_node.core.cache.objects("Boat")))


def test_large_input_is_processed_in_slices() -> None:
    async def scene() -> None:
        async with harbour() as served:
            protocol = served.listener.protocol()
            assert isinstance(protocol, _ServerProtocol)
            _, writer = await let_in(served, protocol)
            data = boats(2000)
            assert len(data) > STREAM_CHUNK_BYTES_MAX
            protocol.data_received(data)
            assert 0 < boat_count(served) < 2000
            assert not protocol._transport.is_reading(), "the client has to wait"
            await until(lambda: boat_count(served) == 2000)
            await until(protocol._transport.is_reading)
            await hang_up(writer)
            await served.fake_node.until_reported("lost")

    asyncio.run(scene())


def test_input_before_the_end_is_processed() -> None:
    async def scene() -> None:
        async with harbour() as served:
            protocol = served.listener.protocol()
            assert isinstance(protocol, _ServerProtocol)
            _, writer = await let_in(served, protocol)
            reports = served.fake_node.reports.count("lost")
            protocol.data_received(boats(2000))
            assert boat_count(served) < 2000
            protocol.eof_received()
            protocol._transport.abort()
            await until(lambda: protocol._is_lost)
            assert served.fake_node.reports.count("lost") == reports
            await until(lambda: served.fake_node.reports.count("lost") == reports + 1)
            assert served.fake_node.core.statistics().accepted_count >= 2000
            await hang_up(writer)

    asyncio.run(scene())


def test_input_of_a_disconnected_client_is_dropped() -> None:
    async def scene() -> None:
        async with harbour() as served:
            protocol = served.listener.protocol()
            assert isinstance(protocol, _ServerProtocol)
            _, writer = await let_in(served, protocol)
            reports = served.fake_node.reports.count("lost")
            protocol.data_received(boats(2000))
            protocol.abort()
            await until(lambda: served.fake_node.reports.count("lost") == reports + 1)
            assert not protocol._slices.is_waiting
            assert boat_count(served) < 2000
            await hang_up(writer)

    asyncio.run(scene())


@pytest.mark.parametrize("is_gone", [False, True])
def test_exception_closes_the_connection_and_is_logged(
    is_gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        mistakes: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: mistakes.append(context.get("exception")))
        async with harbour() as served:
            protocol = served.listener.protocol()
            assert isinstance(protocol, _ServerProtocol)
            _, writer = await let_in(served, protocol)
            reports = served.fake_node.reports.count("lost")
            protocol.data_received(boats(2000))
            mistake = RuntimeError("a mistake")
            if is_gone:
                protocol._transport.abort()
                await until(lambda: protocol._is_lost)

            def fail(_address: Address, _data: bytes) -> None:
                raise mistake

            monkeypatch.setattr(served.fake_node, "received", fail)
            await until(lambda: served.fake_node.reports.count("lost") == reports + 1)
            assert mistakes == [mistake]
            await hang_up(writer)

    asyncio.run(scene())


def test_connection_that_the_node_does_not_admit_is_closed() -> None:
    async def scene() -> None:
        async with harbour() as served:
            served.fake_node.is_full = True
            assert await served.ask(greeting()) == b""
            assert served.listener.pending_count == 0

    asyncio.run(scene())


def test_closing_the_listener_closes_pending_connections() -> None:
    async def scene() -> None:
        async with harbour() as served, served.dial() as peer:
            waiting = asyncio.create_task(served.ask(b"GET"))
            await until(lambda: served.listener.pending_count == 1)
            served.listener.close()
            assert await waiting == b""
            await enter(peer, "ann")

    asyncio.run(scene())


@pytest.mark.parametrize("text", ["no JSON", "[]", '[{"typeName": "Nobody", "attributes": 0}, {}]'])
def test_client_that_sends_nonsense_is_disconnected_with_a_reason(text: str) -> None:
    async def scene() -> None:
        async with harbour() as served, served.dial() as fool, served.dial() as ann:
            await enter(fool, "fool")
            await enter(ann, "ann")
            await fool.send(text)
            _, error = await hear(fool, "DotsMsgError")
            assert error["errorCode"] == 1
            with pytest.raises(ConnectionClosed):
                await fool.recv()
            await say(ann, "DotsEcho", 2, request=True)
            await hear(ann, "DotsEcho")

    asyncio.run(scene())


def test_nonsense_before_the_handshake_ends_the_connection_without_a_message() -> None:
    async def scene() -> None:
        async with harbour() as served, served.dial() as fool:
            await hear(fool, "DotsMsgHello")
            await fool.send("no JSON")
            with pytest.raises(ConnectionClosed):
                await fool.recv()

    asyncio.run(scene())


@pytest.mark.parametrize("is_in", [True, False])
def test_message_that_is_too_large_ends_a_plain_connection(is_in: bool) -> None:
    async def scene() -> None:
        async with harbour() as served, served.dial() as peer:
            limits = ClientLimits(update_bytes_max=70_000)
            served.fake_node.core.renew_admission(AdmissionConfig(limits=limits), monotonic_ns())
            async with served.dial() as late:
                if is_in:
                    await enter(late, "ann")
                else:
                    await hear(late, "DotsMsgHello")
                await late.send("x" * (limits.frame_bytes_max + 1 if is_in else 65_537))
                if is_in:
                    _, error = await hear(late, "DotsMsgError")
                    assert "update_bytes_max" in error["errorText"]
                with pytest.raises(ConnectionClosed) as caught:
                    await late.recv()
                assert caught.value.rcvd is not None
                assert caught.value.rcvd.code == 1009
            await served.fake_node.until_reported("lost")
            await enter(peer, "bob")

    asyncio.run(scene())


def test_incomplete_message_is_reported() -> None:
    async def scene() -> None:
        async with harbour() as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(
                b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            await reader.readuntil(b"\r\n\r\n")
            writer.write(Frame(Opcode.TEXT, b"x" * 9000).serialize(mask=True)[:-1])
            await served.fake_node.until_reported("unfinished 8999")
            writer.close()
            await served.fake_node.until_reported("lost")

    asyncio.run(scene())


def test_node_is_notified_when_a_client_disconnects() -> None:
    async def scene() -> None:
        async with harbour() as served:
            async with served.dial() as peer:
                await enter(peer, "ann")
            await served.fake_node.until_reported("lost")
            assert not served.fake_node.streams

    asyncio.run(scene())


def test_node_is_notified_when_a_client_does_not_read() -> None:
    async def scene() -> None:
        async with harbour() as served, served.dial(max_queue=1) as peer:
            await enter(peer, "slow")
            (stream,) = served.fake_node.streams.values()
            text = b"x" * 100_000
            count = 0
            while "paused" not in served.fake_node.reports:
                stream.write(len(text).to_bytes(4, "big") + text)
                count += 1
            assert stream.get_write_buffer_size() > 256 * 1024
            for _ in range(count):
                assert len(await asyncio.wait_for(peer.recv(), PATIENCE_S)) == len(text)
            await served.fake_node.until_reported("resumed")

    asyncio.run(scene())


def test_wires_are_those_of_a_node() -> None:
    async def scene() -> None:
        async with harbour() as served:
            wire = served.listener.wire()
            assert isinstance(wire, JsonNodeWire)
            assert not wire.has_additions

    asyncio.run(scene())


@pytest.mark.slow
def test_client_connects_over_tls(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=harbour",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(cert, key)
    client_side = ssl.create_default_context(cafile=str(cert))

    async def scene() -> None:
        async with harbour(context=server_side) as served:
            address = f"wss://127.0.0.1:{served.port}/"
            async with connect(address, ssl=client_side, subprotocols=[SUBPROTOCOL]) as peer:
                await enter(peer, "ann")
                with pytest.raises(ConnectionClosed) as caught:
                    await peer.send(b"binary")
                    await peer.recv()
                assert caught.value.rcvd is not None
                assert caught.value.rcvd.code == 1003
            await served.fake_node.until_reported("lost")
            stream = await open_websocket("127.0.0.1", served.port, ssl=client_side)
            assert json.loads(await stream.read())[0]["typeName"] == "DotsMsgHello"
            stream.close()
            await asyncio.wait_for(stream.wait_closed(), PATIENCE_S)

    asyncio.run(scene())
