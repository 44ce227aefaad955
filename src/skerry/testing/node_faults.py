"""Faults of nodes, clocks and streams, and temporary faults of links, with randomness from the
seed.

Recurring faults occur after gaps between 0.5 and 1.5 times `gap_ns`. `World.calm` resumes and
starts nodes, restores links, and ends clock drift. It does not undo jumps of wall clocks, broken
streams and lost disks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from random import Random
from typing import TYPE_CHECKING, Any

from skerry.testing.faults import Clog, Fault, LinkFault, Partition

if TYPE_CHECKING:
    from skerry.testing.node import Node
    from skerry.testing.stream_end import StreamEnd
    from skerry.testing.world import World


class Recurring(Fault):
    """Base class of faults that occur repeatedly: `strike` does so once."""

    _rng: Random
    _start_count = 0
    _is_stopped = False

    def __init__(self, *, gap_ns: int, nodes: Collection[str] | None = None) -> None:
        """Only `nodes` are affected, or all nodes of the world if None."""
        assert gap_ns > 1
        self._gap_ns = gap_ns
        self._names = None if nodes is None else frozenset(nodes)

    def start(self, world: World, rng: Random) -> None:
        self._rng = rng
        self._is_stopped = False
        self._start_count += 1
        self._schedule(world, self._start_count)

    def stop(self, _world: World) -> None:
        self._is_stopped = True

    @abstractmethod
    def strike(self, world: World, rng: Random) -> bool:
        """Cause the fault once. False if no node could be affected."""

    def nodes(self, world: World) -> list[Node[Any]]:
        """The nodes that this fault may affect, in the order of their creation."""
        return [
            node for name, node in world.nodes.items() if self._names is None or name in self._names
        ]

    def _schedule(self, world: World, start_count: int) -> None:
        gap_ns = self._rng.randrange(self._gap_ns // 2, self._gap_ns * 3 // 2)
        world.after(gap_ns, lambda _: self._strike_again(world, start_count))

    def _strike_again(self, world: World, start_count: int) -> None:
        # A strike scheduled before `calm` is still queued when the fault is injected again.
        if self._is_stopped or start_count != self._start_count:
            return
        if self.strike(world, self._rng):
            self.strike_count += 1
        self._schedule(world, start_count)


class Pauses(Recurring):
    """Pauses a node, as garbage collection, swapping or a debugger do."""

    def __init__(
        self, *, gap_ns: int, length_ns_max: int, nodes: Collection[str] | None = None
    ) -> None:
        super().__init__(gap_ns=gap_ns, nodes=nodes)
        assert length_ns_max > 1
        self._length_ns_max = length_ns_max
        self._until_ns: dict[tuple[str, int], int] = {}

    def strike(self, world: World, rng: Random) -> bool:
        running = [node for node in self.nodes(world) if node.is_running]
        if not running:
            return False
        node = rng.choice(running)
        world.pause(node, rng.randrange(1, self._length_ns_max))
        self._until_ns[node.name, node.life] = node.paused_until_ns
        return True

    def stop(self, world: World) -> None:
        super().stop(world)
        for node in self.nodes(world):
            # A pause that a test began or extended is not ended here.
            until_ns = self._until_ns.get((node.name, node.life))
            if node.is_paused and node.paused_until_ns == until_ns:
                world.resume(node)


class Restarts(Recurring):
    """Crashes a node and starts it again, with or without its stored state."""

    def __init__(
        self,
        *,
        gap_ns: int,
        down_ns_max: int,
        disk_loss_rate: float = 0.0,
        nodes: Collection[str] | None = None,
    ) -> None:
        super().__init__(gap_ns=gap_ns, nodes=nodes)
        assert down_ns_max > 1
        assert 0.0 <= disk_loss_rate <= 1.0
        self._down_ns_max = down_ns_max
        self._disk_loss_rate = disk_loss_rate
        self._keeps_disk: dict[tuple[str, int], bool] = {}

    def strike(self, world: World, rng: Random) -> bool:
        up = [node for node in self.nodes(world) if node.is_up]
        if not up:
            return False
        node = rng.choice(up)
        keep_disk = rng.random() >= self._disk_loss_rate
        self._keeps_disk[node.name, node.life] = keep_disk
        world.restart(node, down_ns=rng.randrange(1, self._down_ns_max), keep_disk=keep_disk)
        return True

    def stop(self, world: World) -> None:
        super().stop(world)
        for node in self.nodes(world):
            # A node that a test crashed stays down: it is not in the dictionary.
            keep_disk = self._keeps_disk.get((node.name, node.life))
            if not node.is_up and keep_disk is not None:
                world.start(node, keep_disk=keep_disk)


class ClockDrift(Fault):
    """Makes each clock run fast or slow by a constant of up to `drift_ppm_max`."""

    def __init__(self, *, drift_ppm_max: int) -> None:
        assert 0 < drift_ppm_max < 1_000_000
        self._drift_ppm_max = drift_ppm_max

    def start(self, world: World, rng: Random) -> None:
        for node in world.nodes.values():
            world.set_drift(node, rng.randrange(-self._drift_ppm_max, self._drift_ppm_max + 1))
            self.strike_count += 1

    def stop(self, world: World) -> None:
        for node in world.nodes.values():
            if node.clock.drift_ppm:
                world.set_drift(node, 0)


class ClockJumps(Recurring):
    """Sets the wall clock of a node by up to `jump_ns_max`, forwards or backwards."""

    def __init__(
        self, *, gap_ns: int, jump_ns_max: int, nodes: Collection[str] | None = None
    ) -> None:
        super().__init__(gap_ns=gap_ns, nodes=nodes)
        assert jump_ns_max > 0
        self._jump_ns_max = jump_ns_max

    def strike(self, world: World, rng: Random) -> bool:
        running = [node for node in self.nodes(world) if node.is_running]
        if not running:
            return False
        jump_ns = rng.randrange(-self._jump_ns_max, self._jump_ns_max + 1)
        world.jump_wall(rng.choice(running), jump_ns)
        return True


class _TemporaryLinkFault(Recurring):
    """A temporary link fault between a node and some of the others."""

    def __init__(
        self, *, gap_ns: int, length_ns_max: int, nodes: Collection[str] | None = None
    ) -> None:
        super().__init__(gap_ns=gap_ns, nodes=nodes)
        assert length_ns_max > 1
        self._length_ns_max = length_ns_max
        self._current: list[LinkFault] = []

    @abstractmethod
    def make(self, sources: list[str], destinations: list[str]) -> LinkFault:
        """The fault in this direction."""

    def strike(self, world: World, rng: Random) -> bool:
        names = [node.name for node in self.nodes(world)]
        if len(names) < 2:
            return False
        one = rng.choice(names)
        others = [name for name in names if name != one]
        others = rng.sample(others, 1 + rng.randrange(len(others)))
        # Outgoing, incoming, or both.
        way = rng.randrange(3)
        length_ns = rng.randrange(1, self._length_ns_max)
        if way != 0:
            self._begin(world, self.make([one], others), length_ns)
        if way != 1:
            self._begin(world, self.make(others, [one]), length_ns)
        return True

    def stop(self, world: World) -> None:
        super().stop(world)
        for fault in self._current:
            fault.stop(world)
        self._current.clear()

    def _begin(self, world: World, fault: LinkFault, length_ns: int) -> None:
        self._current.append(fault)
        fault.start(world, self._rng)
        world.note(
            type(fault).__name__.lower(),
            None,
            **{"from": fault.source_names(), "to": fault.destination_names()},
        )
        world.after(length_ns, lambda _: self._end(world, fault))

    def _end(self, world: World, fault: LinkFault) -> None:
        if fault in self._current:
            self._current.remove(fault)
            fault.stop(world)
            world.note("healed", None, fault=type(fault).__name__.lower())


class Partitions(_TemporaryLinkFault):
    """Temporarily separates a node from some others, in one or both directions."""

    def make(self, sources: list[str], destinations: list[str]) -> LinkFault:
        return Partition(sources=sources, destinations=destinations)


class Clogs(_TemporaryLinkFault):
    """Temporarily holds all packets between a node and some others, then delivers them at once."""

    def make(self, sources: list[str], destinations: list[str]) -> LinkFault:
        return Clog().between(sources=sources, destinations=destinations)


class InterfaceLosses(Recurring):
    """Temporarily takes the network interface of a node away, and with it its multicast groups."""

    def __init__(
        self, *, gap_ns: int, length_ns_max: int, nodes: Collection[str] | None = None
    ) -> None:
        super().__init__(gap_ns=gap_ns, nodes=nodes)
        assert length_ns_max > 1
        self._length_ns_max = length_ns_max
        self._lost: dict[str, Callable[[], None]] = {}
        """What returns the interface of each node that has none."""

    def strike(self, world: World, rng: Random) -> bool:
        able = [node for node in self.nodes(world) if node.name not in self._lost]
        if not able:
            return False
        node = rng.choice(able)
        world.note("interface lost", node)
        give_back = self._lost[node.name] = lose_interface(world, node)
        world.after(
            rng.randrange(1, self._length_ns_max), lambda _: self._end(node.name, give_back)
        )
        return True

    def stop(self, world: World) -> None:
        super().stop(world)
        for name, give_back in list(self._lost.items()):
            self._end(name, give_back)

    def _end(self, name: str, give_back: Callable[[], None]) -> None:
        if self._lost.get(name) is give_back:
            del self._lost[name]
            give_back()


def lose_interface(world: World, node: Node[Any]) -> Callable[[], None]:
    """Cut a node off from all others, and let it leave its groups; return what undoes it."""
    others = [name for name in world.nodes if name != node.name]
    cuts = [
        Partition(sources=[node.name], destinations=others),
        Partition(sources=others, destinations=[node.name]),
    ]
    groups = world.network.groups_of(node)
    for cut in cuts:
        cut.start(world, world.random("interface"))
    for group in groups:
        world.network.leave(node, group)

    def give_back() -> None:
        for cut in cuts:
            cut.stop(world)
        for group in groups:
            world.network.join(node, group)
        world.note("interface returned", node)

    return give_back


class StreamLosses(Recurring):
    """Breaks a stream. Each side is notified within `told_ns_max`."""

    def __init__(self, *, gap_ns: int, told_ns_max: int = 1_000_000_000) -> None:
        super().__init__(gap_ns=gap_ns)
        assert told_ns_max > 0
        self._told_ns_max = told_ns_max

    def strike(self, world: World, rng: Random) -> bool:
        ends = world.network.streams.open_ends()
        if not ends:
            return False
        world.network.streams.lose(
            rng.choice(ends),
            told_ns=rng.randrange(self._told_ns_max),
            far_told_ns=rng.randrange(self._told_ns_max),
        )
        return True


class SlowReaders(Recurring):
    """Makes a node stop reading one of its streams for a while, or read it slowly.

    It is a pause of up to `length_ns_max`, or with equal probability a rate of up to
    `bytes_per_s_max` for as long.
    """

    def __init__(
        self,
        *,
        gap_ns: int,
        length_ns_max: int,
        bytes_per_s_max: int,
        nodes: Collection[str] | None = None,
    ) -> None:
        super().__init__(gap_ns=gap_ns, nodes=nodes)
        assert length_ns_max > 1
        assert bytes_per_s_max > 0
        self._length_ns_max = length_ns_max
        self._bytes_per_s_max = bytes_per_s_max
        self._slow: dict[StreamEnd, int] = {}
        """The affected ends, with the end of the fault."""

    def strike(self, world: World, rng: Random) -> bool:
        ends = [end for node in self.nodes(world) for end in node.streams.values() if end.is_open]
        if not ends:
            return False
        end = rng.choice(ends)
        length_ns = rng.randrange(1, self._length_ns_max)
        rate = rng.randrange(1, self._bytes_per_s_max + 1) if rng.random() < 0.5 else None
        self._slow[end] = world.now_ns + length_ns
        pause_ns = length_ns if rate is None else 0
        world.network.streams.read_slowly(end, pause_ns=pause_ns, bytes_per_s=rate)
        world.after(length_ns, lambda _: self._end(world, end))
        return True

    def stop(self, world: World) -> None:
        super().stop(world)
        for end in list(self._slow):
            del self._slow[end]
            world.network.streams.read_on(end)

    def _end(self, world: World, end: StreamEnd) -> None:
        # A later strike may have extended the fault.
        if end in self._slow and self._slow[end] <= world.now_ns:
            del self._slow[end]
            world.network.streams.read_on(end)


class Refusals(Fault):
    """Refuses new streams with probability `rate`."""

    _rng: Random

    def __init__(self, rate: float) -> None:
        assert 0.0 <= rate <= 1.0
        self._rate = rate

    def start(self, world: World, rng: Random) -> None:
        self._rng = rng
        world.network.streams.refuses.append(self._refuse)

    def stop(self, world: World) -> None:
        if self._refuse in world.network.streams.refuses:
            world.network.streams.refuses.remove(self._refuse)

    def _refuse(self, _node: Node[Any]) -> bool:
        if self._rng.random() >= self._rate:
            return False
        self.strike_count += 1
        return True
