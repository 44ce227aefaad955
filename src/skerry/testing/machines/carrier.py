"""The scenario of carriers: messages between the programs of several nodes, under faults.

Programs number their messages of each type. A program of another node hears each once and in order,
and none is left out unless that node told that something of its sender was lost.
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
from skerry.testing.machines.carrier_host import CarrierHost, MessageHeard
from skerry.testing.machines.distributor import GROUP
from skerry.testing.node import Node, Setting
from skerry.testing.node_faults import ClockDrift, Partitions, Pauses, Restarts
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World

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
    """A node with one program, which listens to everything."""
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
    """No message comes twice, late or where it does not belong; none is lost without a word."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int, str, str], int] = {}
        self._excused: Counter[tuple[str, int, str, str]] = Counter()
        """Gaps that were told, and not seen yet."""
        self._published: dict[tuple[str, str], int] = {}
        self._streams: dict[tuple[str, int], str] = {}

    def published(self, node: Node[CarrierHost], type_name: str, number: int) -> None:
        """The last message of this type that a life of a program published."""
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

    def _excuse(self, node: Node[Any], speakers: list[str], names: list[str]) -> None:
        for who in speakers:
            self._excused.update((node.name, node.life, who, name) for name in names)

    def _check(self, node: Node[Any], event: MessageHeard) -> str | None:
        obj = _CLASSES[event.type_name].decode(event.payload)
        if event.type_name == "Home" and not obj.who.startswith(f"{node.name}/"):
            return f"{node.name} heard {obj.who}, which speaks to its own node only"
        key = (node.name, node.life, obj.who, event.type_name)
        expected = self._next.get(key, obj.number)
        self._next[key] = obj.number + 1
        if obj.number < expected:
            return f"{node.name} heard {event.type_name} {obj.number} of {obj.who} again"
        if obj.number > expected:
            if not self._excused[key]:
                return f"{node.name} did not hear {event.type_name} {expected} of {obj.who}"
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
                    return f"{node.name} heard {type_name} {last} of {who}, which is at {number}"
        return None


class _Talking:
    """What programs do."""

    def __init__(self, nodes: list[Node[CarrierHost]], checker: MessagesInOrder) -> None:
        self._nodes = nodes
        self._checker = checker
        self._numbers: dict[tuple[str, str], int] = {}

    def act(self, _world: World, rng: Random) -> None:
        node = rng.choice(self._nodes)
        if node.is_running:
            for _ in range(rng.choice([1, 1, 5])):
                self._say(node, rng.choice(self._names(node)), rng)

    def last_act(self, rng: Random) -> None:
        """One message of each type from each program, after all faults."""
        for node in self._nodes:
            for name in self._names(node):
                self._say(node, name, rng)

    def _names(self, node: Node[CarrierHost]) -> list[str]:
        """What a program speaks of. There is one type that only the first ones bring along."""
        return [name for name in sorted(_CLASSES) if name != "Call" or node in self._nodes[:2]]

    def _say(self, node: Node[CarrierHost], name: str, rng: Random) -> None:
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
    """Nodes that come, go and lose datagrams, and whose programs talk all the time."""
    nodes: list[Node[CarrierHost]] = [
        world.add(f"node-{number}", make, groups=[GROUP]) for number in range(node_count)
    ]
    checker = MessagesInOrder()
    world.watch(checker)
    talking = _Talking(nodes, checker)
    rng = world.random("carrier")
    world.drive(Repeat(talking.act, gap_ns_min=MS, gap_ns_max=40 * MS))
    world.inject(Loss(rng.uniform(0.0, 0.3)))
    world.inject(Duplication(rng.uniform(0.0, 0.2)))
    world.inject(Reordering(rng.uniform(0.0, 0.2), delay_ns_max=50 * MS))
    world.inject(Partitions(gap_ns=2 * SECOND, length_ns_max=2 * SECOND))
    world.inject(Pauses(gap_ns=SECOND, length_ns_max=SECOND))
    world.inject(Restarts(gap_ns=3 * SECOND, down_ns_max=SECOND))
    world.inject(ClockDrift(drift_ppm_max=500))
    world.run_for(4 * SECOND)
    world.calm()
    # Who lived through it hears of each type again before the last word.
    world.run_for(2 * SECOND)
    talking.last_act(rng)
    world.run(faults_ns=1, calm_ns=20 * SECOND)


carrier = scenario(
    "messages reach the programs of all nodes of a site, once and in order",
    node_count=3,
    node_count_min=2,
    node_count_max=10,
)(play_carrier)
