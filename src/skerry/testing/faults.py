"""What goes wrong on the links between nodes, all of it drawn from the seed.

A fault is handed to `World.inject` and works until the world becomes calm. Faults know nothing of
each other and combine freely; a packet passes them in the order in which they were injected. A
link fault works on every packet unless `between` narrows it down. Streams see lost packets as
delay and never see copies (`skerry.testing.streams`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from random import Random
from typing import TYPE_CHECKING

from skerry.limits import SIM_INBOX_COUNT_MAX
from skerry.testing.packet import STREAM, Packet

if TYPE_CHECKING:
    from typing import Self

    from skerry.testing.world import World

__all__ = [
    "Clog",
    "Duplication",
    "Exactly",
    "Fault",
    "Jitter",
    "LinkFault",
    "LongDatagrams",
    "LoseIf",
    "Loss",
    "Partition",
    "RateLimit",
    "Reordering",
]


class Fault(ABC):
    """Base of all faults."""

    strike_count: int = 0
    """How often it has done harm."""

    @abstractmethod
    def start(self, world: World, rng: Random) -> None:
        """Begin. `rng` is this fault's own chance."""

    @abstractmethod
    def stop(self, world: World) -> None:
        """End and heal. Also called when the fault has ended before."""


class LinkFault(Fault):
    """Base of faults on the way between two nodes: `shape` says what they do to a packet."""

    _rng: Random
    _world: World
    _sources: frozenset[str] | None = None
    _destinations: frozenset[str] | None = None
    _kinds: frozenset[str] | None = None

    def between(
        self,
        *,
        sources: Collection[str] | None = None,
        destinations: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Self:
        """Narrow this fault down to packets from, to and of these; returns the fault itself.

        `kinds` are of `UNICAST`, `MULTICAST` and `STREAM`.
        """
        self._sources = self._sources if sources is None else frozenset(sources)
        self._destinations = self._destinations if destinations is None else frozenset(destinations)
        self._kinds = self._kinds if kinds is None else frozenset(kinds)
        return self

    def source_names(self) -> list[str]:
        """The sources it is narrowed down to, sorted; none means all."""
        return sorted(self._sources or ())

    def destination_names(self) -> list[str]:
        """The destinations it is narrowed down to, sorted; none means all."""
        return sorted(self._destinations or ())

    def matches(self, packet: Packet) -> bool:
        """Whether this fault has to do with the packet."""
        return (
            (self._sources is None or packet.source.name in self._sources)
            and (self._destinations is None or packet.destination.name in self._destinations)
            and (self._kinds is None or packet.kind in self._kinds)
        )

    def start(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng
        world.network.shapers.append(self)

    def stop(self, world: World) -> None:
        if self in world.network.shapers:
            world.network.shapers.remove(self)

    @abstractmethod
    def shape(self, packet: Packet, delays_ns: list[int]) -> list[int]:
        """The delays of the copies that arrive, given those that came in; empty stops it."""


class Loss(LinkFault):
    """Loses each packet with the same probability."""

    def __init__(self, rate: float) -> None:
        assert 0.0 <= rate <= 1.0
        self._rate = rate

    def shape(self, _packet: Packet, delays_ns: list[int]) -> list[int]:
        if self._rng.random() >= self._rate:
            return delays_ns
        self.strike_count += 1
        return []


class Exactly(LinkFault):
    """Loses the packets with these numbers, counted from 0 for each source and destination."""

    def __init__(self, seqs: Collection[int]) -> None:
        self._seqs = frozenset(seqs)
        self._counts: dict[tuple[str, str], int] = {}

    def shape(self, packet: Packet, delays_ns: list[int]) -> list[int]:
        link = (packet.source.name, packet.destination.name)
        seq = self._counts.get(link, 0)
        self._counts[link] = seq + 1
        if seq not in self._seqs:
            return delays_ns
        self.strike_count += 1
        return []


class LoseIf(LinkFault):
    """Loses the packets a test picks: `condition(packet)`."""

    def __init__(self, condition: Callable[[Packet], bool]) -> None:
        self._condition = condition

    def shape(self, packet: Packet, delays_ns: list[int]) -> list[int]:
        if not self._condition(packet):
            return delays_ns
        self.strike_count += 1
        return []


class LongDatagrams(LoseIf):
    """Loses datagrams longer than `bytes_max`, as a path does that never passes on fragments."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(lambda packet: packet.kind != STREAM and len(packet.data) > bytes_max)


class Partition(LoseIf):
    """Cuts the way from some nodes to others. The way back stays open: cut it by a second one."""

    def __init__(self, *, sources: Collection[str], destinations: Collection[str]) -> None:
        super().__init__(lambda _: True)
        self.between(sources=sources, destinations=destinations)


class Duplication(LinkFault):
    """Delivers some packets twice, the copy up to `delay_ns_max` later."""

    def __init__(self, rate: float, *, delay_ns_max: int = 1_000_000) -> None:
        assert 0.0 <= rate <= 1.0
        assert delay_ns_max > 0
        self._rate = rate
        self._delay_ns_max = delay_ns_max

    def shape(self, _packet: Packet, delays_ns: list[int]) -> list[int]:
        if self._rng.random() >= self._rate:
            return delays_ns
        self.strike_count += 1
        return [*delays_ns, delays_ns[0] + self._rng.randrange(self._delay_ns_max)]


class Reordering(LinkFault):
    """Holds some packets back by up to `delay_ns_max`, so that later ones overtake them."""

    def __init__(self, rate: float, *, delay_ns_max: int = 5_000_000) -> None:
        assert 0.0 <= rate <= 1.0
        assert delay_ns_max > 0
        self._rate = rate
        self._delay_ns_max = delay_ns_max

    def shape(self, _packet: Packet, delays_ns: list[int]) -> list[int]:
        if self._rng.random() >= self._rate:
            return delays_ns
        self.strike_count += 1
        return [delay_ns + 1 + self._rng.randrange(self._delay_ns_max) for delay_ns in delays_ns]


class Jitter(Reordering):
    """Holds every packet back by up to `delay_ns_max`."""

    def __init__(self, *, delay_ns_max: int) -> None:
        super().__init__(1.0, delay_ns_max=delay_ns_max)


class RateLimit(LinkFault):
    """Passes so many bytes a second on each link; what does not fit into the queue is lost."""

    def __init__(self, *, bytes_per_s: int, queue_bytes_max: int) -> None:
        assert bytes_per_s > 0
        assert queue_bytes_max > 0
        self._ns_per_byte = 1_000_000_000 / bytes_per_s
        self._queue_ns_max = int(queue_bytes_max * self._ns_per_byte)
        self._free_ns: dict[tuple[str, str], int] = {}

    def shape(self, packet: Packet, delays_ns: list[int]) -> list[int]:
        link = (packet.source.name, packet.destination.name)
        now_ns = self._world.now_ns
        sent_ns = max(self._free_ns.get(link, 0), now_ns) + int(
            len(packet.data) * self._ns_per_byte
        )
        if sent_ns - now_ns > self._queue_ns_max:
            self.strike_count += 1
            return []
        self._free_ns[link] = sent_ns
        return [delay_ns + sent_ns - now_ns for delay_ns in delays_ns]


class Clog(LinkFault):
    """Holds every datagram and releases them all, in order, when it stops.

    Streams are held up in their own way: their pieces are stopped and sent again.
    """

    def __init__(self) -> None:
        self._held: list[Packet] = []

    def shape(self, packet: Packet, _delays_ns: list[int]) -> list[int]:
        self.strike_count += 1
        if packet.kind != STREAM and len(self._held) < SIM_INBOX_COUNT_MAX:
            self._held.append(packet)
        return []

    def stop(self, world: World) -> None:
        super().stop(world)
        for packet in self._held:
            world.network.dispatch(packet, world.network.latency_ns)
        self._held.clear()
