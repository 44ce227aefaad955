"""The scenario of the distributor: publishers and subscribers of one group under all faults.

The function that makes a connection is an argument, so that a test can pass a broken one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.identity import draw_identity
from skerry.protocol.machine import Address
from skerry.testing.faults import Duplication, Loss, Reordering
from skerry.testing.node import Node, Setting
from skerry.testing.node_faults import ClockDrift, Partitions, Pauses, Restarts
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World
from tests.sim.distributor_checkers import (
    AllDelivered,
    NothingGivenUp,
    StreamsInOrder,
    mark,
)

__all__ = [
    "GROUP",
    "GroupPublishing",
    "GroupRoles",
    "MakeConnection",
    "distributor",
    "make_connection",
    "new_connection",
    "play_distributor",
]

GROUP: Final = Address("239.192.7.1", 4711)
_CONFIG: Final = DistributorConfig(
    segment_bytes=256,
    heartbeat_interval_ms=300,
    configuration_interval_ms=500,
    configuration_lost_count_max=20,
    holdback_delay_ms=10,
    holdback_threshold_per_s=20,
    request_timeout_ms=100,
    request_retry_count_max=1000,
)
_POOR: Final = replace(
    _CONFIG, cache_bytes_max=2000, request_retry_count_max=2, waiting_bytes_max=2000
)
"""Too small a cache and too few retries, so that some updates are lost for good."""

MakeConnection = Callable[[Setting, DistributorConfig], GroupConnection]
"""Makes the machine under test."""


def make_connection(setting: Setting, config: DistributorConfig) -> GroupConnection:
    """A correct connection, with a new identity in each life."""
    # Some connections start just before their sequence numbers wrap.
    return new_connection(setting, config, setting.rng.choice([1, 1, 2**32 - 5, 2**31 - 5]))


def new_connection(setting: Setting, config: DistributorConfig, first_seq: int) -> GroupConnection:
    """A connection with a random identity, whose first datagram has the number `first_seq`."""
    rng = setting.rng
    identity = draw_identity(
        address=b"\x0a\x00" + rng.randbytes(2),
        sender_id=61234 + rng.randrange(100),
        process_id=setting.life,
        wall_ms=(setting.now_ns + setting.wall_offset_ns) // MS,
        rng=rng,
    )
    return GroupConnection(
        group=GROUP,
        identity=identity,
        rng=rng,
        now_ns=setting.now_ns,
        config=config,
        tracer=setting.tracer,
        first_seq=first_seq,
        wall_offset_ns=setting.wall_offset_ns,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRoles:
    """Factories of the members of a group."""

    make: MakeConnection
    config: DistributorConfig

    def publisher(self, setting: Setting) -> GroupConnection:
        connection = self.make(setting, self.config)
        connection.open_publisher(setting.now_ns)
        return connection

    def subscriber(self, setting: Setting) -> GroupConnection:
        connection = self.make(setting, self.config)
        connection.subscribe("/...", None, setting.now_ns)
        return connection

    def both(self, setting: Setting) -> GroupConnection:
        connection = self.publisher(setting)
        connection.subscribe("/...", None, setting.now_ns)
        return connection


class GroupPublishing:
    """The workload: publishers number their updates and publish one, several, or a large one."""

    def __init__(
        self,
        nodes: list[Node[GroupConnection]],
        delivered: AllDelivered,
        *,
        close_rate: float = 0.0,
    ) -> None:
        self._nodes = nodes
        self._delivered = delivered
        self._close_rate = close_rate
        self._numbers: dict[tuple[str, int], int] = {}
        self._closed: set[tuple[str, int]] = set()

    def act(self, _world: World, rng: Random) -> None:
        node = rng.choice(self._nodes)
        if node.is_running and not self._is_closed(node, rng):
            kind = rng.random()
            sizes = [rng.randrange(60)]
            if kind < 0.1:
                sizes = [rng.randrange(250, 1200)]
            elif kind < 0.3:
                sizes = [rng.randrange(60) for _ in range(rng.randrange(2, 12))]
            self._publish(node, sizes)

    def last_act(self) -> None:
        """Publish one update of each publisher. Called after all faults have ended."""
        for node in self._nodes:
            if (node.name, node.life) in self._closed:
                node.do(lambda machine, now_ns: machine.open_publisher(now_ns))
            self._publish(node, [1])

    def _is_closed(self, node: Node[GroupConnection], rng: Random) -> bool:
        """Whether the publisher is closed. Closes an open one, or opens a closed one, at random."""
        life = (node.name, node.life)
        if life in self._closed:
            if rng.random() < 0.2:
                self._closed.remove(life)
                node.do(lambda machine, now_ns: machine.open_publisher(now_ns))
        elif rng.random() < self._close_rate:
            self._closed.add(life)
            node.do(lambda machine, now_ns: machine.close_publisher(now_ns))
        return life in self._closed

    def _publish(self, node: Node[GroupConnection], sizes: list[int]) -> None:
        life = (node.name, node.life)
        number = self._numbers.get(life, 0)
        updates = [
            (f"/{node.name}/{number + index}", mark(number + index, size))
            for index, size in enumerate(sizes)
        ]
        self._numbers[life] = number + len(updates)
        accepted = node.do(lambda machine, now_ns: machine.publish_many(updates, 0, now_ns))
        assert accepted == len(updates)
        self._delivered.published(node, number + len(updates) - 1)


def play_distributor(
    world: World,
    node_count: int,
    *,
    make: MakeConnection = make_connection,
    calm_ns: int = 60 * SECOND,
) -> None:
    """Run up to five publishers and twenty subscribers, at most `node_count` together, under all
    faults. In some worlds the cache is too small and retries are too few."""
    rng = world.random("roles")
    is_poor = rng.random() < 0.3
    roles = GroupRoles(make=make, config=_POOR if is_poor else _CONFIG)
    publisher_count = min(rng.randrange(1, 6), node_count - 1)
    # Large groups take longer to simulate, so they are rare.
    subscriber_count = min(1 + int(20 * rng.random() ** 4), node_count - publisher_count)
    publishers = [
        world.add(f"pub-{n}", rng.choice([roles.publisher, roles.both]), groups=[GROUP])
        for n in range(publisher_count)
    ]
    for n in range(subscriber_count):
        world.add(f"sub-{n}", roles.subscriber, groups=[GROUP])
    delivered = AllDelivered()
    for checker in (StreamsInOrder(), delivered):
        world.watch(checker)
    if not is_poor:
        world.watch(NothingGivenUp())
    publishing = GroupPublishing(publishers, delivered, close_rate=0.01)
    world.drive(Repeat(publishing.act, gap_ns_min=MS, gap_ns_max=40 * MS))
    world.inject(Loss(rng.uniform(0.0, 0.3)))
    world.inject(Duplication(rng.uniform(0.0, 0.2)))
    world.inject(Reordering(rng.uniform(0.0, 0.2), delay_ns_max=50 * MS))
    world.inject(Partitions(gap_ns=2 * SECOND, length_ns_max=5 * SECOND))
    world.inject(Pauses(gap_ns=SECOND, length_ns_max=SECOND))
    world.inject(Restarts(gap_ns=3 * SECOND, down_ns_max=SECOND))
    world.inject(ClockDrift(drift_ppm_max=500))
    world.run_for(4 * SECOND)
    world.calm()
    publishing.last_act()
    world.run(faults_ns=1, calm_ns=calm_ns)


distributor = scenario(
    "subscribers of a multicast group receive every update or learn of its loss",
    node_count=25,
    node_count_min=2,
    node_count_max=25,
)(play_distributor)
