"""A socket on a loop: bytes both ways, pauses, and every kind of end, on both loops."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from skerry.runtime.loops import LoopKind, run_loop
from skerry.runtime.streams import socket_stream as plain_streams
from skerry.runtime.streams.socket_stream import SocketStream, Stream

LOOPS: list[LoopKind] = ["asyncio", "uvloop"]
WAITING_BYTES_MAX = 1000


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    return lambda main: run_loop(asyncio.wait_for(main, 30), request.param)


class User:
    """Records the events of a stream."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.changed = asyncio.Event()
        self.stream: Stream | None = None
        self.fault: Exception | None = None

    def opened(self, stream: Stream) -> None:
        self.stream = stream

    def received(self, data: bytes) -> None:
        if self.fault is not None:
            raise self.fault
        self._hear(data)

    def lost(self, error: Exception | None) -> None:
        self._hear(error)

    def paused(self, *, is_full: bool) -> None:
        self._hear(is_full)

    def _hear(self, what: object) -> None:
        self.heard.append(what)
        self.changed.set()

    async def hears(self, what: object) -> None:
        while what not in self.heard:
            self.changed.clear()
            await self.changed.wait()


def pair() -> tuple[SocketStream, User, socket.socket]:
    """A stream that is open, its user, and the socket at the other end."""
    near, far = socket.socketpair()
    user = User()
    stream = SocketStream(near.fileno(), user, waiting_bytes_max=WAITING_BYTES_MAX)
    # It has its own descriptor.
    near.close()
    stream.start()
    far.setblocking(False)
    return stream, user, far


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    return near, far


async def read_all(far: socket.socket) -> int:
    """Read to the end; how much it was."""
    loop, size = asyncio.get_running_loop(), 0
    while data := await loop.sock_recv(far, 1 << 20):
        size += len(data)
    return size


def test_bytes_go_both_ways(run: Any) -> None:
    async def main() -> None:
        stream, user, far = pair()
        with far:
            assert user.stream is stream
            stream.write(b"there")
            assert await asyncio.get_running_loop().sock_recv(far, 100) == b"there"
            far.send(b"back")
            await user.hears(b"back")
            stream.close()
            assert await read_all(far) == 0
            far.close()
            await user.hears(None)
            assert user.heard == [b"back", None]

    run(main())


def test_bytes_that_do_not_fit_are_buffered_and_the_user_is_paused(run: Any) -> None:
    async def main() -> None:
        stream, user, far = pair()
        with far:
            stream.write(bytes(10_000_000))
            assert user.heard == [True]
            stream.write(b"more")
            assert user.heard == [True]
            # The end waits until all is sent, and nothing more is taken then.
            reading = asyncio.create_task(read_all(far))
            await user.hears(False)
            stream.close()
            stream.write(b"too late")
            assert await reading == 10_000_004
            far.close()
            await user.hears(None)
            assert user.heard == [True, False, None]

    run(main())


def test_close_waits_until_buffered_bytes_are_sent(run: Any) -> None:
    async def main() -> None:
        stream, user, far = pair()
        with far:
            stream.write(bytes(10_000_000))
            stream.close()
            stream.close()
            assert await read_all(far) == 10_000_000
            far.close()
            await user.hears(None)

    run(main())


def test_last_message_arrives_though_the_peer_still_sends(run: Any) -> None:
    async def main() -> None:
        near, far = tcp_pair()
        user = User()
        with far:
            stream = SocketStream(near.fileno(), user, waiting_bytes_max=WAITING_BYTES_MAX)
            near.close()
            stream.start()
            # Unread input when a socket is closed makes the system reset the connection.
            far.sendall(bytes(100_000))
            stream.write(b"rejected")
            stream.close()
            far.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(far, 100) == b"rejected"
            far.setblocking(True)
            far.sendall(b"what is under way")
            far.setblocking(False)
            assert await read_all(far) == 0
            assert user.heard == []
            far.close()
            await user.hears(None)
            assert user.heard == [None]

    run(main())


def test_close_without_an_answer_is_limited_in_time_and_bytes(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr(plain_streams, "LINGER_S_MAX", 0.01)
        stream, user, silent = pair()
        with silent:
            stream.close()
            await user.hears(None)
        monkeypatch.setattr(plain_streams, "LINGER_S_MAX", 1000.0)
        monkeypatch.setattr(plain_streams, "LINGER_BYTES_MAX", 1000)
        stream, user, loud = pair()
        with loud:
            stream.close()
            loud.send(bytes(2000))
            await user.hears(None)

    run(main())


def test_abort_drops_buffered_bytes(run: Any) -> None:
    async def main() -> None:
        stream, user, far = pair()
        with far:
            stream.write(bytes(10_000_000))
            stream.abort()
            stream.abort()
            # It is notified later, not during the call.
            assert user.heard == [True]
            await user.hears(None)
            assert await read_all(far) < 10_000_000
            assert user.heard == [True, None]

    run(main())


def test_end_of_the_peer_is_reported(run: Any) -> None:
    async def main() -> None:
        _, user, far = pair()
        far.send(b"last")
        far.close()
        await user.hears(None)
        assert user.heard == [b"last", None]

    run(main())


def test_peer_that_ended_sending_still_reads_buffered_bytes(run: Any) -> None:
    async def main() -> None:
        stream, user, far = pair()
        with far:
            stream.write(bytes(10_000_000))
            far.shutdown(socket.SHUT_WR)
            assert await read_all(far) == 10_000_000
            await user.hears(None)
            assert user.heard == [True, None]

    run(main())


def test_broken_connection_is_reported_with_its_error(run: Any) -> None:
    async def main() -> None:
        near, far = tcp_pair()
        user = User()
        stream = SocketStream(near.fileno(), user, waiting_bytes_max=WAITING_BYTES_MAX)
        near.close()
        stream.start()
        # With no time to linger, closing resets the connection.
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
        await user.changed.wait()
        (error,) = user.heard
        assert isinstance(error, ConnectionResetError)

    run(main())


def test_writing_to_a_broken_connection_ends_it(run: Any) -> None:
    async def main() -> None:
        stream, user, far = pair()
        far.close()
        stream.write(b"x")
        assert user.heard == []
        await user.changed.wait()
        (error,) = user.heard
        assert isinstance(error, BrokenPipeError)

    run(main())


def test_buffered_bytes_of_a_broken_connection_are_dropped(run: Any) -> None:
    async def main() -> None:
        stream, user, far = pair()
        stream.write(bytes(10_000_000))
        far.close()
        while len(user.heard) < 2:
            user.changed.clear()
            await user.changed.wait()
        assert user.heard[0] is True
        assert isinstance(user.heard[1], OSError)

    run(main())


def test_exception_of_the_user_closes_the_stream_and_is_logged(run: Any) -> None:
    async def main() -> None:
        _, user, far = pair()
        notified: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: notified.append(context)
        )
        with far:
            user.fault = ValueError("no")
            far.send(b"x")
            await user.changed.wait()
        assert user.heard == [user.fault]
        assert [context["exception"] for context in notified] == [user.fault]

    run(main())


def test_exception_of_the_user_at_the_start_leaves_nothing_open(run: Any) -> None:
    async def main() -> None:
        near, far = socket.socketpair()

        class Failing(User):
            def opened(self, stream: Stream) -> None:
                raise ValueError("no")

        user = Failing()
        with far:
            stream = SocketStream(near.fileno(), user, waiting_bytes_max=WAITING_BYTES_MAX)
            near.close()
            with pytest.raises(ValueError, match="no"):
                stream.start()
            await user.changed.wait()
            assert isinstance(user.heard[0], ValueError)
            assert far.recv(1) == b""

    run(main())


def test_user_that_closes_at_once_receives_nothing(run: Any) -> None:
    async def main() -> None:
        near, far = socket.socketpair()

        class Unwilling(User):
            def opened(self, stream: Stream) -> None:
                stream.close()

        user = Unwilling()
        with near, far:
            far.send(b"x")
            SocketStream(near.fileno(), user, waiting_bytes_max=WAITING_BYTES_MAX).start()
            far.shutdown(socket.SHUT_WR)
            await user.changed.wait()
        assert user.heard == [None]

    run(main())
