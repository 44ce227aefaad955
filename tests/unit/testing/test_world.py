"""The world: time, chance, lives and pauses of nodes, bounds, and the report of a failure."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from skerry.errors import LimitExceeded, SimulationError
from skerry.limits import SIM_INBOX_COUNT_MAX
from skerry.protocol.machine import Address
from skerry.testing import MS, SECOND, Exactly, Invariant, Loss, Node, Repeat, World
from skerry.testing.world import (
    SIM_EVENT_COUNT_MAX,
    SIM_NODE_COUNT_MAX,
    SIM_SPIN_COUNT_MAX,
    SIM_TIME_NS_MAX,
)
from tests.sim.probe import Probe


def wake(node: Node[Any], after_ns: int) -> None:
    def set_deadline(machine: Probe, now_ns: int) -> None:
        machine.wake_ns = now_ns + after_ns

    node.do(set_deadline)


def test_things_happen_in_the_order_of_time_and_then_of_planning(world: World) -> None:
    seen: list[str] = []
    world.after(20, seen.append, "third")
    world.after(10, seen.append, "first")
    world.after(10, seen.append, "second")
    world.run_for(100)
    assert seen == ["first", "second", "third"]
    assert world.now_ns == 100


def test_chance_depends_on_the_seed_and_the_purpose_only() -> None:
    draw = World(1).random("x").random()
    assert World(1).random("x").random() == draw
    assert World(2).random("x").random() != draw
    assert World(1).random("y").random() != draw


def test_a_fault_draws_the_same_whatever_other_faults_there_are(world: World) -> None:
    def lost(with_other: bool) -> list[bytes]:
        world = World(5)
        a, b = world.pair(Probe, Probe)
        if with_other:
            world.inject(Exactly(seqs={1000}))
        world.inject(Loss(0.5))
        a.do(lambda machine, _: machine.send(b.address, *(b"%d" % n for n in range(100))))
        world.run_for(SECOND)
        return b.machine.heard

    assert lost(with_other=True) == lost(with_other=False)


def test_a_pair_loses_packets_from_the_first_to_the_second_only(world: World) -> None:
    a, b = world.pair(Probe, Probe, loss=Exactly(seqs={1}))
    a.do(lambda machine, _: machine.send(b.address, b"0", b"1", b"2"))
    b.do(lambda machine, _: machine.send(a.address, b"0", b"1", b"2"))
    world.run_for(SECOND)
    assert b.machine.heard == [b"0", b"2"]
    assert a.machine.heard == [b"0", b"1", b"2"]


# -- deadlines


def test_a_machine_is_advanced_at_its_deadline_in_its_own_time(world: World) -> None:
    node = world.add("a", Probe)
    start_ns = node.now_ns
    wake(node, 5 * MS)
    world.run_for(SECOND)
    assert node.machine.advanced_at_ns == [start_ns + 5 * MS]


def test_a_deadline_that_moves_back_or_forth_is_kept(world: World) -> None:
    node = world.add("a", Probe)
    start_ns = node.now_ns
    wake(node, 5 * MS)
    wake(node, 9 * MS)
    world.run_for(7 * MS)
    assert node.machine.advanced_at_ns == []
    wake(node, 1 * MS)
    world.run_for(SECOND)
    assert node.machine.advanced_at_ns == [start_ns + 8 * MS]


def test_a_deadline_follows_a_clock_that_drifts(world: World) -> None:
    node = world.add("a", Probe)
    wake(node, SECOND)
    world.set_drift(node, 100_000)
    world.run_for(SECOND * 10 // 11 - MS)
    assert node.machine.advanced_at_ns == []
    world.run_for(2 * MS)
    assert len(node.machine.advanced_at_ns) == 1


def test_a_deadline_that_never_moves_is_found(world: World) -> None:
    class Stuck(Probe):
        def advance(self, now_ns: int) -> None:
            self.advanced_at_ns.append(now_ns)

    node = world.add("a", Stuck)
    wake(node, MS)
    with pytest.raises(SimulationError, match="its deadline does not move"):
        world.run_for(SECOND)
    assert len(node.machine.advanced_at_ns) == SIM_SPIN_COUNT_MAX


# -- pauses, restarts, clocks


def test_mail_for_a_paused_node_waits_and_deadlines_pass(world: World) -> None:
    a, b = world.add("a", Probe), world.add("b", Probe)
    wake(b, 10 * MS)
    world.pause(b, SECOND)
    a.do(lambda machine, _: machine.send(b.address, b"1", b"2"))
    world.run_for(SECOND - MS)
    assert b.machine.heard == []
    assert b.machine.advanced_at_ns == []
    world.run_for(2 * MS)
    assert b.machine.heard == [b"1", b"2"]
    assert len(b.machine.advanced_at_ns) == 1


def test_after_a_pause_either_inputs_or_the_deadline_are_first() -> None:
    def first_is_mail(seed: int) -> bool:
        world = World(seed)
        order: list[str] = []

        class Ordered(Probe):
            def receive(self, data: bytes, source: Address, now_ns: int) -> None:
                order.append("mail")
                super().receive(data, source, now_ns)

            def advance(self, now_ns: int) -> None:
                order.append("deadline")
                super().advance(now_ns)

        a, b = world.add("a", Probe), world.add("b", Ordered)
        b.do(lambda machine, now_ns: setattr(machine, "wake_ns", now_ns + MS))
        world.pause(b, SECOND)
        a.do(lambda machine, _: machine.send(b.address, b"1"))
        world.run_for(2 * SECOND)
        assert sorted(order) == ["deadline", "mail"]
        return order[0] == "mail"

    assert {first_is_mail(seed) for seed in range(20)} == {True, False}


def test_the_longer_of_two_pauses_counts(world: World) -> None:
    node = world.add("a", Probe)
    world.pause(node, 10 * MS)
    world.pause(node, 30 * MS)
    world.run_for(20 * MS)
    assert node.is_paused
    world.run_for(20 * MS)
    assert not node.is_paused


def test_a_pause_ends_with_the_life_it_struck(world: World) -> None:
    node = world.add("a", Probe)
    world.pause(node, 10 * MS)
    world.pause(node, SECOND)
    world.restart(node, down_ns=MS)
    world.run_for(2 * MS)
    assert node.is_running
    world.pause(node, 20 * MS)
    world.run_for(10 * MS)
    assert node.is_paused, "the first pause must not end the second"
    world.run_for(11 * MS)
    assert node.is_running, "nor make it longer"


@pytest.mark.slow
def test_datagrams_for_a_paused_node_are_dropped_when_too_many_wait(world: World) -> None:
    a, b = world.add("a", Probe), world.add("b", Probe)
    world.pause(b, SECOND)
    a.do(lambda machine, _: machine.send(b.address, *[b"x"] * (SIM_INBOX_COUNT_MAX + 5)))
    world.run_for(2 * SECOND)
    assert len(b.machine.heard) == SIM_INBOX_COUNT_MAX


def test_a_restarted_machine_is_another_one_with_its_disk(world: World) -> None:
    node = world.add("a", Probe)
    before = node.machine
    assert before.setting.disk is None
    before.stored = b"kept"
    world.restart(node, down_ns=MS)
    world.run_for(2 * MS)
    assert node.machine is not before
    assert node.machine.setting.disk == b"kept"
    assert node.machine.setting.life == 2
    assert node.machine.setting.rng.random() != before.setting.rng.random()


def test_a_disk_can_be_lost(world: World) -> None:
    node = world.add("a", Probe)
    node.machine.stored = b"kept"
    world.restart(node, down_ns=MS, keep_disk=False)
    world.run_for(2 * MS)
    assert node.machine.setting.disk is None


def test_a_crashed_node_receives_nothing_and_has_no_deadline(world: World) -> None:
    a, b = world.add("a", Probe), world.add("b", Probe)
    wake(b, 5 * MS)
    a.do(lambda machine, _: machine.send(b.address, b"under way"))
    world.restart(b, down_ns=10 * MS)
    world.run_for(SECOND)
    assert b.machine.heard == []
    assert b.machine.advanced_at_ns == []


def test_the_machine_is_notified_of_a_wall_clock_change(world: World) -> None:
    node = world.add("a", Probe)
    before_ns = node.machine.wall_offset_ns
    now_ns = node.now_ns
    world.jump_wall(node, -SECOND)
    assert node.machine.wall_offset_ns == before_ns - SECOND
    assert node.now_ns == now_ns


# -- running, bounds, failures


def test_run_until_stops_at_the_event_that_fulfils_the_condition(world: World) -> None:
    a, b = world.add("a", Probe), world.add("b", Probe)
    a.do(lambda machine, _: machine.send(b.address, b"1", b"2"))
    world.run_until(lambda: b.machine.heard == [b"1"])
    assert world.now_ns == world.network.latency_ns
    world.run_until(lambda: len(b.machine.heard) == 2)


def test_run_until_fails_after_the_timeout(world: World) -> None:
    def nobody_will_ever() -> bool:
        return False

    with pytest.raises(SimulationError, match="nobody_will_ever not reached within 2 s"):
        world.run_until(nobody_will_ever, timeout_ns=2 * SECOND)


def test_a_world_ends_after_a_day() -> None:
    world = World(0)
    with pytest.raises(SimulationError, match="more than 86400 s simulated"):
        world.run_for(SIM_TIME_NS_MAX + 1)
    World(0).run_for(SIM_TIME_NS_MAX)


def test_a_world_ends_after_so_many_events() -> None:
    assert World(0)._event_count_max == SIM_EVENT_COUNT_MAX
    # Not a multiple of what passes between two looks at the state.
    world = World(0, event_count_max=7)
    world.drive(Repeat(lambda _world, _rng: None, gap_ns_min=MS))
    world.run_for(7 * MS)
    assert world.event_count == 7
    with pytest.raises(SimulationError, match="more than 7 events"):
        world.run_for(MS)
    assert world.event_count == 7


def test_a_world_has_room_for_so_many_nodes(world: World) -> None:
    for n in range(SIM_NODE_COUNT_MAX):
        world.add(str(n), Probe)
    with pytest.raises(LimitExceeded, match="2001"):
        world.add("one more", Probe)


def test_a_machine_that_raises_fails_the_run_with_its_seed() -> None:
    class Fragile(Probe):
        def receive(self, data: bytes, source: Address, now_ns: int) -> None:
            raise KeyError("boom")

    world = World(77, scenario="fragile")
    a, b = world.add("a", Probe), world.add("b", Fragile)
    a.do(lambda machine, _: machine.send(b.address, b"x"))
    with pytest.raises(SimulationError, match="fragile with seed 77: machine: KeyError") as caught:
        world.run_for(SECOND)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_failure_brings_seed_command_and_last_events_along() -> None:
    world = World(42, scenario="demo")
    a, b = world.add("a", Probe), world.add("b", Probe)
    world.watch(Invariant("quiet", lambda _: "too loud" if b.machine.heard else None))
    a.do(lambda machine, _: machine.send(b.address, b"x"))
    with pytest.raises(SimulationError) as caught:
        world.run_for(SECOND)
    error = caught.value
    assert str(error) == "demo with seed 42: quiet: too loud"
    assert error.command == "skerry sim run --scenario demo --seed 42 --trace"
    assert json.loads(error.trace[-1])["event"] == "Heard"
    assert error.__notes__[0] == f"repeat it with `{error.command}`"
    assert error.__notes__[1:] == list(error.trace)
    assert pickle.loads(pickle.dumps(error)).trace == error.trace


def test_a_failure_names_the_command_it_was_given() -> None:
    world = World(1, command="pytest here")
    assert world.failure("x", "y").hint == "repeat it with `pytest here`"


@pytest.mark.parametrize(
    "act",
    [
        lambda world, node: world.pause(node, MS),
        lambda world, node: world.crash(node),
        lambda world, node: world.set_drift(node, 5),
        lambda world, node: world.jump_wall(node, 5),
        lambda _, node: wake(node, MS),
        lambda _, node: node.do(lambda machine, _: machine.send(Address("nobody"), b"x")),
        lambda _, node: node.do(lambda machine, _: machine.send(node.address, b"x")),
    ],
)
def test_every_line_of_the_trace_is_canonical_json(
    act: Callable[[World, Node[Probe]], None],
) -> None:
    lines: list[str] = []
    world = World(0, sink=lines.append)
    node = world.add('a "quoted" näme', Probe)
    act(world, node)
    world.run_for(SECOND)
    world.digest()
    assert len(lines) >= 2
    for line in lines:
        row = json.loads(line)
        assert line == json.dumps(row, sort_keys=True, separators=(",", ":"))
        assert row["_at_ns"] >= 0
        assert row["event"]
