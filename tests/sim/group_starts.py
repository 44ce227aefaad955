"""The start of streams in a group: subscribers join shortly before or after each publisher, their
clocks disagree, and the first datagrams of each publisher are lost.

Each update has its own datagram, so the number of an update is the sequence number of its datagram
minus one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import Delivered, StartUnknown, UpdatesLost
from skerry.protocol.distributor.identity import draw_identity
from skerry.protocol.distributor.messages import HEARTBEAT, RETRANSMISSION, UPDATE
from skerry.protocol.machine import Address, MachineEvent, Transmit
from skerry.testing.checkers import Checker
from skerry.testing.faults import LoseIf, Loss
from skerry.testing.node import Node, Setting
from skerry.testing.packet import Packet
from skerry.testing.scenarios import scenario
from skerry.testing.world import MS, SECOND, World
from tests.sim.distributor import GROUP
from tests.sim.distributor_checkers import mark, marked

__all__ = ["StartsAccounted", "group_starts", "play_starts"]

_EARLY_NS: Final = 250 * MS
"""An update may be delivered if it was published at most this long before the subscription. It
covers the transit time of a datagram and the clock drift while nothing is received."""
_DRIFT_PPM_MAX: Final = 300
_JAVA_KIND_MAX: Final = 6
_SKEWS_NS: Final = (0, 15 * MS, 500 * MS, 4 * SECOND, 60 * SECOND, 3600 * SECOND)


_Make = Callable[..., GroupConnection]
"""Makes the machine under test."""


class _JavaLike(GroupConnection):
    """A member of the group that does not implement the additions of skerry to the protocol."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        if data[2] <= _JAVA_KIND_MAX:
            super().receive(data, source, now_ns)

    def take_transmits(self) -> Sequence[Transmit]:
        return [one for one in super().take_transmits() if one.data[2] <= _JAVA_KIND_MAX]


class StartsAccounted(Checker):
    """Every update that is published after a receiver joined is delivered to it or reported as
    lost, provided that any message of its publisher arrived."""

    def __init__(self) -> None:
        self.joined_ns: dict[str, int] = {}
        """When each subscriber joined, in world time."""
        self._published: dict[str, list[int]] = defaultdict(list)
        """When the updates of each publisher were published, in world time."""
        self._first_seqs: dict[str, int] = {}
        self._ids: dict[tuple[str, int], str] = {}
        self._is_java: dict[str, bool] = {}
        self._delivered: dict[tuple[str, str], set[int]] = defaultdict(set)
        self._lost: dict[tuple[str, str], set[int]] = defaultdict(set)
        self._last_seqs: dict[tuple[str, str], int] = {}
        """The highest sequence number that a subscriber received from a publisher."""

    def started(self, node: Node[GroupConnection], *, is_java: bool) -> None:
        """Record that a publisher was added."""
        mine = node.machine.identity
        self._ids[".".join(map(str, mine.address)), mine.sender_id] = node.name
        self._is_java[node.name] = is_java

    def published(self, name: str, now_ns: int) -> int:
        """Record the next update of a publisher and return its number."""
        self._published[name].append(now_ns)
        return len(self._published[name]) - 1

    def arrived(self, packet: Packet) -> str | None:
        path = (packet.destination.name, packet.source.name)
        data, last = packet.data, 0
        if data[2] in (UPDATE, RETRANSMISSION):
            last = int.from_bytes(data[20:24], "big")
        elif data[2] == HEARTBEAT:
            last = int.from_bytes(data[-4:], "big")
        self._last_seqs[path] = max(self._last_seqs.get(path, 0), last)
        return None

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, Delivered):
            name = self._ids[event.sender.address, event.sender.sender_id]
            for _, data in event.updates:
                number = marked(data)
                self._delivered[node.name, name].add(number)
                too_early_ns = self.joined_ns[node.name] - _EARLY_NS
                if self._published[name][number] < too_early_ns and not self._is_java[name]:
                    return f"{node.name} got number {number} of {name} from before it joined"
        if isinstance(event, (StartUnknown, UpdatesLost)):
            name = self._ids[event.sender.address, event.sender.sender_id]
            # Equal numbers: no number of the sender is known.
            is_any = event.first_seq == event.stop_seq
            stop = len(self._published[name]) if is_any else event.stop_seq - 1
            self._lost[node.name, name].update(range(event.first_seq - 1, stop))
        return None

    def missing(self) -> list[str]:
        """Updates that are missing without a report."""
        found = []
        for subscriber, joined_ns in self.joined_ns.items():
            for name, times_ns in self._published.items():
                last_seq = self._last_seqs.get((subscriber, name))
                if last_seq is None:
                    continue
                if self._is_java[name]:
                    # It leaves without a message, so its last updates cannot be known.
                    times_ns = times_ns[:last_seq]
                known = self._delivered[subscriber, name] | self._lost[subscriber, name]
                numbers = [n for n, ns in enumerate(times_ns) if ns >= joined_ns and n not in known]
                found += [f"{subscriber} misses {n} of {name}" for n in numbers]
        return found

    def is_whole(self) -> bool:
        """Whether no loss was reported."""
        return not any(self._lost.values())


def play_starts(
    world: World,
    node_count: int,
    *,
    make: _Make = GroupConnection,
    java_rate: float = 0.25,
    loss: float | None = None,
    first_lost_count_max: int = 20,
) -> StartsAccounted:
    """Publishers and subscribers join in any order within some seconds. Each subscriber loses the
    first datagrams of each publisher, and others at random. `make` is the class under test."""
    rng = world.random("starts")
    accounted = StartsAccounted()
    world.watch(accounted)
    rate = rng.choice([0.0, 0.1, 0.3]) if loss is None else loss
    world.inject(Loss(rate))
    losing = _LosesFirst(rng, first_lost_count_max)
    world.inject(LoseIf(losing))
    publishers: list[Node[GroupConnection]] = []
    for n in range(node_count):
        _work(world, rng, accounted, publishers, rng.randrange(MS, 3 * SECOND))
        if n == 0 or (n % 4 == 0):
            name = f"sub-{n}"
            accounted.joined_ns[name] = world.now_ns
            node = world.add(
                name, partial(_subscriber, make, rng.choice(_SKEWS_NS)), groups=[GROUP]
            )
        else:
            is_java = rng.random() < java_rate
            skew_ns = rng.choice(_SKEWS_NS) * rng.choice([1, -1])
            node = world.add(
                f"pub-{n}", partial(_publisher, make, skew_ns, is_java), groups=[GROUP]
            )
            accounted.started(node, is_java=is_java)
            publishers.append(node)
        world.set_drift(node, rng.randrange(-_DRIFT_PPM_MAX, _DRIFT_PPM_MAX + 1))
    _work(world, rng, accounted, publishers, 2 * SECOND)
    for node in publishers:
        if rng.random() < 0.5:
            node.do(lambda machine, now_ns: machine.close(now_ns))
    world.run_for(60 * SECOND)
    missing = accounted.missing()
    if missing:
        raise world.failure("starts", f"missing without a report: {missing}")
    return accounted


def _work(
    world: World,
    rng: Random,
    accounted: StartsAccounted,
    publishers: list[Node[GroupConnection]],
    duration_ns: int,
) -> None:
    """Let publishers publish at random times for `duration_ns`."""
    stop_ns = world.now_ns + duration_ns
    while world.now_ns < stop_ns:
        if publishers and rng.random() < 0.7:
            # Most often the newest publisher, so that it publishes right after its start.
            node = publishers[-1] if rng.random() < 0.6 else rng.choice(publishers)
            for _ in range(rng.choice([1, 1, 3])):
                number = accounted.published(node.name, world.now_ns)
                node.do(partial(_publish, number))
        world.run_for(min(rng.choice([MS, 20 * MS, SECOND]), stop_ns - world.now_ns))


def _publish(number: int, machine: GroupConnection, now_ns: int) -> None:
    machine.publish(f"/{number}", mark(number, 1), now_ns)


class _LosesFirst:
    """Loses the first datagrams on the path from each publisher to each subscriber."""

    def __init__(self, rng: Random, count_max: int) -> None:
        self._rng = rng
        self._count_max = count_max
        self._left: dict[tuple[str, str], int] = {}

    def __call__(self, packet: Packet) -> bool:
        path = (packet.source.name, packet.destination.name)
        if path not in self._left:
            count = self._rng.choice([0, 0, 1, 2, 3, 5, 10, 20])
            self._left[path] = min(count, self._count_max)
        self._left[path] -= 1
        return self._left[path] >= 0


def _make(make: _Make, setting: Setting, *, skew_ns: int, is_java: bool = False) -> GroupConnection:
    setting = replace(setting, wall_offset_ns=setting.wall_offset_ns + skew_ns)
    rng = setting.rng
    identity = draw_identity(
        address=b"\x0a\x00" + rng.randbytes(2),
        sender_id=61234 + rng.randrange(100),
        process_id=setting.life,
        wall_ms=(setting.now_ns + setting.wall_offset_ns) // MS,
        rng=rng,
    )
    if is_java:
        make = _JavaLike
        application_id = int.from_bytes(identity.address[2:], "big") << 16
        identity = replace(identity, application_id=application_id)
    return make(
        group=GROUP,
        identity=identity,
        rng=rng,
        now_ns=setting.now_ns,
        config=DistributorConfig(),
        tracer=setting.tracer,
        wall_offset_ns=setting.wall_offset_ns,
    )


def _publisher(make: _Make, skew_ns: int, is_java: bool, setting: Setting) -> GroupConnection:
    connection = _make(make, setting, skew_ns=skew_ns, is_java=is_java)
    connection.open_publisher(setting.now_ns)
    return connection


def _subscriber(make: _Make, skew_ns: int, setting: Setting) -> GroupConnection:
    connection = _make(make, setting, skew_ns=skew_ns)
    connection.subscribe("/...", None, setting.now_ns)
    return connection


def _play(world: World, node_count: int) -> None:
    play_starts(world, node_count)


group_starts = scenario(
    "subscribers receive, or are notified of, every update published after they joined",
    node_count=9,
    node_count_min=2,
)(_play)
