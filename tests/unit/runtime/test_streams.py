"""Streams: a node on real sockets of this computer, and clients of all kinds."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

import skerry
from skerry.engine.node import NodeCore
from skerry.errors import ConnectFailed
from skerry.limits import STREAM_WAITING_BYTES_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import Accepted, ClientConnection, ClientInput
from skerry.protocol.access.connection import Arrival, Ended
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import OldWire, Wire
from skerry.runtime import streams
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.endpoints import parse_endpoint
from skerry.runtime.streams import NodeServer

TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; }
    struct Freight [cached=false] { 1: bytes data; }
    """
)
TCP = "tcp://127.0.0.1:0"
Item = TypeVar("Item", bound=ClientInput)

PATIENCE_S = 10.0
"""Far longer than anything here takes; a test that waits so long has failed."""


class Guest:
    """A client on a real stream."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, wire: Wire, name: str
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.connection = ClientConnection(wire, name=name, cnonce="", wants_preload=False)
        self._heard: list[ClientInput] = []

    @classmethod
    async def reach(cls, place: str, *, name: str = "guest") -> Guest:
        """A stream to a node, with nothing said yet."""
        endpoint = parse_endpoint(place)
        if endpoint.path:
            streams = await asyncio.open_unix_connection(endpoint.path)
        else:
            streams = await asyncio.open_connection(endpoint.host, endpoint.port)
        return cls(*streams, wire=OldWire() if endpoint.version == 1 else Wire(), name=name)

    @classmethod
    async def connect(cls, place: str, *, name: str = "guest") -> Guest:
        guest = await cls.reach(place, name=name)
        await guest.hear(Accepted)
        return guest

    def flush(self) -> None:
        self.writer.write(self.connection.take_output())

    async def hear(self, kind: type[Item]) -> Item:
        """The next thing of a kind; what comes before is passed over."""
        while True:
            while self._heard:
                item = self._heard.pop(0)
                if isinstance(item, kind):
                    return item
            data = await asyncio.wait_for(self.reader.read(65536), PATIENCE_S)
            assert data, f"the stream ended before {kind.__name__}"
            self._heard += self.connection.receive(data, 0.0)
            self.flush()

    async def hear_object(self, type_name: str) -> Arrival:
        while True:
            item = await self.hear(Arrival)
            if item.header.type_name == type_name:
                return item

    async def hear_client(self, client_id: int, *, state: str | None) -> None:
        """Until the node tells that a client is in a state; None for its removal."""
        while True:
            item = await self.hear_object("DotsClient")
            obj = internal_class("DotsClient").decode(item.payload)
            if obj.id != client_id:
                continue
            if item.header.remove_obj == 1:
                assert state is None
                return
            if state is not None and obj.connectionState.label == state:
                return

    async def hear_end(self) -> bytes:
        """What still comes until the stream ends."""
        return await asyncio.wait_for(self.reader.read(), PATIENCE_S)

    def join(self, group: str) -> None:
        self.connection.join(group, 0.0)
        self.flush()

    def publish(self, obj: skerry.Struct) -> None:
        header = Header(obj.descriptor.name)
        header.sent_time = 1.0
        header.attributes = int(obj.attributes)
        header.remove_obj = 0
        self.connection.send(header, obj.encode(), obj.descriptor, 0.0)
        self.flush()

    async def settle(self) -> None:
        """Until the node has done all that was sent so far."""
        self.connection.send_message(internal_class("DotsEcho")(request=True), 0.0)
        self.flush()
        await self.hear_object("DotsEcho")

    async def leave(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@asynccontextmanager
async def node() -> AsyncIterator[NodeServer]:
    server = NodeServer(NodeCore(name="harbour"))
    try:
        yield server
    finally:
        await asyncio.wait_for(server.close(), PATIENCE_S)


def clients_of(server: NodeServer) -> dict[str, str]:
    """Names of clients, and how far each has come."""
    cls = internal_class("DotsClient")
    known = [cls.decode(entry.payload) for _, entry in server.core.cache.objects("DotsClient")]
    return {obj.name: obj.connectionState.label for obj in known}


def place_in(folder: Path) -> str:
    return f"uds:{folder}/node.sock"


@pytest.mark.parametrize("scheme", ["tcp", "tcp-v2", "tcp-v1"])
def test_client_is_let_in_over_tcp(scheme: str) -> None:
    async def scene() -> None:
        async with node() as server:
            place = await server.listen(parse_endpoint(f"{scheme}://127.0.0.1:0"))
            assert place.startswith(f"{scheme}://127.0.0.1:")
            assert not place.endswith(":0")
            guest = await Guest.connect(place, name="ann")
            assert guest.connection.server_name == "harbour"
            assert clients_of(server) == {"ann": "connected"}
            await guest.leave()

    asyncio.run(scene())


@pytest.mark.parametrize("scheme", ["uds", "uds-v2", "uds-v1"])
def test_client_is_let_in_over_a_unix_socket(scheme: str, tmp_path: Path) -> None:
    async def scene() -> None:
        async with node() as server:
            text = f"{scheme}:{tmp_path}/node.sock"
            assert await server.listen(parse_endpoint(text)) == text
            guest = await Guest.connect(text, name="ann")
            assert clients_of(server) == {"ann": "connected"}
            await guest.leave()

    asyncio.run(scene())


def test_connections_over_tcp_are_watched_by_the_system() -> None:
    async def scene() -> None:
        async with node() as server:
            guest = await Guest.connect(await server.listen(parse_endpoint(TCP)))
            (stream,) = server._streams.values()
            raw = stream.get_extra_info("socket")
            assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            await guest.leave()

    asyncio.run(scene())


def test_what_one_client_publishes_another_receives_across_all_kinds_of_streams(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with node() as server:
            texts = [TCP, "tcp-v1://127.0.0.1:0", place_in(tmp_path)]
            guests = [
                await Guest.connect(await server.listen(parse_endpoint(text))) for text in texts
            ]
            for guest in guests:
                guest.join("Boat")
                await guest.settle()
            for number, publisher in enumerate(guests):
                boat = TYPES.Boat(id=number, name="Mary")
                publisher.publish(boat)
                for guest in guests:
                    item = await guest.hear_object("Boat")
                    assert TYPES.Boat.decode(item.payload) == boat
                    assert item.header.sender == publisher.connection.client_id
            for guest in guests:
                await guest.leave()

    asyncio.run(scene())


def test_client_that_comes_later_sees_what_is_there() -> None:
    async def scene() -> None:
        async with node() as server:
            place = await server.listen(parse_endpoint(TCP))
            first = await Guest.connect(place)
            first.publish(TYPES.Boat(id=1, name="Mary"))
            await first.settle()
            second = await Guest.connect(place)
            second.join("Boat")
            item = await second.hear_object("Boat")
            assert TYPES.Boat.decode(item.payload) == TYPES.Boat(id=1, name="Mary")
            assert item.header.from_cache == 0
            await first.leave()
            await second.leave()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("scheme", "garbage"),
    [
        ("tcp", b"\xff" * 64),
        ("tcp", b"GET / HTTP/1.1\r\n\r\n"),
        ("tcp", bytes(64)),
        # The old framing begins with a size, and waits until so much is there.
        ("tcp-v1", b"\x01\x01" + b"\xff" * 300),
        ("tcp-v1", bytes(64)),
    ],
)
def test_garbage_ends_only_the_connection_it_came_by(scheme: str, garbage: bytes) -> None:
    async def scene() -> None:
        async with node() as server:
            place = await server.listen(parse_endpoint(f"{scheme}://127.0.0.1:0"))
            good = await Guest.connect(place, name="good")
            good.join("DotsClient")
            stranger = await Guest.reach(place)
            stranger.writer.write(garbage)
            await stranger.hear_end()
            bad = await Guest.connect(place, name="bad")
            bad.writer.write(garbage)
            assert (await bad.hear(Ended)).code == 1
            assert await bad.hear_end() == b""
            await good.hear_client(bad.connection.client_id, state="closed")
            await good.settle()
            for guest in (good, stranger, bad):
                await guest.leave()

    asyncio.run(scene())


def test_silent_connection_keeps_nobody_waiting() -> None:
    async def scene() -> None:
        async with node() as server:
            place = await server.listen(parse_endpoint(TCP))
            silent = await Guest.reach(place)
            first, second = await Guest.connect(place), await Guest.connect(place)
            second.join("Boat")
            await second.settle()
            first.publish(TYPES.Boat(id=1))
            await second.hear_object("Boat")
            await silent.leave()
            await first.leave()
            await second.leave()

    asyncio.run(scene())


def test_client_that_never_reads_is_cut_when_too_much_waits_for_it(tmp_path: Path) -> None:
    piece = TYPES.Freight(data=bytes(1024 * 1024))
    count_below = STREAM_WAITING_BYTES_MAX // len(piece.encode())

    async def scene() -> None:
        async with node() as server:
            place = await server.listen(parse_endpoint(place_in(tmp_path)))
            slow = await Guest.connect(place, name="slow")
            slow.join("Freight")
            quick = await Guest.connect(place, name="quick")
            quick.join("Freight")
            quick.join("DotsClient")
            for _ in range(count_below):
                quick.publish(piece)
                await quick.hear_object("Freight")
            await quick.settle()
            assert clients_of(server) == {"slow": "connected", "quick": "connected"}
            # The sockets themselves take some, less than one piece.
            for _ in range(3):
                quick.publish(piece)
            await quick.hear_client(slow.connection.client_id, state="closed")
            await quick.settle()
            assert clients_of(server)["quick"] == "connected"
            await slow.leave()
            await quick.leave()

    asyncio.run(scene())


def test_socket_that_a_node_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "node.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    async def scene() -> None:
        async with node() as server:
            guest = await Guest.connect(await server.listen(parse_endpoint(place_in(tmp_path))))
            await guest.leave()

    asyncio.run(scene())


def test_socket_of_a_living_node_is_refused_and_stays(tmp_path: Path) -> None:
    async def scene() -> None:
        place = parse_endpoint(place_in(tmp_path))
        async with node() as living:
            await living.listen(place)
            async with node() as second:
                with pytest.raises(ConnectFailed, match=r"node.sock: another node listens there"):
                    await second.listen(place)
            guest = await Guest.connect(place.text)
            await guest.leave()

    asyncio.run(scene())


def test_file_that_is_no_socket_is_refused_and_stays(tmp_path: Path) -> None:
    (tmp_path / "node.sock").write_text("precious")

    async def scene() -> None:
        async with node() as server:
            with pytest.raises(ConnectFailed, match="in use"):
                await server.listen(parse_endpoint(place_in(tmp_path)))

    asyncio.run(scene())
    assert (tmp_path / "node.sock").read_text() == "precious"


def test_port_that_is_taken_is_refused() -> None:
    async def scene() -> None:
        async with node() as first, node() as second:
            place = await first.listen(parse_endpoint(TCP))
            with pytest.raises(ConnectFailed, match=r"cannot listen at tcp://127.0.0.1:.* in use"):
                await second.listen(parse_endpoint(place))

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"uds:/{'long' * 50}", "AF_UNIX path too long"),
        ("uds:/not/there/node.sock", "No such file or directory"),
        (f"tcp://{'long' * 100}:0", "label"),
    ],
)
def test_place_that_cannot_be_is_refused_in_words(text: str, words: str) -> None:
    async def scene() -> None:
        async with node() as server:
            with pytest.raises(ConnectFailed, match=words):
                await server.listen(parse_endpoint(text))

    asyncio.run(scene())


def test_close_ends_all_connections_and_removes_the_socket(tmp_path: Path) -> None:
    async def scene() -> None:
        server = NodeServer(NodeCore())
        places = [await server.listen(parse_endpoint(text)) for text in (TCP, place_in(tmp_path))]
        guests = [await Guest.connect(place) for place in places]
        await asyncio.wait_for(server.close(), PATIENCE_S)
        for guest in guests:
            await guest.hear_end()
            await guest.leave()
        assert server._timer is None or server._timer.cancelled()
        for place in places:
            with pytest.raises(OSError, match=r"refused|No such file|Connect call failed"):
                await Guest.reach(place)

    asyncio.run(scene())
    assert list(tmp_path.iterdir()) == []


def test_close_does_not_wait_for_a_client_that_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_LAST_WORDS_S", 0.01)

    async def scene() -> None:
        server = NodeServer(NodeCore())
        place = await server.listen(parse_endpoint(place_in(tmp_path)))
        slow, quick = await Guest.connect(place), await Guest.connect(place)
        slow.join("Freight")
        await slow.settle()
        quick.publish(TYPES.Freight(data=bytes(4 * 1024 * 1024)))
        await quick.settle()
        # This one the node ends by itself, and its stream has still to bring out the freight.
        slow.writer.write(b"\xff" * 64)
        quick.join("DotsClient")
        await quick.hear_client(slow.connection.client_id, state="closed")
        assert server._open
        await asyncio.wait_for(server.close(), PATIENCE_S)
        assert not server._open
        await slow.leave()
        await quick.leave()

    asyncio.run(scene())


def test_clients_that_are_gone_are_forgotten_when_it_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed_ns = 0
    monkeypatch.setattr(streams, "monotonic_ns", lambda: monotonic_ns() + passed_ns)

    async def scene() -> None:
        nonlocal passed_ns
        async with node() as server:
            place = await server.listen(parse_endpoint(TCP))
            watcher, other = await Guest.connect(place), await Guest.connect(place)
            watcher.join("DotsClient")
            await watcher.settle()
            assert server.core.deadline_ns() is None
            await other.leave()
            await watcher.hear_client(other.connection.client_id, state="closed")
            due_ns = server.core.deadline_ns()
            assert due_ns is not None
            passed_ns = due_ns - monotonic_ns()
            # Anything that happens lets the node look at the clock again.
            watcher.join("Boat")
            await watcher.hear_client(other.connection.client_id, state=None)
            assert server.core.deadline_ns() is None
            await watcher.leave()

    asyncio.run(scene())
