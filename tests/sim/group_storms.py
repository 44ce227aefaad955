"""Two hard cases for a group: all receivers lose the same datagrams, and publishers that live for a
short time lose many.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any, Final

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import Delivered, StartUnknown, UpdatesLost
from skerry.protocol.distributor.messages import (
    REQUEST,
    RETRANSMISSION,
    HeartbeatMessage,
    Position,
    RepairRequest,
    UpdateMessage,
)
from skerry.protocol.distributor.wire import JAVA_WIRE
from skerry.protocol.machine import MachineEvent
from skerry.testing.checkers import Checker
from skerry.testing.faults import LoseIf, Loss
from skerry.testing.node import Node, Setting
from skerry.testing.packet import Packet
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World
from tests.sim.distributor import (
    GROUP,
    GroupPublishing,
    GroupRoles,
    MakeConnection,
    make_connection,
    new_connection,
)
from tests.sim.distributor_checkers import (
    AllDelivered,
    NothingGivenUp,
    Stream,
    StreamsInOrder,
    mark,
    stream_of,
    stream_of_identity,
)

__all__ = [
    "AllAccounted",
    "RepairCounts",
    "group_short_lives",
    "group_storm",
    "play_short_lives",
    "play_storm",
]

_STORM_LOST_COUNT: Final = 100


class RepairCounts(Checker):
    """Counts the datagrams that were requested and sent again, as one node receives them."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self.requested_count = 0
        """Requested datagrams. A datagram counts once per request."""
        self.resent_count = 0

    def arrived(self, packet: Packet) -> str | None:
        if packet.destination.name == self._node_name:
            if packet.data[2] == REQUEST:
                request = JAVA_WIRE.decode(packet.data)
                assert isinstance(request, RepairRequest)
                self.requested_count += request.last_seq - request.first_seq + 1
            elif packet.data[2] == RETRANSMISSION:
                self.resent_count += 1
        return None


class AllAccounted(Checker):
    """Counts the updates delivered per publisher and receiver, and records reported losses."""

    def __init__(self) -> None:
        self._published: dict[Stream, tuple[Node[GroupConnection], int]] = {}
        self._named: dict[tuple[str, str], int] = defaultdict(int)
        """The highest number that a datagram of a publisher has named to a receiver."""
        self._delivered: dict[tuple[str, Stream], int] = defaultdict(int)
        self._reported: set[tuple[str, Stream]] = set()
        self.lost_count = 0

    def published(self, node: Node[GroupConnection], count: int) -> None:
        """Record that a publisher closed after `count` updates."""
        self._published[stream_of_identity(node.machine.identity)] = node, count

    def arrived(self, packet: Packet) -> str | None:
        message = JAVA_WIRE.decode(packet.data)
        number = 0
        if isinstance(message, HeartbeatMessage):
            number = message.last_seq
        elif isinstance(message, (UpdateMessage, Position)):
            number = message.seq
        way = packet.destination.name, packet.source.name
        self._named[way] = max(self._named[way], number)
        return None

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, Delivered):
            self._delivered[node.name, stream_of(event.sender)] += len(event.updates)
        if isinstance(event, (UpdatesLost, StartUnknown)):
            self._reported.add((node.name, stream_of(event.sender)))
            self.lost_count += 1
        return None

    def missing(self, node: Node[Any]) -> list[str]:
        """Publishers of which this receiver misses updates although no loss was reported.

        What no datagram has named to the receiver is unknown to it: the last updates, if all
        heartbeats and goodbyes after them were lost as well.
        """
        found: list[str] = []
        for stream, (publisher, count) in self._published.items():
            delivered = self._delivered[node.name, stream]
            named = self._named[node.name, publisher.name]
            last_seq = publisher.machine.statistics().last_seq
            is_known = delivered < named or named >= last_seq
            if delivered < count and is_known and (node.name, stream) not in self._reported:
                found.append(publisher.name)
        return found


def play_storm(world: World, node_count: int, *, make: MakeConnection = make_connection) -> None:
    """All receivers lose the same hundred datagrams. Few of them request each datagram."""
    roles = GroupRoles(make=make, config=DistributorConfig())
    publisher = world.add("pub-0", roles.publisher, groups=[GROUP])
    for n in range(node_count - 1):
        world.add(f"sub-{n}", roles.subscriber, groups=[GROUP])
    delivered, repairs = AllDelivered(), RepairCounts(publisher.name)
    for checker in (StreamsInOrder(), NothingGivenUp(), delivered, repairs):
        world.watch(checker)
    rng = world.random("storm")
    count = 3 * _STORM_LOST_COUNT
    # Consecutive datagrams, as a full buffer loses them, or random ones, as a poor network does.
    first = rng.randrange(2, count - _STORM_LOST_COUNT)
    row = range(first, first + _STORM_LOST_COUNT)
    lost = set(rng.choice([row, rng.sample(range(2, count), _STORM_LOST_COUNT)]))
    begin = publisher.machine.statistics().last_seq
    world.inject(LoseIf(partial(_is_lost, lost, begin)))
    publishing = GroupPublishing([publisher], delivered)
    world.drive(Repeat(publishing.act, gap_ns_min=MS, count=count))
    world.run_for(SECOND)
    world.calm()
    publishing.last_act()
    world.run(faults_ns=1, calm_ns=10 * SECOND)
    requested, resent = repairs.requested_count, repairs.resent_count
    if requested > 3 * _STORM_LOST_COUNT or resent > 2 * _STORM_LOST_COUNT:
        raise world.failure("storm", f"{requested} datagrams requested, {resent} sent again")


def _make_from_one(setting: Setting, config: DistributorConfig) -> GroupConnection:
    return new_connection(setting, config, 1)


def play_short_lives(
    world: World, node_count: int, *, make: MakeConnection = _make_from_one, loss: float = 0.3
) -> None:
    """Publishers start, publish a few updates and close, in a group with heavy loss. Each update is
    delivered or reported as lost. One subscriber joins before all publishers, one halfway."""
    roles = GroupRoles(make=make, config=DistributorConfig())
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
        raise world.failure("short lives", f"missing without a report: {missing}")


def _publish_all(updates: list[tuple[str, bytes]], machine: GroupConnection, now_ns: int) -> None:
    for subject, data in updates:
        machine.publish(subject, data, now_ns)


def _is_lost(lost: set[int], begin: int, packet: Packet) -> bool:
    data = packet.data
    return data[2] == 1 and (int.from_bytes(data[20:24], "big") - begin) & 0xFFFFFFFF in lost


group_storm = scenario(
    "all receivers of a group lose the same datagrams, and few request them",
    node_count=51,
    node_count_min=2,
)(play_storm)
group_short_lives = scenario(
    "no update of short-lived publishers is missing without a report in a lossy group",
    node_count=22,
    node_count_min=3,
)(play_short_lives)
