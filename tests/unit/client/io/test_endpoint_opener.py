"""Where the node is, and how a stream to it is opened."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import trustme

from skerry.client.io.endpoint_opener import DEFAULT_ENDPOINT, EndpointOpener, default_endpoint
from skerry.errors import ConfigError
from skerry.protocol.access.json.wire import JsonWire
from skerry.protocol.access.wire import OldWire, Wire
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.socket_stream import Stream
from skerry.schema.registry import Registry


def test_default_endpoint_is_read_from_the_environment(tmp_path: Path) -> None:
    environ = {"SKERRY_RUNTIME_DIR": str(tmp_path)}
    assert default_endpoint(environ) == DEFAULT_ENDPOINT
    environ["DOTS_ENDPOINT"] = "tcp://dots"
    assert default_endpoint(environ) == "tcp://dots"
    environ["SKERRY_ENDPOINT"] = "tcp://skerry"
    assert default_endpoint(environ) == "tcp://skerry"


def test_socket_of_the_local_node_is_preferred_to_tcp(tmp_path: Path) -> None:
    environ = {"SKERRY_RUNTIME_DIR": str(tmp_path)}
    (tmp_path / "node.sock").touch()
    assert default_endpoint(environ) == DEFAULT_ENDPOINT, "a file is not a socket"
    (tmp_path / "node.sock").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "node.sock"))
        assert default_endpoint(environ) == f"uds:{tmp_path}/node.sock"


@pytest.mark.parametrize(
    ("text", "kind"),
    [("tcp://h", Wire), ("tcp-v1://h", OldWire), ("uds-v1:/p", OldWire), ("ws://h", JsonWire)],
)
def test_framing_is_that_of_the_endpoint(text: str, kind: type[Wire]) -> None:
    assert type(EndpointOpener(parse_endpoint(text)).wire(Registry())) is kind


def test_missing_certificate_is_found_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        EndpointOpener(parse_endpoint("tls://127.0.0.1"), ca=tmp_path / "nothing.pem")
    with pytest.raises(ConfigError):
        EndpointOpener(parse_endpoint(f"wss://127.0.0.1?ca={tmp_path}/nothing.pem"))


def test_failure_names_the_endpoint_and_a_remedy() -> None:
    opener = EndpointOpener(parse_endpoint("tcp://user:secret@h:1"))
    away = opener.failed("why", has_answered=False)
    assert str(away) == "no node answered at tcp://h:1: why"
    assert away.hint is not None
    assert str(opener.failed("why", has_answered=True)) == "tcp://h:1: why"
    again = opener.failed(str(away), has_answered=False)
    assert str(again) == str(away), "a WebSocket has said it already"
    secure = EndpointOpener(parse_endpoint("tls://h:1")).failed("why", has_answered=False)
    assert "--ca" in str(secure.hint)


def test_close_after_the_tls_handshake_suggests_a_certificate(tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    trustme.CA().issue_cert("h").private_key_and_cert_chain_pem.write_to_path(own)
    for cert, guess in (
        (None, "requires a certificate, and none was given"),
        (own, "requires another certificate than own.pem"),
    ):
        opener = EndpointOpener(parse_endpoint("tls://h:1"), cert=cert)
        error = opener.failed("the node closed the connection", has_answered=False, is_secured=True)
        assert str(error).startswith("tls://h:1: the node closed the connection before its first")
        assert str(error).endswith(guess)
        assert "--cert" in str(error.hint)
        assert "--key" in str(error.hint)


class Ear:
    """Hears what happens on a stream."""

    def __init__(self) -> None:
        self.received_events: list[Any] = []
        self.stream: Stream | None = None
        self.is_gone = asyncio.Event()
        self.has_data = asyncio.Event()
        self.has_room = asyncio.Event()

    def opened(self, stream: Stream) -> None:
        self.stream = stream

    def skipped(self, size: int) -> None:
        raise AssertionError(size)

    def received(self, data: bytes) -> None:
        self.received_events.append(data)
        self.has_data.set()

    def lost(self, error: Exception | None) -> None:
        self.received_events.append(error)
        self.is_gone.set()

    def paused(self, *, is_full: bool) -> None:
        self.received_events.append(is_full)
        if not is_full:
            self.has_room.set()


def test_bytes_flow_in_both_directions_and_a_slow_reader_pauses() -> None:
    async def talk() -> None:
        may_read = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello")
            await may_read.wait()
            await reader.readexactly(20_000_000)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        ear = Ear()
        await EndpointOpener(parse_endpoint(f"tcp://127.0.0.1:{port}")).open(ear)
        assert ear.stream is not None
        await ear.has_data.wait()
        ear.stream.write(bytes(20_000_000))
        assert ear.received_events == [b"hello", True]
        may_read.set()
        await ear.has_room.wait()
        await ear.is_gone.wait()
        assert ear.received_events == [b"hello", True, False, None]
        server.close()
        await server.wait_closed()

    asyncio.run(asyncio.wait_for(talk(), 30))


def test_missing_listener_is_an_os_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    opener = EndpointOpener(parse_endpoint(f"tcp://127.0.0.1:{port}"))

    async def talk() -> None:
        with pytest.raises(ConnectionRefusedError):
            await opener.open(Ear())

    asyncio.run(talk())


def test_missing_descriptor_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise OSError(errno.EMFILE, "too many")

    async def talk() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            opener = EndpointOpener(parse_endpoint(f"tcp://127.0.0.1:{server.getsockname()[1]}"))
            ear = Ear()
            monkeypatch.setattr(os, "dup", refuse)
            with pytest.raises(OSError, match="too many"):
                await opener.open(ear)
            assert ear.stream is None

    asyncio.run(talk())


def test_cancellation_in_the_last_moment_leaves_nothing_open() -> None:
    async def talk() -> None:
        class Hasty(Ear):
            def opened(self, stream: Stream) -> None:
                super().opened(stream)
                opening.cancel()

        with socket.create_server(("127.0.0.1", 0)) as server:
            opener = EndpointOpener(parse_endpoint(f"tcp://127.0.0.1:{server.getsockname()[1]}"))
            ear = Hasty()
            opening = asyncio.create_task(opener.open(ear))
            with pytest.raises(asyncio.CancelledError):
                await opening
            await ear.is_gone.wait()
            far, _ = server.accept()
            with far:
                assert far.recv(1) == b""

    asyncio.run(asyncio.wait_for(talk(), 30))


def test_unix_socket_has_room_for_a_burst(tmp_path: Path) -> None:
    async def talk() -> None:
        is_served = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            await writer.wait_closed()
            is_served.set()

        path = tmp_path / "node.sock"
        server = await asyncio.start_unix_server(serve, path)
        with socket.socket(socket.AF_UNIX) as untouched:
            usual_bytes = untouched.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        ear = Ear()
        await EndpointOpener(parse_endpoint(f"uds:{path}")).open(ear)
        assert ear.stream is not None
        # More than the usual buffer takes, and what may wait behind it.
        ear.stream.write(bytes(usual_bytes + 300_000))
        assert ear.received_events == []
        ear.stream.close()
        await ear.is_gone.wait()
        await is_served.wait()
        server.close()
        await server.wait_closed()

    asyncio.run(asyncio.wait_for(talk(), 30))
