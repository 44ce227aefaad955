"""Faults on the links between nodes, with randomness from the seed.

A fault is passed to `World.inject` and is active until `World.calm`. Faults are independent and can
be combined. A packet passes them in the order of injection. A link fault affects every packet
unless `between` restricts it. For streams, a lost packet is a delay, and copies have no effect
(`skerry.testing.streams`).
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


class Fault(ABC):
    """Base class of all faults."""

    strike_count: int = 0
    """Number of times the fault had an effect."""

    @abstractmethod
    def start(self, world: World, rng: Random) -> None:
        """Begin. `rng` is the random source of this fault."""

    @abstractmethod
    def stop(self, world: World) -> None:
        """End and undo the fault. Also called if it has ended before."""


class LinkFault(Fault):
    """Base class of faults on links between two nodes: `shape` affects a packet."""

    _rng: Random
    _world: World
    _sources: frozenset[str] | None = None
    _destinations: frozenset[str] | None = None
    _kinds: frozenset[str] | None = None
    _ports: frozenset[int] | None = None

    def between(
        self,
        *,
        sources: Collection[str] | None = None,
        destinations: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
        ports: Collection[int] | None = None,
    ) -> Self:
        """Restrict this fault to packets with these sources, destinations, kinds and ports.

        `kinds` are of `UNICAST`, `MULTICAST` and `STREAM`; `ports` are those at which packets
        arrive. Returns the fault itself.
        """
        self._sources = self._sources if sources is None else frozenset(sources)
        self._destinations = self._destinations if destinations is None else frozenset(destinations)
        self._kinds = self._kinds if kinds is None else frozenset(kinds)
        self._ports = self._ports if ports is None else frozenset(ports)
        return self

    def source_names(self) -> list[str]:
        """The sorted sources that it is restricted to; none means all."""
        return sorted(self._sources or ())

    def destination_names(self) -> list[str]:
        """The sorted destinations that it is restricted to; none means all."""
        return sorted(self._destinations or ())

    def matches(self, packet: Packet) -> bool:
        return (
            (self._sources is None or packet.source.name in self._sources)
            and (self._destinations is None or packet.destination.name in self._destinations)
            and (self._kinds is None or packet.kind in self._kinds)
            and (self._ports is None or packet.to.port in self._ports)
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
        """The delays of the copies that arrive, from the delays so far; empty loses the packet."""


class Loss(LinkFault):
    """Loses each packet with probability `rate`."""

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
    """Loses the packets for which `condition(packet)` is true."""

    def __init__(self, condition: Callable[[Packet], bool]) -> None:
        self._condition = condition

    def shape(self, packet: Packet, delays_ns: list[int]) -> list[int]:
        if not self._condition(packet):
            return delays_ns
        self.strike_count += 1
        return []


class LongDatagrams(LoseIf):
    """Loses datagrams longer than `bytes_max`, like a path that drops IP fragments."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(lambda packet: packet.kind != STREAM and len(packet.data) > bytes_max)


class Partition(LoseIf):
    """Loses all packets from some nodes to others. The reverse direction is not affected."""

    def __init__(self, *, sources: Collection[str], destinations: Collection[str]) -> None:
        super().__init__(lambda _: True)
        self.between(sources=sources, destinations=destinations)


class Duplication(LinkFault):
    """Delivers packets twice with probability `rate`, the copy up to `delay_ns_max` later."""

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
    """Delays packets with probability `rate` by up to `delay_ns_max`, so that others overtake."""

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
    """Delays every packet by up to `delay_ns_max`."""

    def __init__(self, *, delay_ns_max: int) -> None:
        super().__init__(1.0, delay_ns_max=delay_ns_max)


class RateLimit(LinkFault):
    """Limits each link to `bytes_per_s`. Packets that do not fit into the queue are lost."""

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
    """Holds every datagram and delivers all of them, in order, when it stops.

    Parts of streams are lost instead, and sent again.
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
