"""A space on real streams."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

import skerry
from skerry.client.core.settings import SpaceConfig
from skerry.client.core.states import SpaceState
from skerry.client.io.endpoint_opener import EndpointOpener
from skerry.client.io.session import Session
from skerry.errors import ConnectFailed, Disconnected, LocalProtocolError, RequestTimedOut
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import AccessConnection
from skerry.protocol.access.wire import Wire
from skerry.runtime.streams.endpoints import parse_endpoint
from tests.unit.client.stage import Shout, Vessel


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


async def session_at(place: str, **config: Any) -> Session:
    session = Session(EndpointOpener(parse_endpoint(place)), SpaceConfig(**config))
    await session.start(10.0)
    return session


def test_waiting_ends_with_the_condition_or_the_space(node: str) -> None:
    async def talk() -> None:
        session = await session_at(node)
        flush = session.core.flush(1)
        session.write_output()
        await session.wait(lambda: flush.is_done, 10, "the answer")
        with pytest.raises(RequestTimedOut, match=r"timed out after 0\.01 s waiting for a wonder"):
            await session.wait(lambda: False, 0.01, "a wonder")
        waiting = asyncio.create_task(session.wait(lambda: False, None, "a wonder"))
        await asyncio.sleep(0)
        await session.close()
        with pytest.raises(Disconnected, match="the space is closed"):
            await waiting
        with pytest.raises(Disconnected, match="the space is closed"):
            await session.wait(lambda: False, None, "a wonder")

    run(talk())


@pytest.mark.parametrize(
    ("to", "timeout", "text"),
    [
        ("", None, "None is not a timeout"),
        ("", "soon", "'soon' is not a timeout"),
        (None, 1.0, "the name of a handler must be a str, got NoneType"),
    ],
)
def test_invalid_request_is_rejected_with_a_hint(
    node: str, to: Any, timeout: Any, text: str
) -> None:
    async def talk() -> None:
        session = await session_at(node)
        try:
            with pytest.raises(LocalProtocolError, match=text) as caught:
                await session.request(Vessel(mmsi=1), to, timeout)
            assert caught.value.hint is not None
        finally:
            await session.close()

    run(talk())


def test_missing_secret_is_reported() -> None:
    async def talk() -> None:
        hello = AccessConnection(Wire())
        hello.send_message(
            internal_class("DotsMsgHello")(
                serverName="h", authChallenge=5, authenticationRequired=True
            ),
            1.0,
        )
        words = hello.take_output()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(words)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectFailed, match="asks for a secret, and none was given"):
            await session_at(f"tcp://127.0.0.1:{port}")
        server.close()
        await server.wait_closed()

    run(talk())


def test_other_definition_of_a_type_is_logged(node: str, caplog: pytest.LogCaptureFixture) -> None:
    other = skerry.define_types("struct Vessel { 1: [key] string mmsi; }").Vessel

    async def talk() -> None:
        first, second = await session_at(node), await session_at(node)
        first.core.publish(other(mmsi="x"), 1.0)
        await first.flush(10)
        second.core.types.learn(Vessel)
        await second.request_types([], 10)
        await first.close()
        await second.close()

    with caplog.at_level(logging.WARNING, logger="skerry.client"):
        run(talk())
    assert "the node serves an incompatible definition of Vessel: " in caplog.text


def test_callbacks_may_use_the_space_they_are_called_by(node: str) -> None:
    async def talk() -> None:
        session = await session_at(node)
        texts: list[str] = []

        def answer(event: Any) -> None:
            texts.append(event.object.text)
            if len(texts) < 3:
                session.core.publish(Shout(text=f"again {len(texts)}"), 1.0)
                session.write_output()

        session.core.subscribe(Shout, answer, 1)
        session.core.publish(Shout(text="once"), 1.0)
        session.write_output()
        await session.wait(lambda: len(texts) == 3, 10, "the last word")
        assert texts == ["once", "again 1", "again 2"]
        await session.close()

    run(talk())


def test_task_runs_until_it_is_done_or_the_space_closes(node: str) -> None:
    async def talk() -> None:
        session = await session_at(node)
        ended: list[str] = []

        async def work(name: str, until: asyncio.Event) -> None:
            try:
                await until.wait()
                ended.append(f"{name} done")
            except asyncio.CancelledError:
                ended.append(f"{name} cancelled")
                raise

        now, never = asyncio.Event(), asyncio.Event()
        now.set()
        session.begin_task(work("first", now))
        session.begin_task(work("second", never))
        await session.flush(10.0)
        assert ended == ["first done"]
        await session.close()
        assert ended == ["first done", "second cancelled"]

    run(talk())


@pytest.mark.slow
def test_task_that_does_not_end_does_not_keep_a_space_open(node: str) -> None:
    async def talk() -> None:
        session = await session_at(node)
        over = asyncio.Event()

        async def insist() -> None:
            while not over.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await over.wait()

        session.begin_task(insist())
        await asyncio.sleep(0)
        await session.close()
        assert session.core.connection.state is SpaceState.CLOSED
        over.set()
        await asyncio.sleep(0)

    run(talk())


def test_abandoned_space_raises_disconnected(node: str) -> None:
    async def talk() -> None:
        session = await session_at(node)
        lock = threading.Lock()
        session.abandon("it belongs to another process", lock)
        assert session.core.buffer.waiting.lock is lock
        with pytest.raises(Disconnected, match="another process"):
            session.core.publish(Shout(text="x"), 1.0)
        await session.close()
        assert session.core.connection.state is SpaceState.CLOSED

    run(talk())


def test_rare_publish_is_written_at_once(node: str) -> None:
    async def talk() -> None:
        session = await session_at(node)
        sent: list[int] = []

        def publish(count: int) -> None:
            for _ in range(count):
                if session.core.publish(Shout(text="a"), 1.0):
                    session.write_soon()
                sent.append(session.core.waiting_bytes)

        publish(1)
        assert sent == [0], "it did not wait for the turn to end"
        publish(2)
        assert sent[1] > 0, "the second of a turn waits for others"
        assert sent[2] > sent[1]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert session.core.waiting_bytes == 0
        publish(1)
        assert sent[3] > 0, "after a burst, more is to be expected"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        publish(1)
        assert sent[4] == 0, "it was the only one of its turn"
        await session.flush(10.0)
        assert session.core.connection.statistics().published_count == 5
        await session.close()

    run(talk())


def test_long_iteration_writes_before_its_end(node: str) -> None:
    async def talk() -> None:
        session = await session_at(node)
        texts: list[str] = []
        session.core.subscribe(Shout, lambda event: texts.append(event.object.text), 1)
        await session.flush(10.0)
        most = 0
        for number in range(400):
            if session.core.publish(Shout(text=f"{number:1000}"), 1.0):
                session.write_soon()
            most = max(most, session.core.waiting_bytes)
        assert 64 * 1024 <= most < 2 * 64 * 1024
        assert session.core.waiting_bytes > 0, "the rest goes at the end of the turn"
        await session.wait(lambda: len(texts) == 400, 10, "the last word")
        assert [int(text) for text in texts] == list(range(400))
        await session.close()

    run(talk())
