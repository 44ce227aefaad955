"""Some nodes with a link each, which include each other: for tests of the link alone."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from random import Random
from typing import Any, Final

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import Stalled
from skerry.protocol.machine import MachineEvent
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.testing.checkers import Checker
from skerry.testing.faults import Duplication, Loss, Reordering
from skerry.testing.node import Node
from skerry.testing.node_faults import Pauses
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World
from tests.sim.link_host import DATA_PORT, FIELD, GROUP, SERVER, TYPES, LinkDelivered, LinkHost

__all__ = ["InSequence", "Site", "link"]


class InSequence(Checker):
    """Reliable messages arrive once, in order and without gaps."""

    def __init__(self) -> None:
        self.next: dict[tuple[str, str, bool], int] = {}
        self.counts: dict[str, int] = defaultdict(int)
        self.is_gapless = True
        """Whether no number may be left out."""

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, LinkDelivered):
            return None
        self.counts[node.name] += len(event.numbers)
        if not event.is_reliable:
            return None
        place = (node.name, event.sender, event.is_single)
        for number in event.numbers:
            expected = self.next.get(place, number)
            if number != expected and (self.is_gapless or number < expected):
                return f"{place} expected {expected} and got {number}"
            self.next[place] = number + 1
        return None


class Site:
    """Some nodes with links, all included by all."""

    def __init__(
        self,
        *names: str,
        seed: int = 1,
        fields: tuple[str, ...] = (),
        types: NodeTypes = TYPES,
        server: NodeType = SERVER,
        field: NodeType = FIELD,
        config: LinkConfig | None = None,
        world: World | None = None,
    ) -> None:
        self.world = world or World(seed)
        self.checker = InSequence()
        self.world.watch(self.checker)
        roster = {
            name: (100 + index, field if name in fields else server)
            for index, name in enumerate((*names, *fields))
        }
        self.nodes = {
            name: self.world.add(
                name,
                partial(LinkHost, roster=roster, types=types, config=config),
                port=DATA_PORT,
                groups=[] if name in fields else [GROUP],
            )
            for name in roster
        }

    def include_all(self) -> None:
        for name, node in self.nodes.items():
            others = [other for other in self.nodes if other != name]
            node.do(partial(_include, others))

    def flood(self, name: str, count: int, *, gap_ns: int = MS, **how: Any) -> None:
        """Send messages as fast as the link takes them, looking for room every `gap_ns`."""
        node = self.nodes[name]
        left = count

        def more() -> None:
            nonlocal left

            def send(host: LinkHost, now_ns: int) -> None:
                nonlocal left
                while left and host.send_all(now_ns, **how):
                    left -= 1

            node.do(send)
            if left:
                self.world.after(gap_ns, lambda _: more())

        more()

    def all_have(self, sender: str, count: int) -> bool:
        return all(
            self.checker.next.get((name, sender, False)) == count
            for name in self.nodes
            if name != sender
        )

    def receivers(self, stream: str, sender: str) -> list[str]:
        """The nodes that receive a stream of a sender."""
        if stream in self.nodes:
            return [stream]
        return [
            name
            for name, node in self.nodes.items()
            if name != sender and node.machine.type_name == stream
        ]


class AllArrive(Checker):
    """Each accepted message arrives at each node that it was for."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, Stalled):
            return f"{node.name} gives up {event}"
        return None

    def liveness(self, world: World) -> str | None:
        site = self._site
        for sender, node in site.nodes.items():
            for stream, count in node.machine.sent.items():
                if stream.endswith("?"):
                    continue
                for name in site.receivers(stream, sender):
                    is_single = stream == name
                    found = site.checker.next.get((name, sender, is_single), 0)
                    if found != count:
                        return f"{name} has {found} of {count} of {sender} for {stream}"
        return None


def _act(site: Site, world: World, rng: Random) -> None:
    """Send some messages from a random node: large or small, to all or to one."""
    node = site.nodes[rng.choice(list(site.nodes))]
    if not node.is_running:
        return
    others = [name for name in site.nodes if name != node.name]
    kind = rng.random()
    size = rng.choice([8, 8, 8, 56, 400, 1300, 3000, 20_000])
    if kind < 0.1:
        size = rng.choice([60_000, 200_000])
    count = rng.choice([1, 1, 3, 30]) if size < 3000 else 1
    to, type_name = rng.choice(others), rng.choice(["server", "server", "field"])
    is_reliable, is_single = rng.random() < 0.8, rng.random() < 0.3

    def send(host: LinkHost, now_ns: int) -> None:
        for _ in range(count):
            if is_single:
                host.send_to(to, now_ns, size=size, is_reliable=is_reliable)
            else:
                host.send_all(now_ns, type_name=type_name, size=size, is_reliable=is_reliable)

    node.do(send)


def _host_pauses(site: Site, world: World, rng: Random) -> None:
    """Let the host of a node take no messages for up to two seconds."""
    node = site.nodes[rng.choice(list(site.nodes))]
    if node.is_running:
        node.do(lambda host, _: host.link.pause())
        world.after(rng.randrange(1, 2 * SECOND), lambda _: _resume(node))


def _resume(node: Node[LinkHost]) -> None:
    if node.is_running:
        node.do(lambda host, now_ns: host.link.resume(now_ns))
    else:
        node.world.after(100 * MS, lambda _: _resume(node))


def _play(world: World, node_count: int) -> None:
    rng = world.random("site")
    field_count = rng.choice([0, 0, 1, 2]) if node_count > 2 else 0
    names = [f"n{number}" for number in range(node_count)]
    window = rng.choice([1, 3, 20, 20, 64, 256])
    server = NodeType(
        name="server",
        multicast_control="239.192.77.1:26650",
        multicast_data="239.192.77.1:26651",
        window_packet_count=window,
        ack_request_threshold=max(1, window // rng.choice([1, 2, 4])),
    )
    site = Site(
        *names[field_count:],
        fields=tuple(names[:field_count]),
        server=server,
        types=NodeTypes([server, FIELD]),
        config=LinkConfig(
            datagram_bytes=rng.choice([512, 1450, 8000]),
            send_queue_packet_count=rng.choice([20, 100, 1000]),
        ),
        world=world,
    )
    world.watch(AllArrive(site))
    site.include_all()
    for fault, chance in (
        (Loss(rng.choice([0.01, 0.1, 0.2])), 0.6),
        (Duplication(0.05), 0.4),
        (Reordering(rng.choice([0.05, 0.3])), 0.4),
        (Pauses(gap_ns=SECOND, length_ns_max=rng.choice([50 * MS, SECOND])), 0.3),
    ):
        if rng.random() < chance:
            world.inject(fault)
    world.drive(Repeat(partial(_act, site), gap_ns_min=MS, gap_ns_max=rng.choice([2, 20]) * MS))
    if rng.random() < 0.3:
        world.drive(Repeat(partial(_host_pauses, site), gap_ns_min=SECOND, gap_ns_max=4 * SECOND))
    world.run(faults_ns=rng.choice([1, 3]) * SECOND)


link: Final = scenario(
    "nodes of two types send messages of all sizes; each arrives once, in order",
    node_count=4,
    node_count_min=2,
)(_play)


def _include(others: list[str], host: LinkHost, now_ns: int) -> None:
    host.include(*others, now_ns=now_ns)
