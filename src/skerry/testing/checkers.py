"""What must hold in a simulated system: safety all along, liveness once the faults have stopped.

A checker only looks. It answers None while all is well, or a sentence that says what is wrong, and
the world turns the sentence into a failure with its seed. Any number of them watch one world.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from skerry.protocol.machine import MachineEvent

if TYPE_CHECKING:
    from skerry.testing.node import Node
    from skerry.testing.packet import Packet
    from skerry.testing.world import World

__all__ = ["Checker", "EachOnce", "Eventually", "InOrder", "Invariant", "Key", "NoInvention"]


class Checker:
    """Base of all checkers. Override what you need; the world calls nothing else."""

    @property
    def name(self) -> str:
        """How a failure names this checker."""
        return type(self).__name__

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        """Safety, event by event: a machine told this to the layer above just now."""

    def arrived(self, packet: Packet) -> str | None:
        """Safety, datagram by datagram: this reached its node, which may be paused."""

    def safety(self, world: World) -> str | None:
        """Safety as a state: asked every so many events, and at the end of each run."""

    def liveness(self, world: World) -> str | None:
        """What is still awaited. Asked once faults and workloads have stopped."""


class Invariant(Checker):
    """Something that holds at every moment: `holds(world)` gives None or what is wrong."""

    def __init__(self, name: str, holds: Callable[[World], str | None]) -> None:
        self._name = name
        self._holds = holds

    @property
    def name(self) -> str:
        return self._name

    def safety(self, world: World) -> str | None:
        return self._holds(world)


class Eventually(Checker):
    """Something that comes to be: `awaited(world)` gives None or what is still missing."""

    def __init__(self, name: str, awaited: Callable[[World], str | None]) -> None:
        self._name = name
        self._awaited = awaited

    @property
    def name(self) -> str:
        return self._name

    def liveness(self, world: World) -> str | None:
        return self._awaited(world)


Key = Callable[["Node[Any]", MachineEvent], Hashable | None]
"""Picks what a checker is about out of an event; None for events it has nothing to do with."""


class EachOnce(Checker):
    """No two events of the system have the same key."""

    def __init__(self, name: str, key: Key) -> None:
        self._name = name
        self._key = key
        self._seen: set[Hashable] = set()

    @property
    def name(self) -> str:
        return self._name

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        key = self._key(node, event)
        if key is None:
            return None
        if key in self._seen:
            return f"{key} happened again on {node.name}"
        self._seen.add(key)
        return None


class NoInvention(Checker):
    """Every key that an event has was announced before, with `announce`, by whoever caused it."""

    def __init__(self, name: str, key: Key) -> None:
        self._name = name
        self._key = key
        self._known: set[Hashable] = set()

    @property
    def name(self) -> str:
        return self._name

    def announce(self, key: Hashable) -> None:
        """From now on an event with this key is genuine."""
        self._known.add(key)

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        key = self._key(node, event)
        if key is None or key in self._known:
            return None
        return f"{node.name} tells of {key}, which nobody caused"


class InOrder(Checker):
    """Within a sequence the numbers grow by one: nothing missing, repeated or swapped.

    `place` gives the sequence an event belongs to and its number there. A sequence may begin
    anywhere; put the life of the node into its name where a restart may begin a new one.
    """

    def __init__(
        self, name: str, place: Callable[[Node[Any], MachineEvent], tuple[Hashable, int] | None]
    ) -> None:
        self._name = name
        self._place = place
        self._next: dict[Hashable, int] = {}

    @property
    def name(self) -> str:
        return self._name

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        place = self._place(node, event)
        if place is None:
            return None
        sequence, number = place
        expected = self._next.get(sequence, number)
        self._next[sequence] = number + 1
        if number == expected:
            return None
        return f"{node.name} expected number {expected} of {sequence} and got {number}"
