"""The carrier of a node on real sockets, on the loopback interface."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

import skerry
import skerry.aio
from skerry.apps.node.distributor_carriage import (
    NodeDistributorCarriage,
    NodeDistributorConfig,
    group_of_node,
)
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.carriage.distributor.carriage import system_group
from skerry.engine.node import NodeCore
from skerry.errors import ConfigError, ConnectFailed
from skerry.protocol.access.wire import Wire
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.machine import Address, MachineEvent
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer

PATIENCE_S = 10.0
"""Far longer than anything here takes; a test that waits so long has failed."""
TYPES = skerry.define_types("struct Tick [cached=false] { 1: uint32 number; }")
Tick: Any = TYPES.Tick


def free_group() -> Address:
    """A group without members: its port is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return Address("239.255.77.7", probe.getsockname()[1])


@dataclass
class Member:
    """One node with its carrier."""

    server: NodeServer
    carrier: NodeDistributorCarriage
    events: list[MachineEvent] = field(default_factory=list)
    place: str = ""

    @property
    def numbers(self) -> Any:
        return self.carrier.statistics().carrier


@asynccontextmanager
async def member(
    group: Address,
    folder: Path,
    name: str,
    *,
    limits: ClientLimits | None = None,
    guest_count: int = 0,
    **config: Any,
) -> AsyncIterator[Member]:
    admission = Admission(AdmissionConfig(limits=limits or ClientLimits()), rng=Random(1))
    core = NodeCore(wall_offset_ns=wall_ns() - monotonic_ns(), admission=admission)
    server = NodeServer(core)
    for number in range(guest_count):
        core.open(Address("guest", number, is_stream=True), Wire(), monotonic_ns())
    events: list[MachineEvent] = []
    try:
        carrier = NodeDistributorCarriage(
            server,
            group,
            NodeDistributorConfig(interface="127.0.0.1", request_timeout_ms=50, **config),
            name=name,
            rng=Random(),
            hear=events.extend,
        )
        try:
            carrier.start()
            place = await server.listen(parse_endpoint(f"uds:{folder}/{name}.sock"))
            yield Member(server, carrier, events, place)
        finally:
            await carrier.close()
    finally:
        await server.close()


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until it holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what it asks about knows no events
            await asyncio.sleep(0)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        await work()

    asyncio.run(all_of_it())


async def hear(space: Any, count: int) -> list[int]:
    """Numbers of ticks, once there are so many."""
    found: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        async for event in space:
            found.append(event.object.number)
            if len(found) == count:
                break
    return found


@pytest.mark.slow
@pytest.mark.parametrize("is_sealed", [False, True])
def test_clients_of_two_nodes_hear_each_other(tmp_path: Path, is_sealed: bool) -> None:
    key_file = tmp_path / "keys.toml"
    key_file.write_text(f'[[key]]\nid = 1\nsecret = "{"ab" * 32}"\n')
    key_file.chmod(0o600)
    options: dict[str, Any] = {"key_file": str(key_file)} if is_sealed else {}

    async def work() -> None:
        group = free_group()
        async with (
            member(group, tmp_path, "a", **options) as first,
            member(group, tmp_path, "b", **options) as second,
            await skerry.aio.connect(first.place, name="p") as publisher,
            await skerry.aio.connect(second.place, name="q") as subscriber,
        ):
            ticks = subscriber.subscribe(Tick)
            await subscriber.flush()
            for number in range(500):
                publisher.publish(Tick(number=number))
            assert await hear(ticks, 500) == list(range(500))
            assert first.numbers.sent_count == second.numbers.brought_count == 500
            assert second.numbers.sent_count == 0
            seal: Any = first.carrier.statistics().seal
            assert (seal is not None and seal.sealed_count > 1) is is_sealed

    run(work)


@pytest.mark.slow
def test_nodes_with_different_keys_ignore_each_other(tmp_path: Path) -> None:
    for name in ("a", "b"):
        file = tmp_path / f"{name}.toml"
        file.write_text(f'[[key]]\nid = 1\nsecret = "{name * 64}"\n')
        file.chmod(0o600)

    async def work() -> None:
        group = free_group()
        async with (
            member(group, tmp_path, "a", key_file=str(tmp_path / "a.toml")) as first,
            member(group, tmp_path, "b", key_file=str(tmp_path / "b.toml")) as second,
            await skerry.aio.connect(first.place, name="p") as publisher,
        ):
            publisher.publish(Tick(number=1))

            def refused() -> int:
                seal: Any = second.carrier.statistics().seal
                count: int = seal.refused["forged"]
                return count

            # What announces the node, what describes the type, and the message.
            await until(lambda: refused() >= 4)
            assert second.numbers.group.faults["seal"] == refused()
            assert second.numbers.brought_count == 0
            assert second.numbers.group.sender_count == 1

    run(work)


@pytest.mark.slow
def test_keys_are_read_anew_while_messages_flow(tmp_path: Path) -> None:
    key_file = tmp_path / "keys.toml"

    def write(*ids: int) -> None:
        rows = [f'[[key]]\nid = {number}\nsecret = "{number:02x}{"cd" * 31}"' for number in ids]
        key_file.write_text("\n".join(rows))
        key_file.chmod(0o600)

    async def work() -> None:
        group = free_group()
        write(1)
        async with (
            member(group, tmp_path, "a", key_file=str(key_file)) as first,
            member(group, tmp_path, "b", key_file=str(key_file)) as second,
            await skerry.aio.connect(first.place, name="p") as publisher,
            await skerry.aio.connect(second.place, name="q") as subscriber,
        ):
            ticks = subscriber.subscribe(Tick)
            await subscriber.flush()
            for step, ids in enumerate([(1,), (1, 2), (2,)]):
                write(*ids)
                # Who sends with a new key does so after all understand it.
                second.carrier.reload_keys()
                first.carrier.reload_keys()
                publisher.publish(Tick(number=step))
                assert await hear(ticks, 1) == [step]
            seal: Any = second.carrier.statistics().seal
            assert seal.refused["key"] == 0
            key_file.write_text("nonsense")
            with pytest.raises(ConfigError):
                first.carrier.reload_keys()
            publisher.publish(Tick(number=9))
            assert await hear(ticks, 1) == [9]

    run(work)


@pytest.mark.slow
def test_a_carrier_that_finds_no_place_tries_again(tmp_path: Path) -> None:
    async def work() -> None:
        limits = ClientLimits(connection_count_max=1)
        group = free_group()
        async with member(group, tmp_path, "a", limits=limits, guest_count=1) as crowded:
            await until(lambda: crowded.numbers.cut_count == 2)
            assert not crowded.numbers.is_connected

    run(work)


def test_a_carrier_tells_where_it_is_and_leaves_the_group(tmp_path: Path) -> None:
    group = free_group()

    async def work() -> None:
        async with member(group, tmp_path, "a") as alone:
            assert alone.carrier.address_text == f"239.255.77.7:{group.port} on lo"
            await until(lambda: alone.numbers.is_connected)
            (row,) = alone.server.core.statistics().clients
            assert (row.name, row.kind) == ("carrier", "inside")

    run(work)


def test_without_being_told_there_is_no_group() -> None:
    assert group_of_node(NodeDistributorConfig(), "") is None
    assert group_of_node(NodeDistributorConfig(group="none"), "harbour") is None
    assert group_of_node(NodeDistributorConfig(), "harbour") == system_group("harbour")
    own = NodeDistributorConfig(group="239.192.7.1:4711")
    assert group_of_node(own, "harbour") == group_of_node(own, "") == Address("239.192.7.1", 4711)


def test_a_node_never_stops_asking_for_what_it_lost() -> None:
    config = NodeDistributorConfig(segment_bytes=1000).connection_config(application="åbo")
    assert config.nagging_window_ms == 0
    assert config.segment_bytes == 1000
    assert config.application == "bo"
    assert DistributorConfig().nagging_window_ms > 0


@pytest.mark.parametrize(
    "fields", [{"group": "10.0.0.1:4711"}, {"group": "harbour"}, {"ttl": 256}, {"segment_bytes": 1}]
)
def test_what_cannot_be_used_is_refused_at_once(fields: Any) -> None:
    with pytest.raises(ConfigError):
        NodeDistributorConfig(**fields)


def test_a_key_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(ConfigError, match="No such file"):
            async with member(free_group(), tmp_path, "a", key_file=str(tmp_path / "none")):
                pytest.fail("it should not have begun")

    run(work)


def test_a_group_that_cannot_be_joined_is_said_so(tmp_path: Path) -> None:
    async def work() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("239.255.77.8", 0))
            group = Address("239.255.77.8", taken.getsockname()[1])
            with pytest.raises(ConnectFailed):
                async with member(group, tmp_path, "a"):
                    pytest.fail("it should not have begun")

    run(work)
