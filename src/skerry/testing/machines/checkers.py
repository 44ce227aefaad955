"""Checkers of the echo and of the heartbeat."""

from __future__ import annotations

from typing import Any, cast

from skerry.protocol.machine import MachineEvent
from skerry.testing.checkers import Checker, EachOnce, NoInvention
from skerry.testing.machines.echo import Answered, GaveUp, Served
from skerry.testing.machines.heartbeat import (
    Beat,
    Found,
    HeartbeatConfig,
    HeartbeatDetector,
    Restored,
    Suspected,
)
from skerry.testing.node import Node
from skerry.testing.packet import Packet
from skerry.testing.world import World


def answered_once() -> EachOnce:
    """A client reports each answer once."""
    return EachOnce("answered once", _answer_key)


def served_once() -> EachOnce:
    """A server serves each question once per life."""
    return EachOnce("served once", _served_key)


def genuine() -> NoInvention:
    """Questions and answers have the data that was announced as (life, number, data)."""
    return NoInvention("genuine", _content_key)


class AllAnswered(Checker):
    """Liveness: every question is answered, except those that a client lost with its disk."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], str] = {}

    def asked(self, node: Node[Any], life: int, number: int) -> None:
        """Record a question that must be answered."""
        self._open[life, number] = node.name

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, GaveUp):
            return f"{node.name} gave up question {event.number}"
        if isinstance(event, Answered):
            self._open.pop((event.life, event.number), None)
        return None

    def liveness(self, world: World) -> str | None:
        for (life, number), name in self._open.items():
            if world.nodes[name].machine.life == life:
                return f"question {number} of {name} has no answer"
        return None


class NoHastySuspicion(Checker):
    """No member suspects a peer whose new beat arrived within the timeout.

    A beat counts from its arrival at the node, even if the node is paused and has not read it.
    """

    def __init__(self, config: HeartbeatConfig) -> None:
        # The clocks of the nodes may drift by a thousandth.
        self._recent_ns = config.timeout_ns - config.timeout_ns // 1000
        # A pause may begin just before the end of the last call and end just in time after it.
        self._unread_ns = 2 * config.last_call_ns + config.last_call_ns // 500
        self._arrivals: dict[tuple[str, str], tuple[Beat, list[int]]] = {}

    def arrived(self, packet: Packet) -> str | None:
        beat = Beat.decode(packet.data)
        link = (packet.destination.name, packet.source.name)
        # A beat of a past life is not a sign of the current one.
        if beat is None or not packet.source.is_up or packet.source.machine.life != beat.life:
            return None
        last, times_ns = self._arrivals.get(link, (None, []))
        if last is not None and last.life == beat.life and last.number >= beat.number:
            return None
        now_ns = packet.destination.world.now_ns
        recent = [at_ns for at_ns in times_ns if now_ns - at_ns < self._recent_ns]
        self._arrivals[link] = (beat, [*recent, now_ns])
        return None

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, Suspected):
            return None
        _, times_ns = self._arrivals.get((node.name, event.peer), (None, []))
        for at_ns in times_ns:
            silent_ns = node.world.now_ns - at_ns
            if self._unread_ns < silent_ns < self._recent_ns:
                silent_ms = silent_ns / 1_000_000
                return (
                    f"{node.name} suspects {event.peer}, whose beat arrived {silent_ms:.1f} ms ago"
                )
        return None


class SuspicionsAlternate(Checker):
    """A peer is found before it is suspected, and restored before it is suspected again."""

    def __init__(self) -> None:
        self._trusted: dict[tuple[str, int, str], bool] = {}

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, (Found, Suspected, Restored)):
            return None
        key = (node.name, node.life, event.peer)
        trusted = self._trusted.get(key)
        expected = {Found: None, Suspected: True, Restored: False}[type(event)]
        self._trusted[key] = not isinstance(event, Suspected)
        if trusted is expected:
            return None
        return f"{node.name} reports {type(event).__name__} of {event.peer} in the wrong order"


class AllHeard(Checker):
    """Liveness: every member trusts every other member that is up."""

    def liveness(self, world: World) -> str | None:
        for node in world.nodes.values():
            if not node.is_up:
                continue
            alive = cast("HeartbeatDetector", node.machine).alive()
            for other in world.nodes.values():
                if other is not node and other.is_up and other.name not in alive:
                    return f"{node.name} does not receive beats of {other.name}"
        return None


def _answer_key(node: Node[Any], event: MachineEvent) -> tuple[str, int, int] | None:
    if not isinstance(event, Answered):
        return None
    return (node.name, event.life, event.number)


def _served_key(node: Node[Any], event: MachineEvent) -> tuple[str, int, int, int] | None:
    if not isinstance(event, Served):
        return None
    return (node.name, node.life, event.life, event.number)


def _content_key(_: Node[Any], event: MachineEvent) -> tuple[int, int, bytes] | None:
    if not isinstance(event, (Answered, Served)):
        return None
    return (event.life, event.number, event.data)
