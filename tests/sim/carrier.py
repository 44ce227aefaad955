"""The scenario of group carriages: messages between programs of several nodes, under faults.

Programs number their messages of each type. A program of another node receives each message once
and in order, unless that node reported a loss of messages of the sender.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

from skerry.engine.carriage.distributor.events import MessagesGivenUp
from skerry.objects.classes import class_of
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import UpdatesLost
from skerry.protocol.distributor.identity import draw_identity
from skerry.protocol.machine import MachineEvent
from skerry.schema.check import define
from skerry.schema.model import StructType
from skerry.testing.checkers import Checker
from skerry.testing.faults import Duplication, Loss, Reordering
from skerry.testing.node import Node, Setting
from skerry.testing.node_faults import ClockDrift, Partitions, Pauses, Restarts
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World
from tests.sim.carrier_host import CarrierHost, MessageHeard
from tests.sim.distributor import GROUP

__all__ = ["MakeHost", "MessagesInOrder", "carrier", "make_host", "play_carrier"]

_U32: Final = 0xFFFFFFFF
_CONFIG: Final = DistributorConfig(
    segment_bytes=512,
    heartbeat_interval_ms=300,
    configuration_interval_ms=500,
    configuration_lost_count_max=20,
    request_timeout_ms=100,
    request_retry_count_max=1000,
)
_TYPES: Final = define(
    """
    enum Weight { 1: light, 2: heavy, }
    struct Note [cached=false] { 1: string who; 2: uint32 number; 3: Weight mood; 4: string text; }
    struct Call [cached=false] { 1: [key] string who; 2: uint32 number; }
    struct Home [cached=false, scope="server"] { 1: string who; 2: uint32 number; }
    """,
    file="carrier.dots",
).types
_CLASSES: Final[dict[str, Any]] = {
    type_.name: class_of(type_) for type_ in _TYPES if isinstance(type_, StructType)
}

MakeHost = Callable[[Setting], CarrierHost]
"""Makes the machine under test."""


def make_host(setting: Setting) -> CarrierHost:
    """A node with one program, which joins all types."""
    connection = GroupConnection(
        group=GROUP,
        identity=draw_identity(
            address=b"\x0a\x00" + setting.rng.randbytes(2),
            sender_id=61234,
            process_id=setting.life,
            wall_ms=(setting.now_ns + setting.wall_offset_ns) // MS,
            rng=setting.rng,
        ),
        rng=setting.rng,
        now_ns=setting.now_ns,
        config=_CONFIG,
        tracer=setting.tracer,
        wall_offset_ns=setting.wall_offset_ns,
    )
    host = CarrierHost(
        connection,
        _CONFIG,
        now_ns=setting.now_ns,
        wall_offset_ns=setting.wall_offset_ns,
        name=setting.name,
    )
    host.add_program("program", setting.now_ns, joins=tuple(_CLASSES))
    return host


class MessagesInOrder(Checker):
    """Messages are delivered once, in order and to the right nodes; losses are reported."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int, str, str], int] = {}
        self._excused: Counter[tuple[str, int, str, str]] = Counter()
        """Losses that were reported and not yet matched with a gap."""
        self._published: dict[tuple[str, str], int] = {}
        self._streams: dict[tuple[str, int], str] = {}

    def published(self, node: Node[CarrierHost], type_name: str, number: int) -> None:
        """Record the last message of a type that a life of a program published."""
        who, mine = f"{node.name}/{node.life}", node.machine.identity
        self._published[who, type_name] = number
        self._streams[".".join(map(str, mine.address)), mine.start_ms & _U32] = who

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, UpdatesLost):
            who = self._streams.get((event.sender.address, event.sender.start & _U32))
            if who is not None:
                self._excuse(node, [who], list(_CLASSES))
        elif isinstance(event, MessagesGivenUp):
            self._excuse(node, list(self._streams.values()), [event.type_name])
        elif isinstance(event, MessageHeard):
            return self._check(node, event)
        return None

    def _excuse(self, node: Node[Any], publishers: list[str], names: list[str]) -> None:
        for who in publishers:
            self._excused.update((node.name, node.life, who, name) for name in names)

    def _check(self, node: Node[Any], event: MessageHeard) -> str | None:
        obj = _CLASSES[event.type_name].decode(event.payload)
        if event.type_name == "Home" and not obj.who.startswith(f"{node.name}/"):
            return f"{node.name} received a message of {obj.who}, which is for its own node only"
        key = (node.name, node.life, obj.who, event.type_name)
        expected = self._next.get(key, obj.number)
        self._next[key] = obj.number + 1
        if obj.number < expected:
            return f"{node.name} received {event.type_name} {obj.number} of {obj.who} again"
        if obj.number > expected:
            if not self._excused[key]:
                return f"{node.name} misses {event.type_name} {expected} of {obj.who}"
            self._excused[key] -= 1
        return None

    def liveness(self, world: World) -> str | None:
        for (who, type_name), number in self._published.items():
            home, _, life = who.partition("/")
            if str(world.nodes[home].life) != life:
                continue
            for node in world.nodes.values():
                if type_name == "Home" and node.name != home:
                    continue
                last = self._next.get((node.name, node.life, who, type_name), 0) - 1
                if last != number:
                    return (
                        f"{node.name} received {type_name} {last} of {who}, whose last is {number}"
                    )
        return None


class _Publishing:
    """The workload: programs publish numbered messages."""

    def __init__(self, nodes: list[Node[CarrierHost]], checker: MessagesInOrder) -> None:
        self._nodes = nodes
        self._checker = checker
        self._numbers: dict[tuple[str, str], int] = {}

    def act(self, _world: World, rng: Random) -> None:
        node = rng.choice(self._nodes)
        if node.is_running:
            for _ in range(rng.choice([1, 1, 5])):
                self._publish(node, rng.choice(self._names(node)), rng)

    def last_act(self, rng: Random) -> None:
        """Publish one message of each type from each program, after all faults have ended."""
        for node in self._nodes:
            for name in self._names(node):
                self._publish(node, name, rng)

    def _names(self, node: Node[CarrierHost]) -> list[str]:
        """The types that a program publishes. One type is published by the first two nodes only."""
        return [name for name in sorted(_CLASSES) if name != "Call" or node in self._nodes[:2]]

    def _publish(self, node: Node[CarrierHost], name: str, rng: Random) -> None:
        who = f"{node.name}/{node.life}"
        number = self._numbers.get((who, name), 0)
        self._numbers[who, name] = number + 1
        obj = _CLASSES[name](who=who, number=number)
        if name == "Note":
            obj.text = "x" * rng.choice([0, 30, 1500])
        subject = rng.choice(["", "", f"/talk/{node.name}"])
        node.do(lambda host, now_ns: host.publish("program", obj, now_ns, subject=subject))
        self._checker.published(node, name, number)


def play_carrier(world: World, node_count: int, *, make: MakeHost = make_host) -> None:
    """Programs publish all the time, while nodes restart and datagrams are lost."""
    nodes: list[Node[CarrierHost]] = [
        world.add(f"node-{number}", make, groups=[GROUP]) for number in range(node_count)
    ]
    checker = MessagesInOrder()
    world.watch(checker)
    publishing = _Publishing(nodes, checker)
    rng = world.random("carrier")
    world.drive(Repeat(publishing.act, gap_ns_min=MS, gap_ns_max=40 * MS))
    world.inject(Loss(rng.uniform(0.0, 0.3)))
    world.inject(Duplication(rng.uniform(0.0, 0.2)))
    world.inject(Reordering(rng.uniform(0.0, 0.2), delay_ns_max=50 * MS))
    world.inject(Partitions(gap_ns=2 * SECOND, length_ns_max=2 * SECOND))
    world.inject(Pauses(gap_ns=SECOND, length_ns_max=SECOND))
    world.inject(Restarts(gap_ns=3 * SECOND, down_ns_max=SECOND))
    world.inject(ClockDrift(drift_ppm_max=500))
    world.run_for(4 * SECOND)
    world.calm()
    # All nodes get the descriptions of all types before the last messages.
    world.run_for(2 * SECOND)
    publishing.last_act(rng)
    world.run(faults_ns=1, calm_ns=20 * SECOND)


carrier = scenario(
    "messages are delivered to programs of all nodes of a site, once and in order",
    node_count=3,
    node_count_min=2,
    node_count_max=10,
)(play_carrier)
