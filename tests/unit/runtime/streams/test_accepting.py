"""Accepting connections, also when no file descriptor is left."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest

from skerry.runtime.loops import LoopKind, run_loop
from skerry.runtime.streams import accepting
from skerry.runtime.streams.accepting import ProtocolServer

PATIENCE_S = 20.0


class Scarce(socket.socket):
    """A listening socket for which some descriptors are missing."""

    failures = 0
    has_failed: asyncio.Event

    def accept(self) -> tuple[socket.socket, Any]:
        if self.failures:
            self.failures -= 1
            self.has_failed.set()
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def listening(failures: int = 0) -> Scarce:
    made = Scarce(fileno=socket.create_server(("127.0.0.1", 0)).detach())
    made.setblocking(False)
    made.failures = failures
    made.has_failed = asyncio.Event()
    return made


class Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(b"hello")  # type: ignore[attr-defined]
        transport.close()


async def visit(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    finally:
        writer.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> LoopKind:
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    kind: LoopKind = request.param
    return kind


def test_accepting_pauses_without_descriptors(
    loop: LoopKind, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "_PAUSE_S", 0.01)

    async def scene() -> None:
        made = listening(failures=2)
        port = made.getsockname()[1]
        server = ProtocolServer(made, Greeter)
        assert [await visit(port) for _ in range(100)] == [b"hello"] * 100
        await server.close()
        with pytest.raises(ConnectionRefusedError):
            await visit(port)

    run_loop(scene(), loop)
    reasons = [vars(record)["reason"] for record in caplog.records]
    assert reasons == ["Too many open files"] * 2


def test_closing_in_the_pause_leaves_nothing_to_fail(
    loop: LoopKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "_PAUSE_S", 0.05)
    faults: list[dict[str, Any]] = []

    async def scene() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        made = listening(failures=1)
        server = ProtocolServer(made, Greeter)
        _, writer = await asyncio.open_connection("127.0.0.1", made.getsockname()[1])
        await asyncio.wait_for(made.has_failed.wait(), PATIENCE_S)
        await server.close()
        await server.close()
        await asyncio.sleep(0.1)
        writer.close()

    run_loop(scene(), loop)
    assert faults == []


def test_many_connections_at_once_are_all_accepted(loop: LoopKind) -> None:
    async def scene() -> None:
        made = listening()
        made.listen(1024)
        port = made.getsockname()[1]
        server = ProtocolServer(made, Greeter)
        found = await asyncio.gather(*(visit(port) for _ in range(200)))
        assert found == [b"hello"] * 200
        await server.close()

    run_loop(scene(), loop)
