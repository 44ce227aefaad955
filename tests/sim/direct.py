"""Programs with a direct link each: for tests of reliable messages without membership."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.direct_link import DirectClosed, DirectConfig, DirectLink
from skerry.protocol.link.events import LinkStatistics, MessagesMissed, RecordsReceived
from skerry.protocol.machine import Address, MachineEvent, Transmit
from skerry.testing.checkers import Checker
from skerry.testing.faults import Duplication, Loss, Reordering
from skerry.testing.node import Node, Setting
from skerry.testing.node_faults import ClockDrift, Partitions, Pauses
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World
from tests.sim.link_host import LinkDelivered, content_of, number_of

__all__ = ["DirectHost", "DirectSite", "direct"]

PORT: Final = 4000
_DATA_TYPE: Final = 7


class DirectHost:
    """A machine that numbers the messages it sends to each of the others."""

    def __init__(
        self,
        setting: Setting,
        roster: Mapping[str, int],
        *,
        config: DirectConfig | None = None,
        knows: bool = True,
    ) -> None:
        """`roster` has the id of each node by its name; it knows their addresses if it `knows`."""
        self.names = {number: name for name, number in roster.items()}
        self.nodes = roster
        self.sent: dict[str, int] = defaultdict(int)
        self.closed: list[DirectClosed] = []
        node = roster[setting.name]
        self.link = DirectLink(
            # A program that starts again is another one.
            node=node + 1000 * (setting.life - 1),
            now_ns=setting.now_ns,
            config=config,
            wall_offset_ns=setting.wall_offset_ns,
            tracer=setting.tracer,
        )
        for name, other in roster.items():
            if name != setting.name and knows:
                self.link.contact(other, Address(name, PORT))

    def send(self, name: str, now_ns: int, *, size: int = 8, is_reliable: bool = True) -> bool:
        """Send the next number to a node."""
        place = name if is_reliable else f"{name}?"
        data = content_of(self.sent[place], size)
        is_sent = self.link.send_to(
            self.nodes[name], _DATA_TYPE, data, now_ns, is_reliable=is_reliable
        )
        self.sent[place] += is_sent
        return is_sent

    # -- the contract

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        self.link.receive(data, source, now_ns)

    def advance(self, now_ns: int) -> None:
        self.link.advance(now_ns)

    def deadline_ns(self) -> int | None:
        return self.link.deadline_ns()

    def take_transmits(self) -> Sequence[Transmit]:
        return self.link.take_transmits()

    def take_events(self) -> Sequence[MachineEvent]:
        found: list[MachineEvent] = []
        for event in self.link.take_events():
            if isinstance(event, RecordsReceived):
                life, number = divmod(event.node, 1000)
                found.append(
                    LinkDelivered(
                        sender=self.names[number] + "'" * life,
                        is_single=event.is_single,
                        is_reliable=event.is_reliable,
                        numbers=tuple(number_of(data) for _, _, data in event.records),
                    )
                )
                continue
            if isinstance(event, DirectClosed):
                self.closed.append(event)
            found.append(event)
        return found

    def statistics(self) -> LinkStatistics:
        return self.link.statistics()


class DirectSite:
    """Some programs that know the addresses of each other."""

    def __init__(
        self,
        *names: str,
        seed: int = 1,
        config: DirectConfig | None = None,
        knows: bool = True,
        world: World | None = None,
    ) -> None:
        self.world = world or World(seed)
        roster = {name: 100 + index for index, name in enumerate(names)}
        self.nodes: dict[str, Node[DirectHost]] = {
            name: self.world.add(
                name, partial(DirectHost, roster=roster, config=config, knows=knows), port=PORT
            )
            for name in names
        }

    def send(self, source: str, name: str, count: int = 1, **how: Any) -> None:
        """Send some messages, each of which the link takes."""

        def act(host: DirectHost, now_ns: int) -> None:
            for _ in range(count):
                assert host.send(name, now_ns, **how)

        self.nodes[source].do(act)

    def flood(self, source: str, name: str, count: int, **how: Any) -> None:
        """Send messages as fast as the link takes them, looking for room every millisecond."""
        left = count

        def more(_: Any = None) -> None:
            nonlocal left

            def act(host: DirectHost, now_ns: int) -> None:
                nonlocal left
                while left and host.send(name, now_ns, **how):
                    left -= 1

            self.nodes[source].do(act)
            if left:
                self.world.after(MS, more)

        more()

    def numbers(self, name: str, sender: str) -> list[int]:
        """The numbers of all reliable messages that a node has received of another."""
        return [
            number
            for event in self.nodes[name].events
            if isinstance(event, LinkDelivered) and event.is_reliable and event.sender == sender
            for number in event.numbers
        ]

    def has(self, name: str, sender: str, count: int) -> bool:
        """Whether a node has received so many messages, once and in order."""
        return self.numbers(name, sender) == list(range(count))

    def id_of(self, name: str) -> int:
        """The id of a node in its first life."""
        machine: DirectHost = self.nodes[name].machine
        return machine.nodes[name]


class _OnceInOrder(Checker):
    """Messages arrive once and in order. What is missing was reported to the sender or receiver."""

    def __init__(self, site: DirectSite) -> None:
        self._site = site
        self._next: dict[tuple[str, str], int] = {}
        self._missing: dict[tuple[str, str], int] = defaultdict(int)
        self._given_up: dict[tuple[str, str], int] = defaultdict(int)
        self._dropped: set[tuple[str, str]] = set()
        self.may_lose = True
        """Whether a node may be silent for so long that messages are given up."""

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, (DirectClosed, MessagesMissed)) and not self.may_lose:
            return f"{node.name} reports {event}"
        if isinstance(event, DirectClosed):
            other = node.machine.names[event.node]
            self._given_up[node.name, other] += event.unacknowledged_count
            if event.undelivered_bytes:
                self._dropped.add((other, node.name))
        if isinstance(event, MessagesMissed):
            self._dropped.add((node.machine.names[event.node], node.name))
        if not isinstance(event, LinkDelivered) or not event.is_reliable:
            return None
        place = event.sender, node.name
        for number in event.numbers:
            expected = self._next.get(place, 0)
            if number < expected:
                return f"{place} received {number} again, or late: {expected} was next"
            self._missing[place] += number - expected
            self._next[place] = number + 1
        return None

    def liveness(self, world: World) -> str | None:
        for sender, node in self._site.nodes.items():
            for name, count in node.machine.sent.items():
                if name.endswith("?"):
                    continue
                place = sender, name
                missing = self._missing[place] + count - self._next.get(place, 0)
                # How many messages a receiver dropped is not known.
                if missing > self._given_up[place] and place not in self._dropped:
                    given_up = self._given_up[place]
                    return f"{place}: {missing} of {count} are missing, {given_up} were given up"
        return None


def _play(world: World, node_count: int) -> None:
    rng = world.random("site")
    names = [f"n{number}" for number in range(node_count)]
    config = DirectConfig(
        link=LinkConfig(datagram_bytes=rng.choice([512, 1450])),
        window_packet_count=rng.choice([1, 4, 64]),
        idle_ms=rng.choice([200, 1000, 5000]),
        close_ms=rng.choice([3000, 10_000]),
        try_count_max=rng.choice([10, 120]),
        retry_timeouts_ms=rng.choice([(20, 80), (50, 100, 200, 500)]),
    )
    site = DirectSite(*names, config=config, knows=True, world=world)
    checker = _OnceInOrder(site)
    # Ten tries in a row may be lost.
    checker.may_lose = config.try_count_max == 10
    world.watch(checker)
    for fault, chance in (
        (Loss(rng.choice([0.01, 0.1, 0.2])), 0.6),
        (Duplication(0.05), 0.5),
        (Reordering(rng.choice([0.05, 0.3])), 0.5),
        (ClockDrift(drift_ppm_max=500), 0.3),
        (Pauses(gap_ns=SECOND, length_ns_max=rng.choice([50 * MS, 2 * SECOND])), 0.3),
        (Partitions(gap_ns=2 * SECOND, length_ns_max=rng.choice([SECOND, 5 * SECOND])), 0.4),
    ):
        if rng.random() < chance:
            world.inject(fault)
            checker.may_lose |= isinstance(fault, (Pauses, Partitions))
    gap_ns = rng.choice([5, 100, 1000]) * MS
    world.drive(Repeat(partial(_act, site), gap_ns_min=MS, gap_ns_max=gap_ns))
    if rng.random() < 0.5:
        world.drive(Repeat(partial(_release, site), gap_ns_min=MS, gap_ns_max=500 * MS))
    world.run(faults_ns=rng.choice([3, 10]) * SECOND)


def _act(site: DirectSite, world: World, rng: Random) -> None:
    name, other = rng.sample(list(site.nodes), 2)
    size = rng.choice([8, 8, 56, 400, 1300, 3000, 20_000])
    count = rng.choice([1, 1, 3, 30]) if size < 3000 else 1
    is_reliable = rng.random() < 0.9

    def act(host: DirectHost, now_ns: int) -> None:
        for _ in range(count):
            host.send(other, now_ns, size=size, is_reliable=is_reliable)

    node = site.nodes[name]
    if node.is_running:
        node.do(act)


def _release(site: DirectSite, world: World, rng: Random) -> None:
    """Let a node forget a connection, as if it had been idle."""
    node = site.nodes[rng.choice(list(site.nodes))]
    if node.is_running and node.machine.link.connected:
        other = rng.choice(node.machine.link.connected)
        node.do(lambda host, now_ns: host.link.release(other, now_ns))


direct: Final = scenario(
    "programs without membership exchange messages, and forget connections that are idle",
    node_count=3,
    node_count_min=2,
)(_play)
