"""A sealed group under faults: keys take turns while updates flow, and none of them is lost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import pytest

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import Delivered, UpdatesLost
from skerry.protocol.distributor.identity import draw_identity
from skerry.protocol.distributor.sealed_datagrams import GroupSeal
from skerry.protocol.machine import Address, MachineEvent
from skerry.protocol.sealing.group_keys import GroupKey, KeyRing
from skerry.testing import World
from skerry.testing.checkers import Checker
from skerry.testing.faults import Duplication, Loss, Reordering
from skerry.testing.node import Node, Setting
from skerry.testing.node_faults import ClockDrift, Pauses
from skerry.testing.packet import Packet
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND
from tests.sim.distributor import GROUP

CONFIG = DistributorConfig(
    segment_bytes=300,
    heartbeat_interval_ms=300,
    configuration_interval_ms=500,
    configuration_lost_count_max=20,
    holdback_delay_ms=10,
    holdback_threshold_per_s=20,
    request_timeout_ms=100,
    request_retry_count_max=1000,
)
ROTATIONS = (1, 2, 3)
"""Seconds at which another key is sent with."""


class Member(GroupConnection):
    """A connection whose seal knows the time: that of the last input."""

    def __init__(self, setting: Setting, first_byte: int) -> None:
        self.wall_offset_ns = setting.wall_offset_ns
        self.wall_ns = setting.now_ns + setting.wall_offset_ns
        self.ring = KeyRing(
            GroupKey(
                key_id=number,
                secret=bytes([first_byte, number]) * 16,
                from_ns=self.wall_ns + number * SECOND if number else 0,
            )
            for number in (0, *ROTATIONS)
        )
        self.seal = GroupSeal(self.ring, wall_ns=lambda: self.wall_ns)
        super().__init__(
            group=GROUP,
            identity=draw_identity(
                address=b"\x0a\x00" + setting.rng.randbytes(2),
                sender_id=61234,
                process_id=setting.life,
                wall_ms=self.wall_ns // MS,
                rng=setting.rng,
            ),
            rng=setting.rng,
            now_ns=setting.now_ns,
            config=CONFIG,
            seal=self.seal,
            tracer=setting.tracer,
        )
        self.subscribe("/...", None)
        self.open_publisher(setting.now_ns)

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        self.wall_ns = now_ns + self.wall_offset_ns
        super().receive(data, source, now_ns)

    def advance(self, now_ns: int) -> None:
        self.wall_ns = now_ns + self.wall_offset_ns
        super().advance(now_ns)

    def say(self, subject: str, data: bytes, now_ns: int) -> None:
        self.wall_ns = now_ns + self.wall_offset_ns
        self.publish(subject, data, now_ns)


class Heard(Checker):
    """Each member hears all of its own group in order, and nothing else."""

    def __init__(self) -> None:
        self.next: dict[tuple[str, str], int] = {}
        self.said: dict[str, int] = {}
        self.key_ids: set[int] = set()

    def arrived(self, packet: Packet) -> str | None:
        if packet.data[:2] != b"\x02\x00":
            return "a datagram in clear"
        self.key_ids.add(packet.data[20])
        return None

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, UpdatesLost):
            return f"{node.name} lost {event}"
        if isinstance(event, Delivered):
            for subject, data in event.updates:
                name = subject[1:]
                if group_of(name) != group_of(node.name):
                    return f"{node.name} heard {name}"
                expected = self.next.get((node.name, name), 0)
                if int(data) != expected:
                    return f"{node.name} heard {int(data)} of {name} instead of {expected}"
                self.next[node.name, name] = expected + 1
        return None

    def liveness(self, world: World) -> str | None:
        for name, count in self.said.items():
            for other in world.nodes:
                if group_of(name) == group_of(other) and self.next.get((other, name)) != count:
                    return f"{other} heard {self.next.get((other, name))} of {count} from {name}"
        return None


def group_of(name: str) -> str:
    return name[0]


def play(world: World) -> Heard:
    """Two groups on one address that have nothing in common, three members each."""
    members: list[Node[Member]] = [
        world.add(f"{group}{number}", partial(Member, first_byte=first), groups=[GROUP])
        for first, group in ((1, "a"), (2, "b"))
        for number in range(3)
    ]
    heard = Heard()
    world.watch(heard)

    def act(_world: World, rng: Random) -> None:
        node = rng.choice(members)
        if node.is_running:
            number = heard.said.get(node.name, 0)
            heard.said[node.name] = number + 1
            data = str(number).rjust(rng.choice([1, 20, 900])).encode()
            node.do(lambda machine, now_ns: machine.say(f"/{node.name}", data, now_ns))

    # By then each member has received a heartbeat of each other one, and misses nothing after it.
    world.run_for(600 * MS)
    world.drive(Repeat(act, gap_ns_min=MS, gap_ns_max=10 * MS))
    world.inject(Loss(0.2))
    world.inject(Duplication(0.1))
    world.inject(Reordering(0.1, delay_ns_max=50 * MS))
    world.inject(Pauses(gap_ns=SECOND, length_ns_max=SECOND // 2))
    world.inject(ClockDrift(drift_ppm_max=500))
    world.run(faults_ns=4 * SECOND, calm_ns=20 * SECOND)
    return heard


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_keys_change_under_traffic_without_loss(seed: int) -> None:
    world = World(seed)
    heard = play(world)
    assert heard.key_ids == {0, *ROTATIONS}
    assert sum(heard.said.values()) > 300
    statistics: Sequence[Any] = [node.machine.seal.statistics() for node in world.nodes.values()]
    assert {one.key_id for one in statistics} == {max(ROTATIONS)}
    # All of the other group, and what the network brought twice.
    assert all(one.refused["forged"] > 100 for one in statistics)
    assert all(one.refused["replayed"] > 10 for one in statistics)
    assert all(one.refused["key"] == one.refused["plain"] == 0 for one in statistics)
