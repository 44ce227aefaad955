"""Some nodes with a link each, which include each other: for tests of the link alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import Stalled
from skerry.protocol.machine import MachineEvent
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.testing.checkers import Checker
from skerry.testing.faults import Duplication, Loss, RateLimit, Reordering
from skerry.testing.node import Node
from skerry.testing.node_faults import ClockDrift, Partitions, Pauses
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World
from tests.sim.link_host import DATA_PORT, FIELD, GROUP, SERVER, TYPES, LinkDelivered, LinkHost

__all__ = ["InSequence", "Site", "link"]


class InSequence(Checker):
    """Reliable messages arrive once, in order and without gaps; others once and in order."""

    def __init__(self) -> None:
        self.next: dict[tuple[str, str, bool], int] = {}
        self._last: dict[tuple[str, str, bool], int] = {}
        self.counts: dict[str, int] = defaultdict(int)
        self.is_gapless = True
        """Whether no number may be left out."""

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, LinkDelivered):
            return None
        self.counts[node.name] += len(event.numbers)
        if not event.is_reliable:
            return self._unreliable(node, event)
        place = (node.name, event.sender, event.is_single)
        for number in event.numbers:
            expected = self.next.get(place, number)
            if number != expected and (self.is_gapless or number < expected):
                return f"{place} expected {expected} and got {number}"
            self.next[place] = number + 1
        return None

    def _unreliable(self, node: Node[Any], event: LinkDelivered) -> str | None:
        place = (node.name, event.sender, event.is_single)
        for number in event.numbers:
            last = self._last.get(place, -1)
            if number <= last:
                return f"{place} got {number} without acknowledgement after {last}"
            self._last[place] = number
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
        host_class: type[LinkHost] = LinkHost,
    ) -> None:
        self.world = world or World(seed)
        self.checker = InSequence()
        self.world.watch(self.checker)
        roster = {
            name: (100 + index, field if name in fields else server)
            for index, name in enumerate((*names, *fields))
        }
        self.types = {name: node_type.name for name, (_, node_type) in roster.items()}
        self.nodes = {
            name: self.world.add(
                name,
                partial(host_class, roster=roster, types=types, config=config),
                port=DATA_PORT,
                groups=[] if name in fields else [GROUP],
            )
            for name in roster
        }

    def include_all(self) -> None:
        for name in self.nodes:
            self.include(name, *self.nodes)

    def include(self, name: str, *others: str) -> None:
        """Let a node include others. What it sends from now on is for them, from the next on."""
        host = self.nodes[name].machine
        chosen = [other for other in others if other != name]
        for other in chosen:
            self.checker.next[other, name, False] = host.sent.get(self.types[other], 0)
            self.checker.next[other, name, True] = host.sent.get(other, 0)
        self.nodes[name].do(partial(_include, chosen))

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
        return [name for name, one in self.types.items() if name != sender and one == stream]


class AllArrive(Checker):
    """Each accepted message arrives at each node that it was for, and nothing is kept afterwards.

    A node that crashes is reported by all others that have sent something to it, and excluded.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self.dead = ""
        """The node that crashes."""

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, Stalled):
            return None
        name = node.machine.names[event.node]
        if name != self.dead:
            return f"{node.name} gives up {event}"
        node.world.after(1, lambda _: node.do(partial(_exclude, name)))
        return None

    def safety(self, world: World) -> str | None:
        for name, node in self._site.nodes.items():
            if node.is_running and (fault := _exceeded(node.machine)):
                return f"{name}: {fault}"
        return None

    def liveness(self, world: World) -> str | None:
        site = self._site
        for sender, node in site.nodes.items():
            if sender == self.dead:
                continue
            host: LinkHost = node.machine
            if host.refused:
                return f"{sender} was not told that there is room for {host.refused}"
            for stream, count in host.sent.items():
                if stream.endswith("?"):
                    continue
                for name in site.receivers(stream, sender):
                    is_single = stream == name
                    found = site.checker.next.get((name, sender, is_single), 0)
                    if name != self.dead and found != count:
                        return f"{name} has {found} of {count} of {sender} for {stream}"
            kept = sum(len(one._buffer.samples) for one in host.link._streams())
            if kept or any(host.link.waiting_bytes(peer) for peer in host.link.peers):
                return f"{sender} keeps {kept} samples, or has received some that wait"
        return None


_SIZE_MAX: Final = 100_000


def _exceeded(host: LinkHost) -> str:
    """Which bound of a link is exceeded, if one is."""
    link = host.link
    config = link.config
    message_packets = _SIZE_MAX // config.fragment_bytes + 2
    for stream in link._streams():
        for reader in stream.readers.values():
            if len(reader.flight) > stream._window:
                return f"{len(reader.flight)} packets in flight to {reader.peer.node}"
        is_held = any(not reader.is_lagging for reader in stream.readers.values())
        queued = stream.queued_packet_count
        # One that was served on its own has up to a window in flight when it returns to the others,
        # which may be the end of a long message.
        most = config.send_queue_packet_count + 2 * message_packets + stream._window
        if is_held and queued > most:
            return f"{queued} packets wait in a stream"
    for node, peer in link.peers.items():
        # Of each of two streams: a long message, two windows of packets, and one of small ones.
        most = 2 * (_SIZE_MAX + 1000 + 3 * host.window * config.datagram_bytes)
        if link.waiting_bytes(node) > most:
            return f"{link.waiting_bytes(node)} bytes of {node} wait"
        if peer.corrupt_count:
            return f"{peer.corrupt_count} packets of {node} are corrupt"
    return ""


def _exclude(name: str, host: LinkHost, now_ns: int) -> None:
    host.link.exclude(host.nodes[name], now_ns)


def _act(site: Site, world: World, rng: Random) -> None:
    """Send some messages from a random node: large or small, to all or to one."""
    node = site.nodes[rng.choice(list(site.nodes))]
    if not node.is_running:
        return
    others = [name for name in site.nodes if name != node.name]
    kind = rng.random()
    size = rng.choice([8, 8, 8, 56, 400, 1300, 3000, 20_000])
    if kind < 0.03:
        size = rng.choice([60_000, _SIZE_MAX])
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
    elif node.is_up:
        node.world.after(100 * MS, lambda _: _resume(node))


def _play(world: World, node_count: int) -> None:
    rng = world.random("site")
    field_count = rng.choice([0, 0, 1, 2]) if node_count > 2 else 0
    names = [f"n{number}" for number in range(node_count)]
    window = rng.choice([1, 3, 20, 20, 64, 256])
    has_crash = node_count > 2 and rng.random() < 0.2
    server = NodeType(
        name="server",
        multicast_control="239.192.77.1:26650",
        multicast_data="239.192.77.1:26651",
        window_packet_count=window,
        ack_request_threshold=max(1, window // rng.choice([1, 2, 4])),
        lag_grace_ms=rng.choice([50, 500]),
        lag_limit_ms=5000 if has_crash else 0,
    )
    field = replace(FIELD, lag_limit_ms=server.lag_limit_ms)
    site = Site(
        *names[field_count:],
        fields=tuple(names[:field_count]),
        server=server,
        field=field,
        types=NodeTypes([server, field]),
        config=LinkConfig(
            datagram_bytes=rng.choice([512, 1450, 8000]),
            send_queue_packet_count=rng.choice([20, 100, 1000]),
        ),
        world=world,
    )
    arrive = AllArrive(site)
    world.watch(arrive)
    late = rng.choice(names) if rng.random() < 0.3 else ""
    for name in names:
        site.include(name, *(other for other in names if late not in (name, other)))
    if late:
        world.after(rng.randrange(SECOND), lambda _: _include_late(site, late, rng))
    if has_crash:
        arrive.dead = rng.choice([name for name in names if name != late])
        world.after(rng.randrange(SECOND), lambda _: world.crash(site.nodes[arrive.dead]))
    slow = RateLimit(
        bytes_per_s=rng.choice([30_000, 300_000]), queue_bytes_max=10_000 + _SIZE_MAX // 4
    ).between(destinations=[rng.choice(names)])
    for fault, chance in (
        (Loss(rng.choice([0.01, 0.1, 0.2])), 0.6),
        (Duplication(0.05), 0.4),
        (Reordering(rng.choice([0.05, 0.3])), 0.4),
        (ClockDrift(drift_ppm_max=500), 0.3),
        (slow, 0.0 if has_crash else 0.3),
        (Pauses(gap_ns=SECOND, length_ns_max=rng.choice([50 * MS, SECOND])), 0.3),
        (Partitions(gap_ns=SECOND, length_ns_max=rng.choice([50 * MS, SECOND])), 0.3),
    ):
        if rng.random() < chance:
            world.inject(fault)
    world.drive(Repeat(partial(_act, site), gap_ns_min=MS, gap_ns_max=rng.choice([5, 20]) * MS))
    if rng.random() < 0.3:
        world.drive(Repeat(partial(_host_pauses, site), gap_ns_min=SECOND, gap_ns_max=4 * SECOND))
    world.run(faults_ns=rng.choice([1, 3]) * SECOND)


def _include_late(site: Site, name: str, rng: Random) -> None:
    """Let a node and all others include each other, one after the other."""
    others = [other for other in site.nodes if other != name]
    pairs = [(name, other) for other in others] + [(other, name) for other in others]
    rng.shuffle(pairs)
    for one, other in pairs:
        site.world.after(rng.randrange(200 * MS), partial(_later, site, one, other))


def _later(site: Site, name: str, other: str, _: Any = None) -> None:
    node = site.nodes[name]
    if node.is_running:
        site.include(name, other)
    elif node.is_up:
        site.world.after(10 * MS, partial(_later, site, name, other))


link: Final = scenario(
    "nodes of two types send messages of all sizes; each arrives once, in order",
    node_count=4,
    node_count_min=2,
)(_play)


def _include(others: Sequence[str], host: LinkHost, now_ns: int) -> None:
    host.include(*others, now_ns=now_ns)
