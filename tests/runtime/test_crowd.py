"""Many clients on one node: a thousand that are idle, a hundred that are busy, on real sockets."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator

import pytest

import skerry
from skerry.engine.node import NodeCore
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import Accepted, ClientConnection
from skerry.protocol.access.connection import ReceivedFrame
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import Wire
from skerry.runtime.loops import LoopKind, run_loop
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer
from skerry.runtime.streams.sockets import raise_descriptor_limit

TYPES = skerry.define_types("struct Reading { 1: [key] uint32 id; 2: uint32 count; }")
IDLE_COUNT = 1000
BUSY_COUNT = 100
READING_COUNT = 8
PATIENCE_S = 60.0


class Member(asyncio.Protocol):
    """A client that subscribes, publishes, and keeps what it receives."""

    def __init__(self, name: str) -> None:
        self.connection = ClientConnection(Wire(), name=name, cnonce="", wants_preload=False)
        self.is_in = asyncio.Event()
        self.is_settled = asyncio.Event()
        self.heard: dict[int, int] = {}
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        for item in self.connection.receive(data, 0.0):
            if isinstance(item, Accepted):
                self.is_in.set()
            elif isinstance(item, ReceivedFrame) and item.header.type_name == "Reading":
                reading = TYPES.Reading.decode(item.payload)
                assert reading.count == self.heard.get(reading.id, 0) + 1, "order per publisher"
                self.heard[reading.id] = reading.count
            elif isinstance(item, ReceivedFrame) and item.header.type_name == "DotsEcho":
                self.is_settled.set()
        self.flush()

    def flush(self) -> None:
        assert self.transport is not None
        self.transport.write(self.connection.take_output())

    def join(self) -> None:
        self.connection.join("Reading", 0.0)
        self.flush()

    def publish(self, id_: int, count: int) -> None:
        reading = TYPES.Reading(id=id_, count=count)
        header = Header("Reading")
        header.sent_time = 1.0
        header.attributes = int(reading.attributes)
        header.remove_obj = 0
        self.connection.send(header, reading.encode(), TYPES.Reading.descriptor, 0.0)
        self.flush()

    async def settle(self) -> None:
        self.is_settled.clear()
        self.connection.send_message(internal_class("DotsEcho")(request=True), 0.0)
        self.flush()
        await self.is_settled.wait()


@pytest.fixture
def descriptors() -> Iterator[None]:
    """As many as are to be had; both ends of all streams are in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if raise_descriptor_limit() < 2 * (IDLE_COUNT + BUSY_COUNT) + 100:
        pytest.skip("this computer does not allow so many open files")
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def come(port: int, name: str) -> Member:
    loop = asyncio.get_running_loop()
    _, member = await loop.create_connection(lambda: Member(name), "127.0.0.1", port)
    return member


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_hundred_are_busy_while_a_thousand_are_idle(loop: LoopKind, descriptors: None) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")

    async def scene() -> None:
        core = NodeCore()
        server = NodeServer(core)
        members: list[Member] = []
        try:
            place = await server.listen(parse_endpoint("tcp://127.0.0.1:0"))
            port = int(place.rpartition(":")[2])
            # All at once, as after a restart of the node.
            members += await asyncio.gather(
                *(come(port, f"idle {number}") for number in range(IDLE_COUNT))
            )
            busy = await asyncio.gather(
                *(come(port, f"busy {number}") for number in range(BUSY_COUNT))
            )
            members += busy
            for member in members:
                await member.is_in.wait()
            for member in busy:
                member.join()
            await asyncio.gather(*(member.settle() for member in busy))
            for count in range(1, READING_COUNT + 1):
                for number, member in enumerate(busy):
                    member.publish(number, count)
                await asyncio.gather(*(member.settle() for member in busy))
            # One more round trip, behind what the others published last.
            await asyncio.gather(*(member.settle() for member in busy))
            everything = dict.fromkeys(range(BUSY_COUNT), READING_COUNT)
            assert all(member.heard == everything for member in busy)
            statistics = core.statistics()
            assert statistics.client_count == IDLE_COUNT + BUSY_COUNT
            assert statistics.unexplained == 0
        finally:
            for member in members:
                if member.transport is not None:
                    member.transport.abort()
            await server.close()

    async def in_time() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scene()

    run_loop(in_time(), loop)
