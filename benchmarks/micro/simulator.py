"""Events per second of the simulator, with the trace on.

Two loads of machines that do nothing but answer: a pair that plays ping-pong, and one that talks
to a group of fifty. There is no peer; the figures show how many seeds one night can run.
"""

from __future__ import annotations

import time

from benchmarks.rows import Row
from skerry.protocol.machine import Address
from skerry.testing import SECOND, World
from tests.sim.probe import Probe

GROUP = Address("group", 7)


class Answering(Probe):
    """Sends back what it receives."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Answer."""
        self.send(source, data)


def run() -> list[Row]:
    """Events per second of CPU."""
    return [
        Row(name="simulator, two that answer", ours=_ping_pong(), unit="events/s"),
        Row(name="simulator, a group of 50", ours=_group(), unit="events/s"),
    ]


def _ping_pong() -> float:
    world = World(1)
    first = world.add("a", Answering)
    world.add("b", Answering)
    first.do(lambda machine, _now_ns: machine.send(Address("b", 7), b"x"))
    return _events_per_second(world, 60 * SECOND)


def _group() -> float:
    world = World(1)
    speaker = world.add("speaker", Probe)
    for number in range(50):
        world.add(f"member{number}", Probe, groups=[GROUP])
    for _ in range(2000):
        speaker.do(lambda machine, _now_ns: machine.send(GROUP, b"x"))
    return _events_per_second(world, 60 * SECOND)


def _events_per_second(world: World, duration_ns: int) -> float:
    before = world.event_count
    started_ns = time.process_time_ns()
    world.run_for(duration_ns)
    return (world.event_count - before) / ((time.process_time_ns() - started_ns) / 1e9)
