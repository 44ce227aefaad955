"""The asyncio twin of the distributor."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine
from typing import Any

import pytest

from skerry.client.distributor import aio, sync
from skerry.client.distributor.aio import DISTRIBUTOR_WAITING_COUNT_MAX
from skerry.errors import ConfigError, LocalProtocolError, WouldBlock

QUICK: dict[str, Any] = {
    "interface": "127.0.0.1", "ttl": 0, "request_timeout_ms": 20, "socket_buffer_bytes": 2_000_000,
}  # fmt: skip


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await work

    asyncio.run(bounded())


def test_updates_arrive_in_order(group: str) -> None:
    async def work() -> None:
        arrived: asyncio.Queue[tuple[str, bytes, object, int]] = asyncio.Queue()
        async with (
            await aio.open(group, holdback_delay_ms=5, **QUICK) as near,
            await aio.open(group, **QUICK) as far,
        ):
            with far.subscriber(lambda *given: arrived.put_nowait(given)) as subscriber:
                subscriber.add("/a/*", tag="x")
                with near.publisher() as publisher:
                    for number in range(500):
                        publisher.publish("/a/b", b"%d" % number)
                    got = [await arrived.get() for _ in range(500)]
            assert [given[:3] for given in got] == [
                ("/a/b", b"%d" % number, "x") for number in range(500)
            ]
            assert far.group == near.group
            assert far.port == near.port
            assert far.statistics().counters.delivered_update_count == 500

    run(work())


def test_batches_and_events_come_too(group: str) -> None:
    async def work() -> None:
        got: list[tuple[str, bytes]] = []
        events: list[Any] = []
        done = asyncio.Event()

        def on_batch(updates: list[tuple[str, bytes]]) -> None:
            got.extend(updates)
            if len(got) == 3:
                done.set()

        async with await aio.open(group, application="feed", **QUICK) as connection:
            connection.subscriber(on_batch=on_batch, on_event=events.append).add("/...")
            publisher = connection.publisher()
            for number in range(3):
                publisher.publish("/a", b"%d" % number)
            publisher.flush()
            connection.flush()
            await done.wait()
            assert [sender.application for sender in connection.senders()] == ["feed"]
            assert connection.config.application == "feed"
            assert connection.management_port == 0
        names = [type(event).__name__ for event in events]
        assert names[0] == "SenderFound"
        assert names[-1] == "ConnectionClosed"

    run(work())


def test_publishing_never_waits_and_drain_does(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert vars(aio)["DISTRIBUTOR_WAITING_COUNT_MAX"] == DISTRIBUTOR_WAITING_COUNT_MAX
    monkeypatch.setattr(aio, "DISTRIBUTOR_WAITING_COUNT_MAX", 20)

    async def work() -> None:
        fields = {**QUICK, "bandwidth_mbit_max": 0.25, "flow_interval_ms": 30}
        async with await aio.open(group, **fields) as connection:
            publisher = connection.publisher()
            with pytest.raises(WouldBlock):
                for _ in range(10_000):
                    publisher.publish("/a", b"x" * 10)
            assert len(connection._session.publishing.pending) == 2 * 20
            await publisher.drain()
            assert not connection._session.publishing.pending
            publisher.publish("/a", b"x")

    run(work())


def test_closing_may_be_quick_and_done_twice(group: str) -> None:
    async def work() -> None:
        connection = await aio.open(group, **{**QUICK, "request_timeout_ms": 60_000})
        publisher = connection.publisher()
        publisher.close()
        with pytest.raises(LocalProtocolError, match="closed"):
            publisher.publish("/a", b"")
        await connection.close(linger=False)
        await connection.close()
        with pytest.raises(LocalProtocolError):
            connection.publisher()

    run(work())


def test_failed_open_raises_an_error(group: str) -> None:
    async def work() -> None:
        with pytest.raises(ConfigError):
            await aio.open("nowhere")
        with pytest.raises(ConfigError):
            await aio.open(group, **QUICK, management_listen="x")

    run(work())


def test_the_twins_have_the_same_names() -> None:
    for here, there in (
        (aio.AsyncGroupConnection, sync.BlockingGroupConnection),
        (aio.AsyncPublisher, sync.Publisher),
        (aio.AsyncSubscriber, sync.Subscriber),
    ):
        names = {name for name in dir(there) if not name.startswith("_")}
        mine = {name for name in dir(here) if not name.startswith("_")}
        # A loop of asyncio polls by itself.
        assert names - mine <= {"poll"}
    assert dataclasses.is_dataclass(aio.Config)
