"""One simulated node: a machine, its clock, and its input queue."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from skerry.errors import LocalProtocolError
from skerry.protocol.machine import Address, Machine, MachineEvent, PortMachine
from skerry.tracing import Tracer

if TYPE_CHECKING:
    from skerry.testing.stream_end import StreamEnd
    from skerry.testing.world import World


WALL_START_NS: Final = 1_767_225_600_000_000_000
"""Wall time at world time 0: 2026-01-01T00:00:00Z. Fixed, so that traces repeat."""

_MILLION: Final = 1_000_000


class SimulatedClock:
    """The clock of one node: a monotonic time that may drift, and a wall time that may jump.

    The simulator orders events by world time, which no machine sees. The monotonic clock of each
    node starts at another value, because a machine that compares its monotonic time with that of a
    peer has a bug that equal clocks would hide.
    """

    __slots__ = ("_local_ns", "_world_ns", "drift_ppm", "wall_offset_ns")

    def __init__(self, *, start_ns: int) -> None:
        assert start_ns >= 0
        self._world_ns = 0
        self._local_ns = start_ns
        self.drift_ppm = 0
        """How fast this clock runs, in millionths; negative if it runs slow."""
        self.wall_offset_ns = WALL_START_NS - start_ns
        """Wall time less monotonic time."""

    def read(self, world_ns: int) -> int:
        """The node's monotonic time at `world_ns`."""
        passed_ns = world_ns - self._world_ns
        if self.drift_ppm:
            passed_ns = passed_ns * (_MILLION + self.drift_ppm) // _MILLION
        return self._local_ns + passed_ns

    def world_ns(self, local_ns: int) -> int:
        """The first world time at which `read` returns `local_ns` or more."""
        passed_ns = local_ns - self._local_ns
        if self.drift_ppm:
            passed_ns = -(-passed_ns * _MILLION // (_MILLION + self.drift_ppm))
        return self._world_ns + passed_ns

    def set_drift(self, drift_ppm: int, world_ns: int) -> None:
        """Run faster or slower from `world_ns` on. Monotonic time itself does not jump."""
        assert drift_ppm > -_MILLION, "a monotonic clock does not run backwards"
        self._local_ns = self.read(world_ns)
        self._world_ns = world_ns
        self.drift_ppm = drift_ppm

    def jump_wall(self, jump_ns: int) -> None:
        """Set the wall clock forwards or backwards. Monotonic time is not affected."""
        self.wall_offset_ns += jump_ns


# -- clocks


SIM_EVENT_KEPT_COUNT_MAX: Final = 100_000
"""Events that a node keeps for tests. The oldest ones are dropped first."""

MachineT = TypeVar("MachineT", bound=Machine)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The argument of a factory: the circumstances of one life of a machine."""

    name: str
    address: Address
    now_ns: int
    wall_offset_ns: int
    """Wall time less monotonic time. A `WallClocked` machine is notified of later changes."""
    rng: Random
    tracer: Tracer
    life: int
    """1 for the first life of the node, one more after each restart."""
    disk: bytes | None
    """The `Durable` state of the previous life; None in the first life or if it was lost."""


Factory = Callable[[Setting], MachineT]
"""Builds a machine, at the start and again after each restart."""


class Node(Generic[MachineT]):
    """One node of a world. A restart replaces its machine by a new object."""

    __slots__ = (
        "_machine",
        "address",
        "addresses",
        "clock",
        "disk",
        "events",
        "factory",
        "has_ports",
        "inbox",
        "is_paused",
        "label",
        "life",
        "listens",
        "name",
        "paused_until_ns",
        "port_next",
        "spin_count",
        "spin_ns",
        "streams",
        "timer_ns",
        "world",
    )

    def __init__(
        self,
        *,
        world: World,
        name: str,
        ports: Sequence[int],
        factory: Factory[MachineT],
        clock: SimulatedClock,
        listens: bool,
    ) -> None:
        self.world = world
        self.name = name
        self.label = json.dumps(name)
        """The name in the form of the trace."""
        self.addresses = [Address(name, port) for port in ports]
        self.address = self.addresses[0]
        self.has_ports = False
        """Whether the machine has several sockets."""
        self.factory = factory
        self.clock = clock
        self.listens = listens
        self.life = 0
        self.disk: bytes | None = None
        self.events: deque[MachineEvent] = deque(maxlen=SIM_EVENT_KEPT_COUNT_MAX)
        """The events of the machine over all its lives, oldest first."""
        self.streams: dict[Address, StreamEnd] = {}
        """Streams that the machine knows, by the address of the far end."""
        self.port_next = 49152
        self.is_paused = False
        self.paused_until_ns = 0
        self.inbox: deque[tuple[Callable[[Any], None], Any]] = deque()
        self.timer_ns: int | None = None
        self.spin_ns = -1
        self.spin_count = 0
        self._machine: MachineT | None = None

    def __repr__(self) -> str:
        state = "down" if not self.is_up else "paused" if self.is_paused else "running"
        return f"<Node {self.name} {state}, life {self.life}>"

    @property
    def machine(self) -> MachineT:
        """The machine of the current life."""
        if self._machine is None:
            raise LocalProtocolError(f"node {self.name} is down and has no machine")
        return self._machine

    @property
    def is_up(self) -> bool:
        """Whether the node has a machine, paused or not."""
        return self._machine is not None

    @property
    def is_running(self) -> bool:
        """Whether the node is up and not paused, so that an application on it can act."""
        return self._machine is not None and not self.is_paused

    @property
    def now_ns(self) -> int:
        """The node's own monotonic time."""
        return self.clock.read(self.world.now_ns)

    def do(self, action: Callable[[MachineT, int], Result]) -> Result:
        """Call `action(machine, now_ns)` as an application would. The transmits and events of the
        machine are processed afterwards, as after any other input."""
        if not self.is_running:
            raise LocalProtocolError(f"{self!r} cannot act now; check `is_running` first")
        result = action(self.machine, self.now_ns)
        self.world.input_count += 1
        self.world.collect(self)
        return result

    def replace_machine(self, machine: MachineT | None) -> None:
        """Replace or remove the machine. Only the world calls this."""
        self._machine = machine
        self.has_ports = isinstance(machine, PortMachine)
