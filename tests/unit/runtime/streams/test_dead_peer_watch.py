"""Detection of peers whose computer is gone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from time import sleep

import pytest

from skerry.runtime.streams.dead_peer_watch import DeadPeerWatch, is_gone
from skerry.runtime.streams.sockets import SILENCE_S_MAX, tune


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        yield near, far


def test_idle_peer_is_not_gone(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    sleep(0.05)
    assert not is_gone(ends[0], 0.001)


def test_peer_that_does_not_read_is_not_gone(ends: tuple[socket.socket, socket.socket]) -> None:
    near, _ = ends
    near.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            near.send(bytes(65536))
    # The system asks for room after 0.2 s, 0.4 s and so on, and is answered each time.
    for _ in range(15):
        sleep(0.1)
        assert not is_gone(near, 0.001)


def test_keep_alive_has_the_same_timeout() -> None:
    with socket.socket() as raw:
        tune(raw)
        idle, gap, count = (
            raw.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_KEEP{name}"))
            for name in ("IDLE", "INTVL", "CNT")
        )
    assert idle + gap * count == SILENCE_S_MAX


def test_closed_connection_is_not_checked(ends: tuple[socket.socket, socket.socket]) -> None:
    async def scenario() -> None:
        watch = DeadPeerWatch(0.05)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=ends[0])
        watch.add(transport, transport.get_extra_info("socket"))
        states = [watch.is_active]
        await asyncio.sleep(0.05)
        states.append(watch.is_active)
        transport.close()
        watch.discard(transport)
        await asyncio.sleep(0.05)
        assert [*states, watch.is_active] == [True, True, False]

    asyncio.run(scenario())
