"""The node as a member of its system, on loopback: the picture that clients see, and its ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from skerry.apps.node.peers import NodePeersConfig, NodeTypeConfig
from skerry.apps.node.system_member import SystemMember
from skerry.engine.events import NodesForgotten
from skerry.engine.services.picture import Observations, PublishedPicture
from skerry.engine.system.config import Rejoin
from skerry.engine.system.events import MemberStatistics, SystemLeft
from skerry.errors import ConfigError, Excluded
from skerry.objects.base import Struct
from skerry.runtime.clock import monotonic_ns

PATIENCE_S = 30.0


class Core:
    """What a member tells its node."""

    def __init__(self) -> None:
        self.pictures: list[PublishedPicture] = []
        self.raw: list[Any] = []
        self.probes: list[Any] = []
        self.links: list[Any] = []

    def set_picture(self, seen: PublishedPicture, _now_ns: int) -> None:
        self.pictures.append(seen)

    def wants(self, type_name: str) -> bool:
        return type_name in ("SkerryRawStatistics", "SkerryProbe", "SkerryLink")

    def publish(self, objects: list[Struct], _now_ns: int) -> None:
        for one in objects:
            rows = {"SkerryRawStatistics": self.raw, "SkerryProbe": self.probes}
            rows.get(one.descriptor.name, self.links).append(one)


class Server:
    def __init__(self) -> None:
        self.core = Core()
        self.carried_count = 0

    def carry(self) -> None:
        self.carried_count += 1


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def member(name: str, *, node_id: int, **fields: Any) -> tuple[SystemMember, Core]:
    server: Any = Server()
    config = NodePeersConfig(
        **{
            "control": f"127.0.0.1:{free_port()}",
            "types": (
                NodeTypeConfig(
                    name="node",
                    multicast=False,
                    heartbeat_interval_ms=50,
                    lost_heartbeat_count_max=20,
                ),
            ),
            "seed_group": "none",
            "alone_timeout_s": 4.0,
            "rejoin": Rejoin.MANUAL,
            **fields,
        }
    )
    made = SystemMember(
        server, config, system="test", name=name, node_id=node_id, rng=Random(node_id)
    )
    return made, server.core


async def until(condition: Callable[[], object]) -> None:
    end_ns = monotonic_ns() + int(PATIENCE_S * 1e9)
    while not condition():
        assert monotonic_ns() < end_ns
        await asyncio.sleep(0.005)


def alive(core: Core) -> set[str]:
    return {one.name for one in core.pictures[-1].state.alive()} if core.pictures else set()


def test_two_members_publish_one_picture_and_raw_statistics() -> None:
    async def main() -> None:
        async with AsyncExitStack() as ending:
            port = free_port()
            first, seen = member("north", node_id=1, control=f"127.0.0.1:{port}")
            second, others = member("south", node_id=2, seeds=(f"localhost:{port}",))
            assert first.trouble == "the network interface of the system is awaited"
            assert first.statistics() is None
            for one in (first, second):
                ending.push_async_callback(one.close)
                one.start()
            await until(lambda: alive(seen) == alive(others) == {"north", "south"})
            assert seen.pictures[-1].state.digest == others.pictures[-1].state.digest
            assert seen.pictures[-1].incarnation_id == others.pictures[-1].incarnation_id
            assert (seen.pictures[-1].node, others.pictures[-1].node) == (1, 2)
            assert first.trouble == ""
            await until(lambda: len({(row.observer, row.node) for row in seen.raw}) == 2)
            own = next(row for row in seen.raw if row.observer == 1)
            assert (own.observerName, own.nodeName, own.isDead) == ("north", "south", False)
            await until(lambda: any(row.clockOffset is not None for row in seen.raw))
            await until(lambda: any(row.wholeRoundTripTime is not None for row in seen.probes))
            assert {(row.node, row.datagramBytes) for row in seen.probes} == {(2, 32_768)}
            statistics = first.statistics()
            assert isinstance(statistics, MemberStatistics)
            assert statistics.alive_count == 2
            assert statistics.machine.discovery.known_count == 1
            # A node that stops tells the others, and reports nothing more of them.
            await second.close()
            links = {(row.sender, row.receiver): row for row in others.links}
            assert links.keys() == {("south", "north"), ("north", "south")}
            assert all(row.datagrams > 0 for row in links.values())
            await until(lambda: alive(seen) == {"north"})
            (south,) = [one for one in seen.pictures[-1].state.nodes if one.name == "south"]
            assert south.is_dead
            first.node_reported([NodesForgotten(nodes=(2,), client_name="operator")])
            await until(lambda: first.statistics().machine.picture.dead_count == 0)  # type: ignore[union-attr]

    asyncio.run(main())


def test_an_excluded_node_shows_itself_dead_and_ends_where_it_may_not_rejoin() -> None:
    async def main() -> None:
        one, seen = member("north", node_id=1, alone_timeout_s=0.1)
        one.start()
        await until(lambda: alive(seen) == {"north"})
        one._observations = Observations(unheard_by={1: (9,)})  # Node 9 is gone meanwhile.
        one._report([SystemLeft(reason=3, by=9)])
        assert seen.pictures[-1].observations == Observations()
        assert one.trouble == "the system has excluded this node (slow)"
        (me,) = seen.pictures[-1].state.nodes
        assert (me.is_dead, me.dead_reason) == (True, 3)
        with pytest.raises(Excluded, match="slow"):
            await one.failure
        await one.close()

    asyncio.run(main())


def test_an_interface_that_does_not_exist_ends_the_program() -> None:
    async def main() -> None:
        one, _ = member("north", node_id=1, control="10.255.255.*", interface_timeout_s=0)
        one.start()
        with pytest.raises(ConfigError, match=r"no address of this computer matches 10\.255"):
            await one.failure
        await one.close()

    asyncio.run(main())


def test_a_seed_that_cannot_be_resolved_is_reported_once_and_others_are_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with AsyncExitStack() as ending:
            port = free_port()
            first, seen = member("north", node_id=1, control=f"127.0.0.1:{port}")
            second, others = member(
                "south", node_id=2, seeds=("no-such-host.invalid", f"127.0.0.1:{port}")
            )
            for one in (first, second):
                ending.push_async_callback(one.close)
                one.start()
            await until(lambda: alive(seen) == alive(others) == {"north", "south"})

    asyncio.run(main())
    (record,) = [one for one in caplog.records if one.message == "a seed cannot be resolved"]
    assert vars(record)["seed"] == "no-such-host.invalid"


def test_keys_are_read_again(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"

    def write(key_id: int) -> None:
        file.write_text(f'[[key]]\nid = {key_id}\nsecret = "{"5a" * 32}"\n')
        file.chmod(0o600)

    async def main() -> None:
        write(1)
        one, _ = member("north", node_id=1, key_file=str(file))
        one.start()
        await until(lambda: one.statistics() is not None)
        write(7)
        one.reload_keys()
        found = one.statistics()
        assert found is not None
        assert found.machine.seal is not None
        assert found.machine.seal.key_id == 7
        file.write_text("nothing")
        with pytest.raises(ConfigError):
            one.reload_keys()
        await one.close()

    asyncio.run(main())
