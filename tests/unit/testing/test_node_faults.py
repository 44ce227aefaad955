"""Faults that strike now and then: how often, whom, and that calm undoes what they did."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from skerry.protocol.machine import Address, CloseReason
from skerry.testing import (
    MS,
    SECOND,
    ClockDrift,
    ClockJumps,
    Clogs,
    Fault,
    InterfaceLosses,
    Partitions,
    Pauses,
    Recurring,
    Refusals,
    Repeat,
    Restarts,
    Setting,
    SlowReaders,
    StreamLosses,
    World,
)
from tests.sim.probe import Probe

SERVER = Address("second", 7, is_stream=True)


def lines_with(world_lines: list[str], event: str) -> int:
    return sum(f'"event":"{event}"' in line for line in world_lines)


def quiet_world(count: int, fault: Fault, seed: int = 3) -> tuple[World, list[str]]:
    lines: list[str] = []
    world = World(seed, sink=lines.append)
    for n in range(count):
        world.add(f"n{n}", Probe)
    world.inject(fault)
    return world, lines


@pytest.mark.parametrize(
    ("fault", "event"),
    [
        (Pauses(gap_ns=SECOND, length_ns_max=100 * MS), "pause"),
        (Restarts(gap_ns=SECOND, down_ns_max=100 * MS), "crash"),
        (ClockJumps(gap_ns=SECOND, jump_ns_max=SECOND), "jump"),
        (InterfaceLosses(gap_ns=SECOND, length_ns_max=100 * MS), "interface lost"),
    ],
)
def test_recurring_faults_occur_at_their_rate(fault: Recurring, event: str) -> None:
    world, lines = quiet_world(3, fault)
    world.run_for(100 * SECOND)
    world.digest()
    assert 90 <= lines_with(lines, event) <= 110
    assert fault.strike_count == lines_with(lines, event)
    for name in ("n0", "n1", "n2"):
        assert any(f'"_node":"{name}"' in line and event in line for line in lines)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Pauses(gap_ns=SECOND, length_ns_max=SECOND),
        lambda: Restarts(gap_ns=SECOND, down_ns_max=SECOND),
        lambda: ClockJumps(gap_ns=SECOND, jump_ns_max=SECOND),
        lambda: ClockDrift(drift_ppm_max=100),
        lambda: Partitions(gap_ns=SECOND, length_ns_max=SECOND),
        lambda: Clogs(gap_ns=SECOND, length_ns_max=SECOND),
        lambda: InterfaceLosses(gap_ns=SECOND, length_ns_max=SECOND),
    ],
)
def test_recurring_faults_repeat_with_the_seed(make: Callable[[], Fault]) -> None:
    def digest(seed: int) -> str:
        world, _ = quiet_world(4, make(), seed)
        world.run_for(20 * SECOND)
        world.calm()
        return world.digest()

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_calm_resumes_paused_nodes_and_starts_crashed_ones() -> None:
    world, _ = quiet_world(3, Pauses(gap_ns=10 * MS, length_ns_max=3600 * SECOND))
    world.inject(Restarts(gap_ns=200 * MS, down_ns_max=3600 * SECOND))
    world.run_for(2 * SECOND)
    assert not any(node.is_running for node in world.nodes.values())
    world.calm()
    assert all(node.is_running for node in world.nodes.values())
    world.run_for(10 * SECOND)
    assert all(node.is_running for node in world.nodes.values())


def test_a_lost_interface_neither_sends_nor_receives_until_it_is_back() -> None:
    world = World(1)
    group = Address("239.1.1.1", 7)
    a, b, c = (world.add(name, Probe, groups=[group]) for name in "abc")
    fault = InterfaceLosses(gap_ns=10 * MS, length_ns_max=3600 * SECOND, nodes=["a"])
    world.inject(fault)
    world.run_for(SECOND)
    assert fault.strike_count == 1

    def send_all(text: bytes) -> None:
        for node in (a, b, c):
            node.do(lambda machine, _: machine.send(group, text))
        b.do(lambda machine, _: machine.send(a.address, text))
        world.run_for(10 * MS)

    send_all(b"lost")
    assert world.network.groups_of(a) == []
    world.calm()
    assert world.network.groups_of(a) == [group]
    send_all(b"back")
    assert a.machine.heard.count(b"lost") == 0
    assert a.machine.heard.count(b"back") == 4
    assert b.machine.heard.count(b"lost") == 2
    assert b.machine.heard.count(b"back") == 3


def test_a_node_crashed_for_good_stays_down() -> None:
    world, _ = quiet_world(2, Restarts(gap_ns=SECOND, down_ns_max=2, nodes=["n0"]))
    world.crash(world.nodes["n1"])
    world.run_for(5 * SECOND)
    world.calm()
    assert not world.nodes["n1"].is_up
    assert world.nodes["n0"].life > 1


def test_calm_leaves_a_node_paused_that_the_test_paused() -> None:
    fault = Pauses(gap_ns=100 * MS, length_ns_max=3600 * SECOND, nodes=["n1", "n2"])
    world, _ = quiet_world(3, fault)
    for node in world.nodes.values():
        world.pause(node, SECOND)
    world.resume(world.nodes["n2"])
    world.run_for(500 * MS)
    assert fault.strike_count == 1, "only n2 was left to strike"
    world.calm()
    assert [node.is_paused for node in world.nodes.values()] == [True, True, False]
    world.run_for(500 * MS)
    assert not any(node.is_paused for node in world.nodes.values())


def test_calm_leaves_a_pause_that_the_test_made_longer() -> None:
    world, _ = quiet_world(1, Pauses(gap_ns=10 * MS, length_ns_max=100 * SECOND))
    node = world.nodes["n0"]
    world.run_until(lambda: node.is_paused)
    world.pause(node, 200 * SECOND)
    world.calm()
    world.run_for(199 * SECOND)
    assert node.is_paused
    world.run_for(SECOND)
    assert node.is_running


def test_faults_strike_only_the_nodes_they_are_given() -> None:
    world, lines = quiet_world(3, Pauses(gap_ns=100 * MS, length_ns_max=2, nodes=["n1"]))
    world.run_for(10 * SECOND)
    world.digest()
    paused = [line for line in lines if '"event":"pause"' in line]
    assert len(paused) > 50
    assert all('"_node":"n1"' in line for line in paused)


def test_faults_without_a_node_are_not_counted() -> None:
    for fault in (
        Pauses(gap_ns=MS, length_ns_max=2, nodes=[]),
        Restarts(gap_ns=MS, down_ns_max=2, nodes=[]),
        ClockJumps(gap_ns=MS, jump_ns_max=2, nodes=[]),
        Partitions(gap_ns=MS, length_ns_max=2, nodes=["n0"]),
        StreamLosses(gap_ns=MS),
    ):
        world, _ = quiet_world(2, fault)
        world.run_for(SECOND)
        assert fault.strike_count == 0


def test_disks_are_lost_at_their_rate() -> None:
    kept: list[bool] = []

    def build(setting: Setting) -> Probe:
        if setting.life > 1:
            kept.append(setting.disk is not None)
        return Probe(setting)

    world = World(1)
    world.add("a", build)
    world.inject(Restarts(gap_ns=10 * MS, down_ns_max=MS, disk_loss_rate=0.25))
    world.run_for(10 * SECOND)
    assert len(kept) > 900
    assert 0.2 < kept.count(False) / len(kept) < 0.3


def test_drift_stays_in_its_bounds_and_ends_with_calm() -> None:
    world, _ = quiet_world(50, ClockDrift(drift_ppm_max=200))
    drifts = [node.clock.drift_ppm for node in world.nodes.values()]
    assert all(-200 <= drift <= 200 for drift in drifts)
    assert len(set(drifts)) > 20
    world.run_for(SECOND)
    world.calm()
    assert {node.clock.drift_ppm for node in world.nodes.values()} == {0}


def test_jumps_have_both_directions_and_change_wall_time_only() -> None:
    lines: list[str] = []
    world = World(1, sink=lines.append)
    node = world.add("a", Probe)
    start_ns = node.now_ns
    world.inject(ClockJumps(gap_ns=10 * MS, jump_ns_max=SECOND))
    world.run_for(SECOND)
    world.digest()
    assert node.now_ns == start_ns + SECOND
    assert any('"jump_ns":-' in line for line in lines)
    assert any('"jump_ns":' in line and '"jump_ns":-' not in line for line in lines)
    assert node.machine.wall_offset_ns == node.clock.wall_offset_ns


def test_a_wall_clock_that_jumped_stays_so_after_calm() -> None:
    world, _ = quiet_world(1, ClockJumps(gap_ns=10 * MS, jump_ns_max=SECOND))
    clock = world.nodes["n0"].clock
    before_ns = clock.wall_offset_ns
    world.run_for(SECOND)
    jumped_ns = clock.wall_offset_ns
    assert jumped_ns != before_ns
    world.calm()
    world.run_for(SECOND)
    assert clock.wall_offset_ns == jumped_ns


@pytest.mark.parametrize("pause_ns", [0, 2 * SECOND], ids=["at once", "later"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: Pauses(gap_ns=SECOND, length_ns_max=2),
        lambda: Restarts(gap_ns=SECOND, down_ns_max=2),
        lambda: ClockJumps(gap_ns=SECOND, jump_ns_max=SECOND),
        lambda: Partitions(gap_ns=SECOND, length_ns_max=SECOND),
        lambda: Clogs(gap_ns=SECOND, length_ns_max=SECOND),
    ],
)
def test_a_fault_injected_again_after_calm_strikes_as_often_as_before(
    make: Callable[[], Recurring], pause_ns: int
) -> None:
    fault = make()
    world, _ = quiet_world(3, fault)
    world.run_for(100 * SECOND)
    world.calm()
    first_count = fault.strike_count
    world.run_for(pause_ns)
    assert fault.strike_count == first_count
    world.inject(fault)
    world.run_for(100 * SECOND)
    assert 90 <= first_count <= 110
    assert 90 <= fault.strike_count - first_count <= 110
    assert world.fault_count() == fault.strike_count
    world.calm()
    world.run_for(10 * SECOND)
    assert world.fault_count() == fault.strike_count <= 220


@pytest.mark.parametrize("kind", [Partitions, Clogs])
def test_temporary_link_faults_begin_end_and_may_be_one_way(kind: type[Partitions]) -> None:
    lines: list[str] = []
    world = World(2, sink=lines.append)
    a, b = world.pair(Probe, Probe)
    fault = kind(gap_ns=100 * MS, length_ns_max=50 * MS)
    world.inject(fault)
    states: set[tuple[bool, bool]] = set()

    def look(world: World, _: object) -> None:
        shapers = world.network.shapers
        states.add(
            (
                any("first" in shaper.source_names() for shaper in shapers),
                any("second" in shaper.source_names() for shaper in shapers),
            )
        )

    world.drive(Repeat(look, gap_ns_min=MS))
    world.run_for(20 * SECOND)
    assert states == {(False, False), (True, False), (False, True), (True, True)}
    world.calm()
    assert world.network.shapers == []
    a.do(lambda machine, _: machine.send(b.address, b"through"))
    world.run_for(SECOND)
    assert b.machine.heard == [b"through"]
    assert 150 < fault.strike_count < 250


def test_streams_are_lost_now_and_then(world: World) -> None:
    class Faithful(Probe):
        def stream_closed(self, peer: Address, reason: CloseReason, now_ns: int) -> None:
            super().stream_closed(peer, reason, now_ns)
            self.connect(peer)

    client, server = world.pair(Faithful, Probe)
    fault = StreamLosses(gap_ns=SECOND, told_ns_max=10 * MS)
    client.do(lambda machine, _: machine.connect(SERVER))
    world.inject(fault)
    world.run_for(20 * SECOND)
    assert 15 <= fault.strike_count <= 25
    assert abs(len(client.machine.closed) - fault.strike_count) <= 1
    assert {reason for _, reason in client.machine.closed} == {CloseReason.LOST}
    assert len(server.machine.opened) == len(client.machine.opened)


def test_refusals_turn_away_their_share_and_stop_with_calm(world: World) -> None:
    clients = [world.add(f"c{n}", Probe) for n in range(400)]
    world.add("second", Probe, listens=True)
    fault = Refusals(0.3)
    world.inject(fault)
    for client in clients:
        client.do(lambda machine, _: machine.connect(SERVER))
    world.run_for(SECOND)
    refused = [client for client in clients if client.machine.closed]
    assert len(refused) == fault.strike_count
    assert 90 < len(refused) < 150
    world.calm()
    for client in refused:
        client.do(lambda machine, _: machine.connect(SERVER))
    world.run_for(SECOND)
    assert all(client.machine.opened for client in clients)


def reading_world(seed: int, fault: SlowReaders) -> tuple[World, list[str]]:
    """A reader, to which a peer writes all the time."""
    lines: list[str] = []
    world = World(seed, sink=lines.append)
    writer, _ = world.pair(Probe, Probe)
    writer.do(lambda machine, _: machine.connect(SERVER))
    world.run_until(lambda: bool(writer.machine.opened))

    def act(_: World, __: object) -> None:
        writer.do(lambda machine, _: machine.send(SERVER, bytes(1000)))

    world.drive(Repeat(act, gap_ns_min=10 * MS))
    world.inject(fault)
    return world, lines


def test_slow_readers_read_late_or_little_and_catch_up_in_the_end() -> None:
    gaps: list[int] = []
    for seed in range(4):
        fault = SlowReaders(
            gap_ns=SECOND, length_ns_max=2 * SECOND, bytes_per_s_max=10_000, nodes=["second"]
        )
        world, lines = reading_world(seed, fault)
        world.run_for(20 * SECOND)
        world.digest()
        assert fault.strike_count == lines_with(lines, "read-slowly")
        assert 14 <= fault.strike_count <= 28
        reader = world.nodes["second"].machine
        gaps += [b - a for a, b in itertools.pairwise(reader.heard_at_ns)]
        world.calm()
        world.run_for(SECOND)
        sent = world.nodes["first"].machine.statistics().sent_count
        assert len(b"".join(reader.heard)) == 1000 * sent
    assert max(gaps) > SECOND


def test_slow_readers_without_streams_have_no_effect() -> None:
    fault = SlowReaders(gap_ns=SECOND, length_ns_max=SECOND, bytes_per_s_max=1)
    world, _ = quiet_world(2, fault)
    world.run_for(10 * SECOND)
    world.calm()
    assert fault.strike_count == 0
