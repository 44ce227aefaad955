"""The asyncio space, on a real node."""

from __future__ import annotations

import asyncio

import pytest

import skerry
from skerry import aio
from skerry.client.aio import DEFAULT_ENDPOINT, default_endpoint
from skerry.errors import Disconnected, RequestTimedOut

Vessel = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; 2: string name; }").Vessel


def test_twins_have_the_same_names(node: str) -> None:
    async def talk() -> list[str]:
        seen: list[str] = []
        async with (
            await aio.connect(node, name="a") as first,
            await aio.connect(node, name="b", preload=[Vessel]) as second,
        ):
            second.subscribe(Vessel, lambda event: seen.append(event.operation))
            first.publish(Vessel(mmsi=1, name="x"))
            first.remove(Vessel(mmsi=1))
            await first.flush()
            await second.flush()
            assert len(await second.container(Vessel)) == 0
            assert first.client_id != second.client_id
        return seen

    assert asyncio.run(talk()) == ["create", "remove"]


def test_node_that_says_nothing_is_given_up() -> None:
    async def talk() -> None:
        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            with pytest.raises(RequestTimedOut, match="the handshake did not come"):
                await aio.connect(f"tcp://127.0.0.1:{port}", timeout=0.05)
        finally:
            server.close()
            await server.wait_closed()

    asyncio.run(talk())


def test_end_of_the_connection_reaches_who_waits_and_who_publishes() -> None:
    async def talk() -> None:
        from skerry.engine.node import NodeCore
        from skerry.runtime.endpoints import parse_endpoint
        from skerry.runtime.streams import NodeServer

        server = NodeServer(NodeCore())
        place = await server.listen(parse_endpoint("tcp://127.0.0.1:0"))
        space = await aio.connect(place)
        await server.close()
        assert "closed the connection" in await space.wait_closed()
        with pytest.raises(Disconnected):
            space.publish(Vessel(mmsi=1))
        await space.close()

    asyncio.run(talk())


def test_endpoint_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKERRY_ENDPOINT", raising=False)
    monkeypatch.delenv("DOTS_ENDPOINT", raising=False)
    assert default_endpoint() == DEFAULT_ENDPOINT
    monkeypatch.setenv("DOTS_ENDPOINT", "tcp://dots")
    assert default_endpoint() == "tcp://dots"
    monkeypatch.setenv("SKERRY_ENDPOINT", "tcp://skerry")
    assert default_endpoint() == "tcp://skerry"
