"""Checkers: what each lets pass and what it catches, and when the world asks them."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.errors import SimulationError
from skerry.protocol.machine import Address, MachineEvent
from skerry.testing import (
    MS,
    SECOND,
    Checker,
    EachOnce,
    Eventually,
    InOrder,
    Invariant,
    Loss,
    Node,
    NoInvention,
    Packet,
    World,
)
from tests.sim.probe import Heard, Probe


def number(_: Node[Any], event: MachineEvent) -> int | None:
    return int(event.data) if isinstance(event, Heard) else None


def place(node: Node[Any], event: MachineEvent) -> tuple[str, int] | None:
    return (node.name, int(event.data)) if isinstance(event, Heard) else None


def hear(world: World, *numbers: int) -> None:
    """Let a node hear these numbers."""
    node = world.nodes["a"] if "a" in world.nodes else world.add("a", Probe)
    for value in numbers:
        node.machine.receive(b"%d" % value, Address("x"), node.now_ns)
        world.collect(node)


def test_each_once_catches_a_repetition(world: World) -> None:
    world.watch(EachOnce("once", number))
    hear(world, 1, 2, 3)
    with pytest.raises(SimulationError, match="once: 2 occurred again on a"):
        hear(world, 2)


def test_no_invention_finds_keys_that_were_not_announced(world: World) -> None:
    checker = NoInvention("genuine", number)
    world.watch(checker)
    checker.announce(1)
    hear(world, 1, 1)
    with pytest.raises(SimulationError, match="genuine: a reports 2"):
        hear(world, 2)


@pytest.mark.parametrize("numbers", [(5, 7), (5, 5), (5, 6, 5)])
def test_in_order_catches_gaps_repeats_and_swaps(world: World, numbers: tuple[int, ...]) -> None:
    world.watch(InOrder("order", place))
    with pytest.raises(SimulationError, match="order: a expected number"):
        hear(world, *numbers)


def test_in_order_lets_a_sequence_begin_anywhere(world: World) -> None:
    world.watch(InOrder("order", place))
    hear(world, 5, 6, 7)


def test_events_a_checker_has_nothing_to_do_with_pass(world: World) -> None:
    world.watch(EachOnce("once", lambda _node, _event: None))
    world.watch(InOrder("order", lambda _node, _event: None))
    world.watch(NoInvention("genuine", lambda _node, _event: None))
    hear(world, 1, 1, 7)


def test_an_invariant_is_asked_during_the_run_and_at_its_end(world: World) -> None:
    broken: list[str] = []
    world.watch(Invariant("whole", lambda _: broken[0] if broken else None))
    world.run_for(SECOND)
    broken.append("it broke")
    with pytest.raises(SimulationError, match="whole: it broke"):
        world.run_for(SECOND)
    for n in range(1000):
        world.after(n, lambda _: None)
    with pytest.raises(SimulationError, match="whole: it broke"):
        world.run_until(lambda: False)
    assert world.event_count == 100, "not only when the run is over"


def test_liveness_is_asked_only_when_the_faults_have_stopped(world: World) -> None:
    a, b = world.pair(Probe, Probe)
    world.inject(Loss(1.0))
    asked_at_ns: list[int] = []

    def awaited(world: World) -> str | None:
        asked_at_ns.append(world.now_ns)
        a.do(lambda machine, _: machine.send(b.address, b"1"))
        return None if b.machine.heard else "nothing was heard"

    world.watch(Eventually("arrives", awaited))
    world.run(faults_ns=SECOND, calm_ns=SECOND)
    assert asked_at_ns[0] == SECOND
    assert b.machine.heard


def test_an_unmet_condition_is_reported(world: World) -> None:
    world.watch(Eventually("arrives", lambda _: "godot is not here"))
    with pytest.raises(SimulationError, match="arrives: 3 s after the faults: godot is not here"):
        world.run(faults_ns=SECOND, calm_ns=3 * SECOND)


def test_a_checker_sees_datagrams_that_wait_for_a_paused_node(world: World) -> None:
    class Tap(Checker):
        def __init__(self) -> None:
            self.seen: list[bytes] = []

        def arrived(self, packet: Packet) -> str | None:
            self.seen.append(packet.data)
            return "forbidden" if packet.data == b"bad" else None

    tap = Tap()
    world.watch(tap)
    a, b = world.pair(Probe, Probe)
    world.pause(b, SECOND)
    a.do(lambda machine, _: machine.send(b.address, b"good"))
    world.run_for(MS)
    assert tap.seen == [b"good"]
    a.do(lambda machine, _: machine.send(b.address, b"bad"))
    with pytest.raises(SimulationError, match="Tap: forbidden"):
        world.run_for(MS)


def test_a_checker_that_overrides_nothing_is_content(world: World) -> None:
    world.watch(Checker())
    hear(world, 1)
    world.run(faults_ns=SECOND)
    assert Checker().name == "Checker"
