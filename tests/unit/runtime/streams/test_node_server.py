"""Streams: a node on real sockets of this computer, and clients of all kinds."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
import trustme
from websockets.frames import Frame as WebSocketFrame
from websockets.frames import Opcode

import skerry
from skerry import aio
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.authentication import AuthenticationRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.node import NodeCore
from skerry.errors import ConfigError, ConnectFailed
from skerry.limits import REPLAY_SLICE_BYTES, STREAM_CHUNK_BYTES_MAX, STREAM_WAITING_BYTES_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import Accepted, ClientConnection, ClientInput, Rejected
from skerry.protocol.access.connection import ConnectionEnded, ReceivedFrame
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, Transmit
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.loops import LoopKind, run_loop
from skerry.runtime.streams import node_server as streams
from skerry.runtime.streams import orderly_close
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import LOOP_TURN_NS_MAX, NodeServer
from skerry.runtime.streams.tls import TlsFiles, client_context
from skerry.runtime.streams.websocket_client import open_websocket

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
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        wire: Wire,
        name: str,
        secret: str | None = None,
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.connection = ClientConnection(
            wire, name=name, cnonce="", secret=secret, wants_preload=False
        )
        self._heard: list[ClientInput] = []

    @classmethod
    async def reach(
        cls,
        url: str,
        *,
        name: str = "guest",
        tls: ssl.SSLContext | None = None,
        secret: str | None = None,
    ) -> Guest:
        """A stream to a node, with nothing said yet."""
        endpoint = parse_endpoint(url)
        if endpoint.path:
            streams = await asyncio.open_unix_connection(endpoint.path)
        elif tls is not None:
            streams = await asyncio.open_connection(
                endpoint.host, endpoint.port, ssl=tls, server_hostname="localhost"
            )
        else:
            streams = await asyncio.open_connection(endpoint.host, endpoint.port)
        wire = OldWire() if endpoint.version == 1 else Wire()
        return cls(*streams, wire=wire, name=name, secret=secret)

    @classmethod
    async def connect(
        cls, url: str, *, name: str = "guest", tls: ssl.SSLContext | None = None
    ) -> Guest:
        guest = await cls.reach(url, name=name, tls=tls)
        await guest.hear(Accepted)
        return guest

    def flush(self) -> None:
        self.writer.write(self.connection.take_output())

    async def hear(self, kind: type[Item]) -> Item:
        """The next event of a kind; earlier ones are skipped."""
        while True:
            while self._heard:
                item = self._heard.pop(0)
                if isinstance(item, kind):
                    return item
            data = await asyncio.wait_for(self.reader.read(65536), PATIENCE_S)
            assert data, f"the stream ended before {kind.__name__}"
            self._heard += self.connection.receive(data, 0.0)
            self.flush()

    async def hear_object(self, type_name: str) -> ReceivedFrame:
        while True:
            item = await self.hear(ReceivedFrame)
            if item.header.type_name == type_name:
                return item

    async def hear_client(self, client_id: int, *, state: str | None) -> None:
        """Wait until the node reports a state of a client; None for its removal."""
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
        """The bytes received until the stream ends."""
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
async def node(
    core: NodeCore | None = None, *, kind: type[NodeServer] = NodeServer, **options: Any
) -> AsyncIterator[NodeServer]:
    server = kind(core or NodeCore(name="harbour"), **options)
    try:
        yield server
    finally:
        await asyncio.wait_for(server.close(), PATIENCE_S)


def core_that_waits_for_nobody(**limits: Any) -> NodeCore:
    """A node without backpressure."""
    config = AdmissionConfig(limits=ClientLimits(backpressure_s_max=0, **limits))
    return NodeCore(name="harbour", admission=Admission(config, rng=Random(1)))


def clients_of(server: NodeServer) -> dict[str, str]:
    """Names of clients, and how far each has come."""
    cls = internal_class("DotsClient")
    known = [cls.decode(entry.payload) for _, entry in server.core.cache.objects("DotsClient")]
    return {obj.name: obj.connectionState.label for obj in known}


def url_in(folder: Path) -> str:
    return f"uds:{folder}/node.sock"


@pytest.mark.parametrize("scheme", ["tcp", "tcp-v2", "tcp-v1"])
def test_client_connects_over_tcp(scheme: str) -> None:
    async def scene() -> None:
        async with node() as server:
            url = await server.listen(parse_endpoint(f"{scheme}://127.0.0.1:0"))
            assert url.startswith(f"{scheme}://127.0.0.1:")
            assert not url.endswith(":0")
            guest = await Guest.connect(url, name="ann")
            assert guest.connection.server_name == "harbour"
            assert clients_of(server) == {"ann": "connected"}
            await guest.leave()

    asyncio.run(scene())


@pytest.mark.parametrize("scheme", ["uds", "uds-v2", "uds-v1"])
def test_client_connects_over_a_unix_socket(scheme: str, tmp_path: Path) -> None:
    async def scene() -> None:
        async with node() as server:
            text = f"{scheme}:{tmp_path}/node.sock"
            assert await server.listen(parse_endpoint(text)) == text
            guest = await Guest.connect(text, name="ann")
            assert clients_of(server) == {"ann": "connected"}
            await guest.leave()

    asyncio.run(scene())


def test_tcp_connections_have_keep_alive() -> None:
    async def scene() -> None:
        async with node() as server:
            guest = await Guest.connect(await server.listen(parse_endpoint(TCP)))
            streams_of: Any = server._streams
            (stream,) = streams_of.values()
            raw = stream.get_extra_info("socket")
            assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            await guest.leave()

    asyncio.run(scene())


def test_what_one_client_publishes_another_receives_across_all_kinds_of_streams(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with node() as server:
            texts = [TCP, "tcp-v1://127.0.0.1:0", url_in(tmp_path)]
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


def test_client_that_connects_later_gets_the_cached_objects() -> None:
    async def scene() -> None:
        async with node() as server:
            url = await server.listen(parse_endpoint(TCP))
            first = await Guest.connect(url)
            first.publish(TYPES.Boat(id=1, name="Mary"))
            await first.settle()
            second = await Guest.connect(url)
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
def test_garbage_closes_only_its_own_connection(scheme: str, garbage: bytes) -> None:
    async def scene() -> None:
        async with node() as server:
            url = await server.listen(parse_endpoint(f"{scheme}://127.0.0.1:0"))
            good = await Guest.connect(url, name="good")
            good.join("DotsClient")
            stranger = await Guest.reach(url)
            stranger.writer.write(garbage)
            await stranger.hear_end()
            bad = await Guest.connect(url, name="bad")
            bad.writer.write(garbage)
            assert (await bad.hear(ConnectionEnded)).code == 1
            assert await bad.hear_end() == b""
            await good.hear_client(bad.connection.client_id, state="closed")
            await good.settle()
            for guest in (good, stranger, bad):
                await guest.leave()

    asyncio.run(scene())


def test_silent_connection_does_not_delay_others() -> None:
    async def scene() -> None:
        async with node() as server:
            url = await server.listen(parse_endpoint(TCP))
            silent = await Guest.reach(url)
            first, second = await Guest.connect(url), await Guest.connect(url)
            second.join("Boat")
            await second.settle()
            first.publish(TYPES.Boat(id=1))
            await second.hear_object("Boat")
            await silent.leave()
            await first.leave()
            await second.leave()

    asyncio.run(scene())


def test_client_that_never_reads_is_disconnected_when_its_queue_is_full(tmp_path: Path) -> None:
    piece = TYPES.Freight(data=bytes(1024 * 1024))
    count_below = STREAM_WAITING_BYTES_MAX // len(piece.encode())

    async def scene() -> None:
        async with node(core_that_waits_for_nobody()) as server:
            url = await server.listen(parse_endpoint(url_in(tmp_path)))
            slow = await Guest.connect(url, name="slow")
            slow.join("Freight")
            quick = await Guest.connect(url, name="quick")
            quick.join("Freight")
            quick.join("DotsClient")
            for _ in range(count_below):
                quick.publish(piece)
                await quick.hear_object("Freight")
            await quick.settle()
            assert clients_of(server) == {"slow": "connected", "quick": "connected"}
            # The sockets and the transport take some, less than three pieces.
            for _ in range(5):
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
            guest = await Guest.connect(await server.listen(parse_endpoint(url_in(tmp_path))))
            await guest.leave()

    asyncio.run(scene())


def test_socket_of_a_running_node_is_not_replaced(tmp_path: Path) -> None:
    async def scene() -> None:
        url = parse_endpoint(url_in(tmp_path))
        async with node() as living:
            await living.listen(url)
            async with node() as second:
                with pytest.raises(ConnectFailed, match=r"node.sock: another node listens there"):
                    await second.listen(url)
            guest = await Guest.connect(url.text)
            await guest.leave()

    asyncio.run(scene())


def test_file_that_is_not_a_socket_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "node.sock").write_text("precious")

    async def scene() -> None:
        async with node() as server:
            with pytest.raises(ConnectFailed, match="in use"):
                await server.listen(parse_endpoint(url_in(tmp_path)))

    asyncio.run(scene())
    assert (tmp_path / "node.sock").read_text() == "precious"


def test_port_in_use_is_rejected() -> None:
    async def scene() -> None:
        async with node() as first, node() as second:
            url = await first.listen(parse_endpoint(TCP))
            with pytest.raises(ConnectFailed, match=r"cannot listen at tcp://127.0.0.1:.* in use"):
                await second.listen(parse_endpoint(url))

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"uds:/{'long' * 50}", "AF_UNIX path too long"),
        ("uds:/not/there/node.sock", "No such file or directory"),
        ("tcp://192.0.2.1:0", "Cannot assign requested address"),
    ],
)
def test_impossible_endpoint_is_rejected_with_a_reason(text: str, words: str) -> None:
    async def scene() -> None:
        async with node() as server:
            with pytest.raises(ConnectFailed, match=words):
                await server.listen(parse_endpoint(text))

    asyncio.run(scene())


def test_close_ends_all_connections_and_removes_the_socket(tmp_path: Path) -> None:
    async def scene() -> None:
        server = NodeServer(NodeCore())
        places = [await server.listen(parse_endpoint(text)) for text in (TCP, url_in(tmp_path))]
        guests = [await Guest.connect(url) for url in places]
        closing = asyncio.create_task(server.close())
        for guest in guests:
            await guest.hear_end()
            await guest.leave()
        await asyncio.wait_for(closing, PATIENCE_S)
        assert server._timer is None or server._timer.cancelled()
        for url in places:
            with pytest.raises(OSError, match=r"refused|No such file|Connect call failed"):
                await Guest.reach(url)

    asyncio.run(scene())
    assert list(tmp_path.iterdir()) == []


def test_close_does_not_wait_for_a_client_that_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_CLOSE_S_MAX", 0.01)

    async def scene() -> None:
        server = NodeServer(NodeCore())
        url = await server.listen(parse_endpoint(url_in(tmp_path)))
        slow, quick = await Guest.connect(url), await Guest.connect(url)
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


def test_node_is_woken_when_something_is_due() -> None:
    limits = ClientLimits(handshake_s=0.01)
    admission = Admission(AdmissionConfig(limits=limits), rng=Random(1))

    async def scene() -> None:
        async with node(NodeCore(admission=admission)) as server:
            silent = await Guest.reach(await server.listen(parse_endpoint(TCP)))
            # No client sends anything. Only the clock ends it.
            assert await silent.hear_end()
            assert server.core.statistics().ends == {"silent": 1}
            await silent.leave()

    asyncio.run(scene())


def test_timer_is_kept_while_it_fires_early_enough() -> None:
    async def scene() -> None:
        async with node() as server:
            guest = await Guest.connect(await server.listen(parse_endpoint(TCP)))
            alarm = server._timer
            assert alarm is not None
            for _ in range(10):
                await guest.settle()
            assert server._timer is alarm
            await guest.leave()

    asyncio.run(scene())


# -- the same on both loops


LOOPS: list[LoopKind] = ["asyncio", "uvloop"]


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> LoopKind:
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    kind: LoopKind = request.param
    return kind


class Papers:
    """An authority, and files with certificates that it issued."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        self.own = self.issue("localhost", "node")

    def issue(self, name: str, common_name: str) -> Path:
        path = self.folder / f"{common_name}.pem"
        issued = self.authority.issue_cert(name, common_name=common_name)
        issued.private_key_and_cert_chain_pem.write_to_path(path)
        return path

    def client(self, cert: Path | None = None) -> ssl.SSLContext:
        return client_context(TlsFiles(ca=self.ca, cert=cert))


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path)


def test_tls_carries_the_same_as_tcp(loop: LoopKind, papers: Papers) -> None:
    async def scene() -> None:
        async with node(tls=TlsFiles(cert=papers.own)) as server:
            plain = await Guest.connect(await server.listen(parse_endpoint(TCP)))
            url = await server.listen(parse_endpoint("tls://127.0.0.1:0"))
            assert url.startswith("tls://127.0.0.1:")
            secret = await Guest.connect(url, name="ann", tls=papers.client())
            secret.join("Freight")
            await secret.settle()
            freight = TYPES.Freight(data=bytes(3_000_000))
            plain.publish(freight)
            assert TYPES.Freight.decode((await secret.hear_object("Freight")).payload) == freight
            (row,) = [row for row in server.core.statistics().clients if row.name == "ann"]
            assert (row.kind, row.host) == ("tls", "127.0.0.1")
            await secret.leave()
            await plain.leave()

    run_loop(scene(), loop)


def test_mutual_tls_identifies_clients_and_rejects_those_without_a_certificate(
    loop: LoopKind, papers: Papers
) -> None:
    ann = papers.issue("ann@example.org", "ann")
    place_text = f"tls://127.0.0.1:0?cert={papers.own}&ca={papers.ca}"

    async def scene() -> None:
        async with node() as server:
            url = await server.listen(parse_endpoint(place_text))
            known = await Guest.connect(url, tls=papers.client(ann))
            (client,) = server.core._table.by_address.values()
            assert (client.origin.kind, client.origin.certificate) == ("tls", "ann")
            with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
                # By TLS 1.3 a client believes that it is in until it hears otherwise.
                await Guest.connect(url, tls=papers.client())
            with pytest.raises(ConnectFailed, match="requires a certificate, and none was given"):
                await aio.connect(url.replace("127.0.0.1", "localhost"), ca=papers.ca)
            assert len(server.core._table.by_address) == 1
            await known.settle()
            await known.leave()

    run_loop(scene(), loop)


def test_certificates_are_reloaded_while_clients_stay_connected(papers: Papers) -> None:
    async def scene() -> None:
        async with node(tls=TlsFiles(cert=papers.own)) as server:
            url = await server.listen(parse_endpoint("tls://127.0.0.1:0"))
            before = await Guest.connect(url, tls=papers.client())
            papers.issue("localhost", "node")
            server.listeners.reload_certificates()
            after = await Guest.connect(url, tls=papers.client())
            certificates = [
                guest.writer.get_extra_info("peercert")["serialNumber"] for guest in (before, after)
            ]
            assert certificates[0] != certificates[1]
            await before.settle()
            await before.leave()
            await after.leave()

    asyncio.run(scene())


def test_tls_without_a_certificate_is_rejected() -> None:
    async def scene() -> None:
        async with node() as server:
            with pytest.raises(ConfigError, match="TLS requires a certificate"):
                await server.listen(parse_endpoint("tls://127.0.0.1:0"))

    asyncio.run(scene())


def test_silent_connections_at_every_endpoint_do_not_delay_others(
    loop: LoopKind, papers: Papers, tmp_path: Path
) -> None:
    texts = (
        TCP,
        "tcp-v1://127.0.0.1:0",
        url_in(tmp_path),
        "tls://127.0.0.1:0",
        "ws://127.0.0.1:0",
    )

    async def scene() -> None:
        async with node(tls=TlsFiles(cert=papers.own)) as server:
            places = [await server.listen(parse_endpoint(text)) for text in texts]
            silent = [await Guest.reach(url) for url in places for _ in range(3)]
            for url in places[:4]:
                tls = papers.client() if url.startswith("tls") else None
                first = await Guest.connect(url, tls=tls)
                second = await Guest.connect(url, tls=tls)
                second.join("Boat")
                await second.settle()
                first.publish(TYPES.Boat(id=1))
                await second.hear_object("Boat")
                await first.leave()
                await second.leave()
            for guest in silent:
                guest.writer.transport.abort()

    run_loop(scene(), loop)


def is_paused(client: Any) -> bool:
    return bool(client.queue.is_paused)


def test_slow_reader_is_paused_and_gets_all_when_it_reads_again(
    loop: LoopKind, tmp_path: Path
) -> None:
    piece = TYPES.Freight(data=bytes(256 * 1024))

    async def scene() -> None:
        async with node(core_that_waits_for_nobody()) as server:
            url = await server.listen(parse_endpoint(url_in(tmp_path)))
            slow, quick = await Guest.connect(url, name="slow"), await Guest.connect(url)
            slow.join("Freight")
            await slow.settle()
            # asyncio would read ahead on behalf of the slow one.
            reading: Any = slow.writer.transport
            reading.pause_reading()
            for _ in range(20):
                quick.publish(piece)
            await quick.settle()
            (client,) = [c for c in server.core._table.by_address.values() if c.name == "slow"]
            assert is_paused(client)
            assert client.queue.size > 2 * 1024 * 1024
            reading.resume_reading()
            for _ in range(20):
                await slow.hear_object("Freight")
            assert not is_paused(client)
            assert server.core.statistics().unexplained == 0
            await slow.leave()
            await quick.leave()

    run_loop(scene(), loop)


def test_publisher_is_not_read_from_while_its_subscriber_catches_up(loop: LoopKind) -> None:
    limits = ClientLimits(backpressure_s_max=PATIENCE_S)
    piece = TYPES.Freight(data=bytes(256 * 1024))

    async def scene() -> None:
        core = NodeCore(admission=Admission(AdmissionConfig(limits=limits), rng=Random(1)))
        async with node(core) as server:
            url = await server.listen(parse_endpoint(TCP))
            slow, quick = await Guest.connect(url, name="slow"), await Guest.connect(url)
            slow.join("Freight")
            await slow.settle()
            reading: Any = slow.writer.transport
            reading.pause_reading()
            count = 80
            for _ in range(count):
                quick.publish(piece)
            other = await Guest.connect(url, name="other")
            async with asyncio.timeout(PATIENCE_S):
                while not core.statistics().backpressure_count:
                    await other.settle()
            (held,) = [address for address in server._streams if core.is_held(address)]
            received = core.statistics().received_bytes
            echo = asyncio.create_task(quick.settle())
            await other.settle()
            assert core.statistics().received_bytes - received < 2 * STREAM_CHUNK_BYTES_MAX
            assert not echo.done()
            reading.resume_reading()
            for _ in range(count):
                await slow.hear_object("Freight")
            await echo
            assert not core.is_held(held)
            assert core.statistics().ends == {}
            for guest in (slow, quick, other):
                await guest.leave()

    run_loop(scene(), loop)


def test_slow_reader_that_is_disconnected_does_not_delay_others(loop: LoopKind) -> None:
    piece = TYPES.Freight(data=bytes(512 * 1024))

    async def scene() -> None:
        core = core_that_waits_for_nobody(waiting_bytes_max=1024 * 1024)
        async with node(core) as server:
            url = await server.listen(parse_endpoint(TCP))
            slow, quick = await Guest.connect(url, name="slow"), await Guest.connect(url)
            slow.join("Freight")
            await slow.settle()
            reading: Any = slow.writer.transport
            reading.pause_reading()
            quick.join("Freight")
            async with asyncio.timeout(PATIENCE_S):
                while "slow" in {row.name for row in core.statistics().clients}:
                    quick.publish(piece)
                    await quick.hear_object("Freight")
            assert core.statistics().ends == {"slow": 1}
            await quick.settle()
            reading.resume_reading()
            with suppress(ConnectionResetError):
                await slow.hear_end()
            await quick.leave()
            slow.writer.transport.abort()

    run_loop(scene(), loop)


def test_cache_replay_continues_in_slices_between_other_input(loop: LoopKind) -> None:
    count = 8 * REPLAY_SLICE_BYTES // 100_000

    async def scene() -> None:
        async with node() as server:
            url = await server.listen(parse_endpoint(TCP))
            first, late = await Guest.connect(url), await Guest.connect(url)
            for number in range(count):
                first.publish(TYPES.Boat(id=number, name="x" * 100_000))
            await first.settle()
            late.join("Boat")
            heard = [(await late.hear_object("Boat")).header.from_cache]
            await first.settle()
            heard += [(await late.hear_object("Boat")).header.from_cache for _ in range(count - 1)]
            assert heard == list(reversed(range(count)))
            await first.leave()
            await late.leave()

    run_loop(scene(), loop)


def test_output_for_simultaneous_input_of_several_clients_is_written_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[int] = []

    class Core(NodeCore):
        """The content does not matter here."""

        is_deaf = False

        def receive(self, data: bytes, source: Address, now_ns: int) -> None:
            if not self.is_deaf:
                super().receive(data, source, now_ns)

        def take_transmits(self) -> list[Transmit]:
            if not self.is_deaf:
                return super().take_transmits()
            sent.append(1)
            return []

    core = Core()

    async def scene() -> None:
        async with node(core) as server:
            guest = await Guest.connect(await server.listen(parse_endpoint(TCP)))
            await guest.settle()
            (address,) = server._streams
            carried: list[int] = []
            monkeypatch.setattr(server, "_after_input", lambda: carried.append(1))
            core.is_deaf = True
            for _ in range(5):
                server.received(address, b"x" * 100)
            # The first was answered at once; the others wait for the end of this turn.
            assert sent == [1]
            server.received(address, b"x" * streams._BATCH_BYTES_MAX)
            assert sent == [1, 1]
            server.received(address, b"x")
            assert carried == [], "clients come first"
            await asyncio.sleep(0)
            assert (sent, carried) == ([1, 1, 1], [1])
            await asyncio.sleep(0)
            assert (sent, carried) == ([1, 1, 1], [1])
            guest.writer.transport.abort()

    asyncio.run(scene())


def test_size_of_one_read_is_limited() -> None:
    heard: list[int] = []

    class Listening(NodeServer):
        def received(self, address: Address, data: bytes) -> bool:
            heard.append(len(data))
            return super().received(address, data)

    async def scene() -> None:
        async with node(kind=Listening) as server:
            guest = await Guest.connect(await server.listen(parse_endpoint(TCP)))
            guest.publish(TYPES.Freight(data=bytes(4 * STREAM_CHUNK_BYTES_MAX)))
            await guest.settle()
            await guest.leave()

    asyncio.run(scene())
    assert max(heard) <= STREAM_CHUNK_BYTES_MAX
    assert sum(heard) > 4 * STREAM_CHUNK_BYTES_MAX


FLOOD_COUNT = 4000
FLOOD_TEXT = "x" * 900


class Flood:
    """A client that sends faster than the node can process, at any endpoint."""

    def __init__(self, transport: Any, data: bytes, end: Callable[[], Awaitable[None]]) -> None:
        self._transport = transport
        self._left = memoryview(data)
        self._end = end

    @classmethod
    async def connect(cls, url: str, tls: ssl.SSLContext | None) -> Flood:
        if url.startswith("ws"):
            return await cls._by_websocket(url, tls)
        guest = await Guest.connect(url, tls=tls)
        boat = TYPES.Boat(id=1, name=FLOOD_TEXT)
        header = Header("Boat")
        header.sent_time = 1.0
        header.attributes = int(boat.attributes)
        header.remove_obj = 0
        for _ in range(FLOOD_COUNT):
            guest.connection.send(header, boat.encode(), boat.descriptor, 0.0)

        async def end() -> None:
            await guest.settle()
            await guest.leave()

        return cls(guest.writer.transport, guest.connection.take_output(), end)

    @classmethod
    async def _by_websocket(cls, url: str, tls: ssl.SSLContext | None) -> Flood:
        stream = await open_websocket("localhost", parse_endpoint(url).port, ssl=tls)

        def say(type_name: str, attributes: int, **plain: object) -> bytes:
            text = json.dumps([{"typeName": type_name, "attributes": attributes}, plain])
            return WebSocketFrame(Opcode.TEXT, text.encode()).serialize(mask=True)

        async def hear(type_name: str) -> None:
            while json.loads(await stream.read())[0]["typeName"] != type_name:
                pass

        async def end() -> None:
            stream._transport.write(say("DotsEcho", 2, request=True))
            await hear("DotsEcho")
            stream.close()
            await stream.wait_closed()

        stream._transport.write(say("DotsMsgConnect", 6, clientName="flood", preloadCache=False))
        await hear("DotsMsgConnectResponse")
        return cls(stream._transport, say("Boat", 6, id=1, name=FLOOD_TEXT) * FLOOD_COUNT, end)

    def push(self) -> None:
        """Send as much as the system takes; inside TLS all of it, as much as it can be."""
        if self._transport.get_extra_info("ssl_object") is not None:
            self._transport.write(bytes(self._left))
            self._left = memoryview(b"")
        file = self._transport.get_extra_info("socket").fileno()
        with suppress(BlockingIOError):
            while self._left:
                self._left = self._left[os.write(file, self._left) :]

    async def end(self) -> None:
        """Wait until the node has processed everything that was sent."""
        while self._left:
            self.push()
            await asyncio.sleep(0)
        await self._end()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["tcp", "uds", "tls", "ws", "wss"])
def test_flood_at_any_endpoint_does_not_delay_other_clients(
    scheme: str, loop: LoopKind, papers: Papers, tmp_path: Path
) -> None:
    text = url_in(tmp_path) if scheme == "uds" else f"{scheme}://127.0.0.1:0"
    heard: list[tuple[Address, int]] = []
    meanwhile: list[Callable[[], object]] = []

    class Listening(NodeServer):
        def received(self, address: Address, data: bytes) -> bool:
            heard.append((address, len(data)))
            is_held = super().received(address, data)
            for act in tuple(meanwhile):
                act()
            return is_held

    async def scene() -> None:
        async with node(kind=Listening, tls=TlsFiles(cert=papers.own)) as server:
            honest = await Guest.connect(await server.listen(parse_endpoint(TCP)))
            honest.publish(TYPES.Boat(id=2))
            await honest.settle()
            (address,) = server._streams
            url = await server.listen(parse_endpoint(text))
            tls = papers.client() if scheme in ("tls", "wss") else None
            flood = await Flood.connect(url, tls)

            def speak() -> None:
                # Past the transport, which might wait with it.
                os.write(honest.writer.get_extra_info("socket").fileno(), echo)
                meanwhile.remove(speak)

            honest.connection.send_message(internal_class("DotsEcho")(request=True), 0.0)
            echo = honest.connection.take_output()
            heard.clear()
            meanwhile.extend([flood.push, speak])
            flood.push()
            await honest.hear_object("DotsEcho")
            before = heard[: [who for who, _ in heard].index(address)]
            # It spoke in the first turn, and is heard in the second. In each, uvloop reads twice.
            share = 2 if scheme.startswith("ws") else 4
            assert sum(size for _, size in before) <= share * STREAM_CHUNK_BYTES_MAX
            # All of it arrives.
            await asyncio.wait_for(flood.end(), PATIENCE_S)
            meanwhile.clear()
            size_min = FLOOD_COUNT * len(FLOOD_TEXT)
            assert sum(size for who, size in heard if who != address) > size_min
            await honest.leave()

    run_loop(scene(), loop)


def test_pending_connections_count_when_descriptors_are_few(papers: Papers) -> None:
    async def scene() -> None:
        async with node(tls=TlsFiles(cert=papers.own), connection_count_max=24) as server:
            texts = (TCP, "tls://127.0.0.1:0", "ws://127.0.0.1:0")
            places = [await server.listen(parse_endpoint(text)) for text in texts]
            silent = [await Guest.reach(url) for url in places[1:] for _ in range(10)]
            guests = [await Guest.connect(places[0]) for _ in range(17)]
            # An eighth at each of two doors waits, and has its url; the last one is for a Unix
            # socket.
            late = await Guest.reach(places[0])
            with suppress(ConnectionResetError):
                assert await late.hear_end() == b""
            for guest in (*silent, *guests, late):
                guest.writer.transport.abort()

    asyncio.run(scene())


def test_last_descriptors_are_reserved_for_unix_sockets(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(connection_count_max=20) as server:
            texts = (TCP, f"uds:{tmp_path}/node.sock")
            tcp, unix = [await server.listen(parse_endpoint(text)) for text in texts]
            guests = [await Guest.connect(tcp) for _ in range(18)]
            for url in (tcp, tcp):
                with pytest.raises(
                    skerry.ConnectRefused, match="too many connections, the limit is 20"
                ):
                    await skerry.aio.connect(url)
            local = [await Guest.connect(unix) for _ in range(2)]
            for guest in (*guests, *local):
                guest.writer.transport.abort()

    asyncio.run(scene())


def test_connection_without_a_free_descriptor_is_rejected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene() -> None:
        async with node(connection_count_max=2) as server:
            url = await server.listen(parse_endpoint(TCP))
            first, second = await Guest.connect(url), await Guest.connect(url)
            third = await Guest.reach(url)
            with suppress(ConnectionResetError):
                assert await third.hear_end() == b""
            first.writer.transport.abort()
            second.join("DotsClient")
            await second.hear_client(first.connection.client_id, state="closed")
            fourth = await Guest.connect(url)
            await fourth.leave()
            await second.leave()
            third.writer.transport.abort()

    asyncio.run(scene())
    (record,) = caplog.records
    assert "too many connections are open" in record.getMessage()
    assert vars(record)["connection_count"] == 2


def test_unix_socket_has_the_configured_permissions(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(socket_mode=0o660) as server:
            await server.listen(parse_endpoint(url_in(tmp_path)))
            assert stat.S_IMODE((tmp_path / "node.sock").stat().st_mode) == 0o660

    asyncio.run(scene())


def test_host_with_several_addresses_listens_at_each_with_one_port() -> None:
    async def scene() -> None:
        async with node() as server:
            loop: Any = asyncio.get_running_loop()
            real = loop.getaddrinfo

            async def resolve(host: str, *arguments: Any, **options: Any) -> Any:
                if host != "harbour":
                    return await real(host, *arguments, **options)
                places = [("127.0.0.1", 0), ("127.0.0.2", 0)]
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", url) for url in places]

            loop.getaddrinfo = resolve
            url = await server.listen(parse_endpoint("tcp://harbour:0"))
            port = url.rpartition(":")[2]
            for host in ("127.0.0.1", "127.0.0.2"):
                guest = await Guest.connect(f"tcp://{host}:{port}")
                await guest.leave()

    asyncio.run(scene())


def test_clients_are_notified_when_the_node_stops(loop: LoopKind, papers: Papers) -> None:
    async def scene() -> None:
        async with node(tls=TlsFiles(cert=papers.own)) as server:
            plain = await Guest.connect(await server.listen(parse_endpoint(TCP)))
            url = await server.listen(parse_endpoint("tls://127.0.0.1:0"))
            secret = await Guest.connect(url, tls=papers.client())
            closing = asyncio.ensure_future(server.close())
            for guest in (plain, secret):
                assert (await guest.hear(ConnectionEnded)).code == 0
                guest.writer.transport.abort()
            await asyncio.wait_for(closing, PATIENCE_S)
            assert not server.listeners.is_open

    run_loop(scene(), loop)


def test_extensions_are_offered_unless_the_endpoint_disables_them() -> None:
    async def scene() -> None:
        async with node() as server:
            for text, offered in ((TCP, True), (f"{TCP}?extensions=off", False)):
                guest = await Guest.connect(await server.listen(parse_endpoint(text)))
                # The last of those whom the node has not missed yet.
                client = list(server.core._table.by_address.values())[-1]
                assert client.has_extensions is offered
                await guest.leave()

    asyncio.run(scene())


def test_events_of_the_core_and_each_input_are_reported() -> None:
    reported: list[str] = []
    carried: list[int] = []

    async def scene() -> None:
        async with node(
            on_events=lambda events: reported.extend(type(event).__name__ for event in events),
            after_input=lambda: carried.append(1),
        ) as server:
            guest = await Guest.connect(await server.listen(parse_endpoint(TCP)))
            await guest.leave()

    asyncio.run(scene())
    assert reported == ["ClientConnected", "ClientDisconnected"]
    assert len(carried) >= 3


PLACES = ["tcp://127.0.0.1:0", "tcp-v1://127.0.0.1:0", "tls://127.0.0.1:0"]


@pytest.mark.parametrize("text", PLACES)
def test_rejection_reaches_a_client_that_still_sends(
    text: str, loop: LoopKind, papers: Papers
) -> None:
    """Unread input when a socket is closed makes the system reset the connection."""
    config = AdmissionConfig(authentication=(AuthenticationRule(secret="sesame"),))
    core = NodeCore(admission=Admission(config, rng=Random(1)))

    async def scene() -> None:
        async with node(core, tls=TlsFiles(cert=papers.own)) as server:
            url = await server.listen(parse_endpoint(text))
            tls = papers.client() if text.startswith("tls") else None
            guest = await Guest.reach(url, tls=tls, secret="guess")
            hello = await guest.reader.read(65536)
            guest._heard += guest.connection.receive(hello, 0.0)
            # What comes after the introduction, in one piece with it, is unread when it is refused.
            guest.writer.write(guest.connection.take_output() + bytes(1_000_000))
            await guest.hear(Rejected)
            assert await guest.hear_end() == b"", "an end, and no reset"
            await guest.leave()

    run_loop(scene(), loop)


def test_rejection_reaches_a_client_by_websocket(loop: LoopKind) -> None:
    config = AdmissionConfig(authentication=(AuthenticationRule(secret="sesame"),))
    core = NodeCore(admission=Admission(config, rng=Random(1)))

    async def scene() -> None:
        async with node(core) as server:
            url = await server.listen(parse_endpoint("ws://127.0.0.1:0"))
            with pytest.raises(ConnectFailed, match="rejects the client"):
                await aio.connect(url, secret="guess")

    run_loop(scene(), loop)


def test_client_that_keeps_sending_after_its_end_is_aborted(
    loop: LoopKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orderly_close, "LINGER_BYTES_MAX", 100_000)
    monkeypatch.setattr(orderly_close, "LINGER_S_MAX", 1000.0)
    monkeypatch.setattr(streams, "_CLOSE_S_MAX", 1000.0)

    async def scene() -> None:
        async with node() as server:
            guest = await Guest.connect(await server.listen(parse_endpoint(TCP)))
            guest.writer.write(b"\xff" * 64)
            with pytest.raises(OSError, match=r"reset|pipe|lost"):
                while True:
                    guest.writer.write(bytes(50_000))
                    await asyncio.wait_for(guest.writer.drain(), PATIENCE_S)
            guest.writer.close()

    run_loop(scene(), loop)


def test_input_is_deferred_when_an_iteration_has_taken_too_long() -> None:
    async def scene() -> None:
        async with node() as server:
            url = await server.listen(parse_endpoint(TCP))
            guests = [await Guest.connect(url) for _ in range(2)]
            await guests[1].settle()
            first, second = server._streams
            assert not server.received(first, b"")
            end_ns = monotonic_ns() + LOOP_TURN_NS_MAX
            while monotonic_ns() < end_ns:
                pass
            connection = guests[1].connection
            echo = internal_class("DotsEcho")(request=True, identifier=77)
            connection.send_message(echo, 0.0)
            assert server.received(second, connection.take_output())
            released = asyncio.Event()
            server.hold(second, released.set)
            await asyncio.wait_for(released.wait(), PATIENCE_S)
            assert not server.core.is_held(second)
            for guest in guests:
                await guest.leave()

    asyncio.run(scene())
