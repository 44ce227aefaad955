"""The orderly close of a transport: the last message arrives, within limits."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

import pytest

from skerry.limits import LINGER_BYTES_MAX
from skerry.runtime.loops import LoopKind, run_loop
from skerry.runtime.streams import orderly_close as last_words
from skerry.runtime.streams.orderly_close import OrderlyClose

LOOPS: list[LoopKind] = ["asyncio", "uvloop"]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    return lambda main: run_loop(asyncio.wait_for(main, 30), request.param)


class Ending(asyncio.Protocol):
    """Sends a word and closes as soon as it receives input."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()
        self.error: Exception | None = None
        self.heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self.transport.write(b"goodbye")
        OrderlyClose(self.transport, self, memoryview(bytearray(100_000)))

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self.is_over.set()


async def meet() -> tuple[Ending, socket.socket]:
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    far.setblocking(False)
    _, protocol = await loop.create_connection(Ending, sock=near)
    return protocol, far


def test_last_message_arrives_and_the_former_protocol_is_notified(run: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ending, far = await meet()
        with far:
            await loop.sock_sendall(far, b"x")
            assert await loop.sock_recv(far, 100) == b"goodbye"
            await loop.sock_sendall(far, bytes(5000))
            assert await loop.sock_recv(far, 100) == b""
            assert not ending.is_over.is_set(), "it waits for the other end"
        await ending.is_over.wait()
        assert ending.error is None
        assert ending.heard == b"x", "what comes later is dropped"

    run(main())


def test_close_without_an_answer_is_limited_in_time(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_words, "LINGER_S_MAX", 0.01)

    async def main() -> None:
        ending, far = await meet()
        with far:
            await asyncio.get_running_loop().sock_sendall(far, b"x")
            await ending.is_over.wait()

    run(main())


def test_bytes_read_after_the_end_are_limited(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_words, "LINGER_S_MAX", 1000.0)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        ending, far = await meet()
        with far:
            await loop.sock_sendall(far, b"x")
            assert await loop.sock_recv(far, 100) == b"goodbye"
            with suppress(OSError):
                await loop.sock_sendall(far, bytes(LINGER_BYTES_MAX + 1))
            await ending.is_over.wait()

    run(main())


def test_connection_that_broke_unnoticed_is_closed(run: Any) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            near = socket.create_connection(server.getsockname())
            far, _ = server.accept()
        _, ending = await asyncio.get_running_loop().create_connection(Ending, sock=near)
        # With no time to linger, closing resets the connection.
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
        OrderlyClose(ending.transport, ending, memoryview(bytearray(1000)))
        await ending.is_over.wait()

    run(main())
