"""Conditions of a simulated system: safety at all times, liveness after the faults have ended.

A checker only observes. It returns None, or a sentence that describes the violation, which the
world raises as a failure with its seed. Any number of checkers can observe one world.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from skerry.protocol.machine import MachineEvent

if TYPE_CHECKING:
    from skerry.testing.node import Node
    from skerry.testing.packet import Packet
    from skerry.testing.world import World


class Checker:
    """Base class of all checkers. The world only calls the methods that a subclass overrides."""

    _name: str | None = None

    @property
    def name(self) -> str:
        """The name of this checker in failures: its class, unless it was given another."""
        return self._name or type(self).__name__

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        """Check safety for an event that a machine has just returned."""

    def arrived(self, packet: Packet) -> str | None:
        """Check safety for a datagram that has just arrived at its node, which may be paused."""

    def safety(self, world: World) -> str | None:
        """Check safety of the state, every `SAFETY_EVENT_COUNT` events and at the end of a run."""

    def liveness(self, world: World) -> str | None:
        """The unmet condition, after faults and workloads have stopped."""


class Invariant(Checker):
    """A condition that always holds: `holds(world)` returns None or the violation."""

    def __init__(self, name: str, holds: Callable[[World], str | None]) -> None:
        self._name = name
        self._holds = holds

    def safety(self, world: World) -> str | None:
        return self._holds(world)


class Eventually(Checker):
    """A condition that holds in the end: `awaited(world)` returns None or what is missing."""

    def __init__(self, name: str, awaited: Callable[[World], str | None]) -> None:
        self._name = name
        self._awaited = awaited

    def liveness(self, world: World) -> str | None:
        return self._awaited(world)


Key = Callable[["Node[Any]", MachineEvent], Hashable | None]
"""Returns the key of an event, or None for events that the checker ignores."""


class EachOnce(Checker):
    """No two events of the system have the same key."""

    def __init__(self, name: str, key: Key) -> None:
        self._name = name
        self._key = key
        self._seen: set[Hashable] = set()

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        key = self._key(node, event)
        if key is None:
            return None
        if key in self._seen:
            return f"{key} occurred again on {node.name}"
        self._seen.add(key)
        return None


class NoInvention(Checker):
    """The key of every event was announced before, with `announce`."""

    def __init__(self, name: str, key: Key) -> None:
        self._name = name
        self._key = key
        self._known: set[Hashable] = set()

    def announce(self, key: Hashable) -> None:
        """Accept events with this key from now on."""
        self._known.add(key)

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        key = self._key(node, event)
        if key is None or key in self._known:
            return None
        return f"{node.name} reports {key}, which was not announced"


class InOrder(Checker):
    """Within a sequence the numbers increase by one: none is missing, repeated or reordered.

    `place` returns the sequence of an event and its number in it. A sequence may begin with any
    number. If a restart begins a new sequence, its name should contain the life of the node.
    """

    def __init__(
        self, name: str, place: Callable[[Node[Any], MachineEvent], tuple[Hashable, int] | None]
    ) -> None:
        self._name = name
        self._place = place
        self._next: dict[Hashable, int] = {}

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        place = self._place(node, event)
        if place is None:
            return None
        sequence, number = place
        expected = self._next.get(sequence, number)
        self._next[sequence] = number + 1
        if number == expected:
            return None
        return f"{node.name} expected number {expected} of {sequence} and received {number}"
