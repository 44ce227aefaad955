"""Scenarios of the distributor: publishers and subscribers of one group under all faults.

As with the small machines, the factories are arguments, so that a test can put a broken one in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.identity import draw_identity
from skerry.protocol.machine import Address
from skerry.testing.faults import Duplication, LoseIf, Loss, Reordering
from skerry.testing.machines.distributor_checkers import (
    AllAccounted,
    AllDelivered,
    FewAnswers,
    NothingGivenUp,
    StreamsInOrder,
    mark,
)
from skerry.testing.node import Node, Setting
from skerry.testing.node_faults import ClockDrift, Partitions, Pauses, Restarts
from skerry.testing.packet import Packet
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World

__all__ = [
    "GROUP",
    "MakeConnection",
    "distributor",
    "distributor_short_lives",
    "distributor_storm",
    "make_connection",
    "play_distributor",
    "play_short_lives",
    "play_storm",
]

GROUP: Final = Address("239.192.7.1", 4711)
_STORM_LOST_COUNT: Final = 100
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
"""With a cache and a patience that are not enough, so that updates are lost for good."""

MakeConnection = Callable[[Setting, DistributorConfig], GroupConnection]
"""Makes the machine under test."""


def make_connection(setting: Setting, config: DistributorConfig) -> GroupConnection:
    """A sound one, with an identity that is new in each life."""
    # Some begin just before their numbers wrap.
    return _make(setting, config, setting.rng.choice([1, 1, 2**32 - 5, 2**31 - 5]))


def _make_from_one(setting: Setting, config: DistributorConfig) -> GroupConnection:
    return _make(setting, config, 1)


def _make(setting: Setting, config: DistributorConfig, first_seq: int) -> GroupConnection:
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
class _Roles:
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


class _Publishing:
    """What publishers do: number their updates, and publish one, or some, or a large one."""

    def __init__(
        self,
        nodes: list[Node[GroupConnection]],
        delivered: AllDelivered,
        *,
        goodbye_rate: float = 0.0,
    ) -> None:
        self._nodes = nodes
        self._delivered = delivered
        self._goodbye_rate = goodbye_rate
        self._numbers: dict[tuple[str, int], int] = {}
        self._closed: set[tuple[str, int]] = set()

    def act(self, _world: World, rng: Random) -> None:
        node = rng.choice(self._nodes)
        if node.is_running and not self._is_away(node, rng):
            kind = rng.random()
            sizes = [rng.randrange(60)]
            if kind < 0.1:
                sizes = [rng.randrange(250, 1200)]
            elif kind < 0.3:
                sizes = [rng.randrange(60) for _ in range(rng.randrange(2, 12))]
            self._publish(node, sizes)

    def last_act(self) -> None:
        """One update of each, after all faults."""
        for node in self._nodes:
            if (node.name, node.life) in self._closed:
                node.do(lambda machine, now_ns: machine.open_publisher(now_ns))
            self._publish(node, [1])

    def _is_away(self, node: Node[GroupConnection], rng: Random) -> bool:
        """Now and then a publisher says goodbye, and is back a little later."""
        life = (node.name, node.life)
        if life in self._closed:
            if rng.random() < 0.2:
                self._closed.remove(life)
                node.do(lambda machine, now_ns: machine.open_publisher(now_ns))
        elif rng.random() < self._goodbye_rate:
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
        taken = node.do(lambda machine, now_ns: machine.publish_many(updates, 0, now_ns))
        assert taken == len(updates)
        self._delivered.published(node, number + len(updates) - 1)


def play_distributor(
    world: World,
    node_count: int,
    *,
    make: MakeConnection = make_connection,
    calm_ns: int = 60 * SECOND,
) -> None:
    """Up to five publishers and twenty subscribers, `node_count` together at the most, under all
    faults; some of them with a cache and a patience that are not enough."""
    rng = world.random("roles")
    is_poor = rng.random() < 0.3
    roles = _Roles(make=make, config=_POOR if is_poor else _CONFIG)
    publisher_count = min(rng.randrange(1, 6), node_count - 1)
    # Crowds are rarer than small groups, and cost more.
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
    publishing = _Publishing(publishers, delivered, goodbye_rate=0.01)
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


def play_storm(world: World, node_count: int, *, make: MakeConnection = make_connection) -> None:
    """All receivers lose the same hundred datagrams; hardly more than one asks for each."""
    config = DistributorConfig()
    roles = _Roles(make=make, config=config)
    publisher = world.add("pub-0", roles.publisher, groups=[GROUP])
    for n in range(node_count - 1):
        world.add(f"sub-{n}", roles.subscriber, groups=[GROUP])
    delivered, answers = AllDelivered(), FewAnswers(publisher.name)
    for checker in (StreamsInOrder(), NothingGivenUp(), delivered, answers):
        world.watch(checker)
    rng = world.random("storm")
    count = 3 * _STORM_LOST_COUNT
    # All in a row, as from a full buffer, or here and there, as from bad luck.
    first = rng.randrange(2, count - _STORM_LOST_COUNT)
    row = range(first, first + _STORM_LOST_COUNT)
    lost = set(rng.choice([row, rng.sample(range(2, count), _STORM_LOST_COUNT)]))
    begin = publisher.machine.statistics().last_seq
    world.inject(LoseIf(partial(_is_lost, lost, begin)))
    publishing = _Publishing([publisher], delivered)
    world.drive(Repeat(publishing.act, gap_ns_min=MS, count=count))
    world.run_for(SECOND)
    world.calm()
    publishing.last_act()
    world.run(faults_ns=1, calm_ns=10 * SECOND)
    if answers.asked_count > 3 * _STORM_LOST_COUNT or answers.answer_count > 2 * _STORM_LOST_COUNT:
        raise world.failure(
            "storm", f"{answers.asked_count} asked for, {answers.answer_count} sent again"
        )


def play_short_lives(
    world: World, node_count: int, *, make: MakeConnection = _make_from_one, loss: float = 0.3
) -> None:
    """Publishers that start, publish a little and end, in a group that loses much: each update is
    delivered, or told as lost. One subscriber is there before all of them, and one joins late."""
    roles = _Roles(make=make, config=DistributorConfig())
    accounted = AllAccounted()
    world.watch(StreamsInOrder())
    world.watch(accounted)
    world.inject(Loss(loss))
    rng = world.random("lives")
    early = world.add("sub-early", roles.subscriber, groups=[GROUP])
    publisher_count = node_count - 2
    for n in range(publisher_count):
        world.run_for(rng.randrange(MS, 300 * MS))
        if n == publisher_count // 2:
            world.add("sub-late", roles.subscriber, groups=[GROUP])
        node = world.add(f"pub-{n}", roles.publisher, groups=[GROUP])
        count = rng.choice([1, 1, 5, 30])
        updates = [(f"/{node.name}/{index}", mark(index, 1)) for index in range(count)]
        node.do(partial(_publish_all, updates))
        accounted.published(node, count)
        node.do(lambda machine, now_ns: machine.close(now_ns))
    world.run_for(60 * SECOND)
    missing = accounted.missing(early)
    if missing:
        raise world.failure("short lives", f"missing in silence: {missing}")


def _publish_all(updates: list[tuple[str, bytes]], machine: GroupConnection, now_ns: int) -> None:
    for subject, data in updates:
        machine.publish(subject, data, now_ns)


def _is_lost(lost: set[int], begin: int, packet: Packet) -> bool:
    data = packet.data
    return data[2] == 1 and (int.from_bytes(data[20:24], "big") - begin) & 0xFFFFFFFF in lost


distributor = scenario(
    "publishers and subscribers of a multicast group lose nothing unnoticed",
    node_count=25,
    node_count_min=2,
    node_count_max=25,
)(play_distributor)
distributor_storm = scenario(
    "all receivers of a group lose the same datagrams, and few ask for them",
    node_count=51,
    node_count_min=2,
)(play_storm)
distributor_short_lives = scenario(
    "publishers that come and go in a group that loses much leave nothing missing in silence",
    node_count=22,
    node_count_min=3,
)(play_short_lives)
