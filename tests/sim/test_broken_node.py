"""Nodes and programs that are broken on purpose: each must be caught, and by the right checker.

The faults are small mistakes that a developer may make: a removal that is not passed on, an
answer that does not wait for the disk, a count that is missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from skerry.codec.frame import FrameCutter, frame
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.dispatch.ledger import NodeStatistics
from skerry.errors import SimulationError
from skerry.protocol.machine import Address, CloseReason, Transmit
from skerry.testing import Factory, Setting, World
from skerry.testing.machines.node_host import OLD_PREFIX, NodeHost
from skerry.testing.machines.node_scenarios import play_node
from skerry.testing.machines.program import CLEANUP, Flushed, Program
from tests.sim.slow_readers import SLOW_LIMITS, play_slow

SEED_COUNT = 40
"""A crash has to come at the right moment; most are caught by the first few."""

pytestmark = pytest.mark.slow

Play = Callable[[World, int], None]


class Invents(NodeHost):
    """Changes a byte of a published object."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        super().receive(data.replace(b":..", b":,."), source, now_ns)


class Swaps(NodeHost):
    """Takes the second of two objects first when they come together."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._cutters: dict[Address, FrameCutter] = {}

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        if not source.host.startswith(OLD_PREFIX):
            bodies = self._cutters.setdefault(source, FrameCutter()).feed(data)
            for at in range(len(bodies) - 1):
                if _is_object(bodies[at]) and _is_object(bodies[at + 1]):
                    bodies[at : at + 2] = [bodies[at + 1], bodies[at]]
                    break
            data = b"".join(frame(body) for body in bodies)
        super().receive(data, source, now_ns)


class LeavesOut(NodeHost):
    """Forgets one message in four of those that are sent alone."""

    count = 0

    def take_transmits(self) -> list[Transmit]:
        return [item for item in super().take_transmits() if not self._is_forgotten(item)]

    def _is_forgotten(self, item: Transmit) -> bool:
        # One frame, of a message: the name of its type stands in it once.
        if item.data.count(b"dCall") != 1 or item.data.count(b"\x1a\x00\x00") != 1:
            return False
        self.count += 1
        return self.count % 4 == 0


class NeverNotifies(NodeHost):
    """Forgets objects of clients that are gone, as it should, and does not say so."""

    def stream_closed(self, peer: Address, reason: CloseReason, now_ns: int) -> None:
        type_cache = self.core.cache.type_cache(CLEANUP)
        for key in list(type_cache.objects):
            self.core.cache.drop(type_cache, key)
        super().stream_closed(peer, reason, now_ns)


class LeavesTraces(NodeHost):
    """Does not clean up after its clients."""

    def stream_closed(self, peer: Address, reason: CloseReason, now_ns: int) -> None:
        type_cache = self.core.cache.type_cache(CLEANUP)
        before = dict(type_cache.objects)
        super().stream_closed(peer, reason, now_ns)
        for key, entry in before.items():
            if key not in type_cache.objects:
                self.core.cache.restore(type_cache, key, entry)


class Hasty(NodeHost):
    """Says that a batch is written as soon as it is begun."""

    def advance(self, now_ns: int) -> None:
        super().advance(now_ns)
        if self._batch is not None:
            self.journal.stored = max(self.journal.stored, self._batch.number)


class Forgetful(NodeHost):
    """Loses the last object it wrote in a crash."""

    def durable(self) -> bytes:
        if self.disk.objects:
            self.disk.objects.popitem()
        return super().durable()


class Miscounts(NodeHost):
    """Tells of an update that it does not know what became of."""

    def statistics(self) -> NodeStatistics:
        notified = super().statistics()
        rows = [
            replace(row, ledger=replace(row.ledger, due=row.ledger.due + 1))
            for row in notified.types
        ]
        return replace(notified, types=tuple(rows))


class Rude(NodeHost):
    """Finds fault with clients that flush."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        super().receive(data, source, now_ns)
        if b"skerry-flush" in data:
            super().receive(b"\xff" * 100, source, now_ns)


class Raises(NodeHost):
    """Has a mistake on a way that is seldom taken."""

    def resume(self, peer: Address, now_ns: int) -> None:
        raise KeyError(peer)


class Patient(NodeHost):
    """Lets everything wait for a client that does not read."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, limits=ClientLimits())


class Cutting(NodeHost):
    """Cuts clients that conflate as soon as those that do not."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, limits=replace(SLOW_LIMITS, waiting_bytes_max=20_000))


class Confident(Program):
    """Takes every flush that is over for a good one."""

    def _end_flushes(self) -> None:
        for flush, number in self._flushes:
            if flush.is_done:
                self._events.append(Flushed(number=number))
        self._flushes = [item for item in self._flushes if not item[0].is_done]


class NeverComesBack(Program):
    """Has no idea what to do without a stream."""

    def stream_closed(self, peer: Address, reason: CloseReason, now_ns: int) -> None:
        return None


class KeepsTheDead(Program):
    """Does not know on which connection it heard of an object, so that none is ever stale."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        self.space.intake.context.epoch = 0
        super().receive(data, source, now_ns)


class HearsTwice(Program):
    """Receives each cached object twice."""

    def _on_event(self, number: int, event: Any) -> None:
        super()._on_event(number, event)
        if event.operation == "create" and event.is_from_cache:
            super()._on_event(number, event)


def caught_by(play: Play, node_count: int, checker: str) -> set[str]:
    """The checkers that failed, up to the first seed with the one that should."""
    caught: set[str] = set()
    for seed in range(SEED_COUNT):
        try:
            play(World(seed), node_count)
        except SimulationError as error:
            caught.add(error.checker)
        if checker in caught:
            break
    return caught


@pytest.mark.parametrize(
    ("host", "checker"),
    [
        (Invents, "Genuine"),
        (Swaps, "OrderKept"),
        (LeavesOut, "NothingLeftOut"),
        (NeverNotifies, "SameObjects"),
        (LeavesTraces, "CleanedUp"),
        (Hasty, "ConfirmedIsKept"),
        (Forgetful, "ConfirmedIsKept"),
        (Miscounts, "Explained"),
        (Rude, "NobodyIsBlamed"),
    ],
)
def test_a_broken_node_is_caught(host: Factory[NodeHost], checker: str) -> None:
    assert checker in caught_by(partial(play_node, host=host), 5, checker)


@pytest.mark.parametrize(
    ("host", "checker"),
    [(Patient, "Bounded"), (Raises, "machine"), (Cutting, "ConflatedIsNotCut")],
)
def test_a_node_that_mistreats_slow_clients_is_caught(
    host: Factory[NodeHost], checker: str
) -> None:
    assert checker in caught_by(partial(play_slow, host=host), 4, checker)


@pytest.mark.parametrize(
    ("program", "checker"),
    [
        (Confident, "ConfirmedIsKept"),
        (NeverComesBack, "SameObjects"),
        (KeepsTheDead, "SameObjects"),
        (HearsTwice, "ConsistentEvents"),
    ],
)
def test_a_broken_program_is_caught(program: Factory[Program], checker: str) -> None:
    assert checker in caught_by(partial(play_node, program=program), 5, checker)


def _is_object(body: bytes) -> bool:
    return b"Dots" not in body and b"Descriptor" not in body
