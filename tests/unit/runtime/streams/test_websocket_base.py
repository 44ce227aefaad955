"""One end of a WebSocket: complete messages in order, protocol errors, and closing.

At the other end is the client of the `websockets` library, or bytes by hand where that one is too
well behaved.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response

from skerry.runtime.streams.websocket_base import (
    SUBPROTOCOL,
    WebSocketBase,
    WebSocketServerProtocol,
)

PATIENCE_S = 10.0
SIZE_MAX = 1000
GREETING = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Ear(WebSocketBase):
    """Receives messages, and sends each back twice in one write."""

    def __init__(self, *, close_s_max: float) -> None:
        protocol = WebSocketServerProtocol(
            select_subprotocol=lambda _protocol, _offered: SUBPROTOCOL, max_size=None
        )
        super().__init__(protocol, message_bytes_max=SIZE_MAX, close_s_max=close_s_max)
        self.server_protocol = protocol
        self.heard: list[bytes] = []
        self.large: list[int] = []
        self.has_dropped = asyncio.Event()
        self.gone = asyncio.Event()

    def _handshake_received(self, event: Request | Response) -> None:
        assert isinstance(event, Request)
        self.server_protocol.send_response(self.server_protocol.accept(event))
        self._flush()

    def _message(self, data: bytes) -> None:
        self.heard.append(data)
        self.write(framed(data) * 2)

    def _message_too_large(self, size: int) -> None:
        self.large.append(size)
        self.has_dropped.set()

    def _lost(self, error: Exception | None) -> None:
        self.gone.set()


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def masked(opcode: Opcode, data: bytes, *, is_last: bool = True) -> bytes:
    return Frame(opcode, data, is_last).serialize(mask=True)


@asynccontextmanager
async def ear(*, close_s_max: float = PATIENCE_S) -> AsyncIterator[tuple[list[Ear], int]]:
    """Ears in the order in which they were made, and their port."""
    made: list[Ear] = []

    def make() -> Ear:
        made.append(Ear(close_s_max=close_s_max))
        return made[-1]

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    try:
        yield made, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for one in made:
            if one._stream is not None:
                one.abort()
                await asyncio.wait_for(one.gone.wait(), PATIENCE_S)
        await server.wait_closed()


def play(
    scene: Callable[[ClientConnection, Ear], Awaitable[None]], *, close_s_max: float = PATIENCE_S
) -> None:
    """With the library's client at the other end."""

    async def stage() -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            ear(close_s_max=close_s_max) as (ears, port),
            connect(f"ws://127.0.0.1:{port}/", subprotocols=[SUBPROTOCOL]) as peer,
        ):
            await scene(peer, ears[0])

    asyncio.run(stage())


def play_raw(
    scene: Callable[[asyncio.StreamReader, asyncio.StreamWriter, Ear], Awaitable[None]],
    *,
    close_s_max: float = PATIENCE_S,
) -> None:
    """With bytes by hand at the other end, behind the greeting."""

    async def stage() -> None:
        async with asyncio.timeout(PATIENCE_S), ear(close_s_max=close_s_max) as (ears, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GREETING)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            await scene(reader, writer, ears[0])
            writer.close()
            await writer.wait_closed()

    asyncio.run(stage())


async def hear_close(reader: asyncio.StreamReader) -> int:
    """The code of the farewell, behind which the stream ends."""
    first, size = await reader.readexactly(2)
    assert first == 0x88
    data = await reader.readexactly(size)
    assert await reader.read() == b""
    return int(struct.unpack("!H", data[:2])[0])


def test_joined_frames_become_messages() -> None:
    async def scene(peer: ClientConnection, _one: Ear) -> None:
        for text in ("one", "zwei ä", "x" * SIZE_MAX):
            await peer.send(text)
            assert [await peer.recv(), await peer.recv()] == [text, text]

    play(scene)


def test_fragments_become_one_message() -> None:
    async def scene(peer: ClientConnection, one: Ear) -> None:
        await peer.send(["frag", "", "men", "ts"])
        assert await peer.recv() == "fragments"
        await peer.send("whole")
        await peer.recv()
        assert await peer.recv() == "whole"
        assert one.heard == [b"fragments", b"whole"]

    play(scene)


def test_pings_are_answered_also_between_fragments() -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one: Ear) -> None:
        writer.write(masked(Opcode.TEXT, b"a", is_last=False) + masked(Opcode.PING, b"alive?"))
        assert await reader.readexactly(8) == b"\x8a\x06alive?"
        writer.write(masked(Opcode.PONG, b"unasked") + masked(Opcode.CONT, b"b"))
        assert await reader.readexactly(8) == b"\x81\x02ab" * 2
        assert one.heard == [b"ab"]

    play_raw(scene)


def test_empty_fragments_use_no_memory() -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one: Ear) -> None:
        writer.write(masked(Opcode.TEXT, b"", is_last=False))
        writer.write(masked(Opcode.CONT, b"", is_last=False) * 10_000)
        writer.write(masked(Opcode.CONT, b"x"))
        assert await reader.readexactly(6) == b"\x81\x01x" * 2
        assert one._fragments == b""

    play_raw(scene)


@pytest.mark.parametrize(
    ("message", "code"),
    [(b"binary", 1003), ("", 1007)],
    ids=["binary", "empty"],
)
def test_invalid_message_closes_with_a_reason(message: str | bytes | list[str], code: int) -> None:
    async def scene(peer: ClientConnection, one: Ear) -> None:
        with pytest.raises(ConnectionClosed) as caught:
            await peer.send(message)
            await peer.send("not heard")
            await peer.recv()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == code
        await one.gone.wait()
        assert one.heard == []

    play(scene)


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\x01x",
        b"\xf1\x80\0\0\0\0",
        masked(Opcode.CONT, b"x"),
        masked(Opcode.TEXT, b"x", is_last=False) * 2,
    ],
    ids=["not masked", "reserved bits", "continues nothing", "not continued"],
)
def test_protocol_violation_closes_with_a_reason(data: bytes) -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one: Ear) -> None:
        writer.write(data)
        assert await hear_close(reader) == 1002
        assert one.heard == []

    play_raw(scene)


@pytest.mark.parametrize(
    "message",
    ["x" * (SIZE_MAX + 1), ["x"] * (SIZE_MAX + 1), ["x" * SIZE_MAX, "", "x"], "x" * 3_000_000],
    ids=["whole", "in fragments", "in large fragments", "much too large"],
)
def test_a_message_above_the_limit_is_dropped_and_reported(message: str | list[str]) -> None:
    async def scene(peer: ClientConnection, one: Ear) -> None:
        for text in ("before", message, "behind"):
            await peer.send(text)
        for text in ("before", "before", "behind", "behind"):
            assert await peer.recv() == text
        assert one.heard == [b"before", b"behind"]
        assert len(one.large) == 1
        assert one.large[0] > SIZE_MAX
        assert one.pending_bytes == 0

    play(scene)


def test_message_above_the_limit_is_reported_by_its_header_and_uses_no_memory() -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one: Ear) -> None:
        writer.write(masked(Opcode.TEXT, b"x" * (SIZE_MAX + 5))[:600])
        writer.write(masked(Opcode.TEXT, b"x" * (SIZE_MAX + 5))[600:-1])
        await one.has_dropped.wait()
        assert one.large == [SIZE_MAX + 5]
        assert one.pending_bytes == 0
        one.limit_messages(10 * SIZE_MAX)
        writer.write(masked(Opcode.TEXT, b"x" * (SIZE_MAX + 5))[-1:])
        writer.write(masked(Opcode.TEXT, b"y" * (SIZE_MAX + 5)))
        assert len(await reader.readexactly(2 * (SIZE_MAX + 9))) == 2 * (SIZE_MAX + 9)
        assert one.large == [SIZE_MAX + 5]

    play_raw(scene)


def test_close_frame_of_the_peer_is_answered() -> None:
    async def scene(peer: ClientConnection, one: Ear) -> None:
        await peer.send("last words")
        await peer.close(1001, "leaving")
        assert peer.close_code == 1001
        await one.gone.wait()
        assert one.heard == [b"last words"]

    play(scene)


def test_close_frame_follows_the_written_messages() -> None:
    async def scene(peer: ClientConnection, one: Ear) -> None:
        one.write(framed(b"last") + framed(b"words"))
        one.close()
        one.write(framed(b"too late"))
        assert one.is_closing()
        assert [await peer.recv(), await peer.recv()] == ["last", "words"]
        with pytest.raises(ConnectionClosed) as caught:
            await peer.recv()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1000
        await one.gone.wait()

    play(scene)


def test_closing_twice_is_closing_once() -> None:
    async def scene(peer: ClientConnection, one: Ear) -> None:
        assert not one.is_closing()
        one.close()
        one.close()
        await one.gone.wait()
        one.close()
        one.abort()

    play(scene)


def test_input_after_the_own_close_frame_is_ignored() -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one: Ear) -> None:
        one.close()
        writer.write(masked(Opcode.TEXT, b"late") + masked(Opcode.CLOSE, b"\x03\xe8"))
        assert await hear_close(reader) == 1000
        assert one.heard == []

    play_raw(scene)


def test_peer_that_does_not_answer_a_close_frame_is_aborted() -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one: Ear) -> None:
        one.close()
        assert await reader.readexactly(4) == b"\x88\x02\x03\xe8"
        await one.gone.wait()

    play_raw(scene, close_s_max=0.02)


def test_peer_that_does_not_end_sending_is_aborted() -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one: Ear) -> None:
        writer.write(masked(Opcode.BINARY, b"x"))
        assert await hear_close(reader) == 1003
        await one.gone.wait()

    play_raw(scene, close_s_max=0.02)


def test_peer_may_disconnect_without_a_close_frame() -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one: Ear) -> None:
        writer.write(masked(Opcode.TEXT, b"half", is_last=False))
        writer.write_eof()
        assert await reader.read() == b""
        await one.gone.wait()
        assert one.heard == []

    play_raw(scene)


def test_abort_is_at_once() -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one: Ear) -> None:
        one.write(framed(b"x" * 10_000_000))
        assert one.get_write_buffer_size() > 0
        one.abort()
        await one.gone.wait()

    play_raw(scene)
