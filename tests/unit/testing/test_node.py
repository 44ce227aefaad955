"""Nodes: acting on them, what they keep, and when they cannot act."""

from __future__ import annotations

import pytest

from skerry.errors import LocalProtocolError
from skerry.protocol.machine import Address
from skerry.testing import MS, SECOND, World
from skerry.testing.node import SIM_EVENT_KEPT_COUNT_MAX
from tests.sim.probe import Heard, Probe


def test_an_act_gets_the_time_of_the_node_and_returns_its_result(world: World) -> None:
    node = world.add("a", Probe)
    world.run_for(5 * SECOND)
    assert node.do(lambda _, now_ns: now_ns) == node.now_ns
    assert node.now_ns == node.machine.setting.now_ns + 5 * SECOND


def test_transmits_of_an_act_are_sent_at_once(world: World) -> None:
    a, b = world.add("a", Probe), world.add("b", Probe)
    a.do(lambda machine, _: machine.send(b.address, b"hello"))
    world.run_for(MS)
    assert b.machine.heard == [b"hello"]


def test_clocks_of_nodes_do_not_agree(world: World) -> None:
    a, b = world.add("a", Probe), world.add("b", Probe)
    assert a.now_ns != b.now_ns
    walls = [node.now_ns + node.clock.wall_offset_ns for node in (a, b)]
    assert walls[0] == walls[1]


def test_paused_and_crashed_nodes_cannot_act(world: World) -> None:
    node = world.add("a", Probe)
    world.pause(node, SECOND)
    assert (node.is_up, node.is_running) == (True, False)
    with pytest.raises(LocalProtocolError, match="paused"):
        node.do(lambda machine, _: machine)
    world.resume(node)
    world.crash(node)
    assert (node.is_up, node.is_running) == (False, False)
    with pytest.raises(LocalProtocolError, match="down"):
        node.do(lambda machine, _: machine)
    with pytest.raises(LocalProtocolError, match="no machine"):
        _ = node.machine


def test_events_stay_over_restarts(world: World) -> None:
    node, other = world.add("a", Probe), world.add("b", Probe)
    other.do(lambda machine, _: machine.send(node.address, b"1"))
    world.run_for(MS)
    world.restart(node, down_ns=MS)
    world.run_for(2 * MS)
    other.do(lambda machine, _: machine.send(node.address, b"2"))
    world.run_for(MS)
    assert list(node.events) == [Heard(data=b"1", source="b"), Heard(data=b"2", source="b")]
    assert node.machine.heard == [b"2"]
    assert node.machine.statistics().heard_count == 1


@pytest.mark.slow
def test_only_so_many_events_are_kept(world: World) -> None:
    node = world.add("a", Probe)
    for n in range(SIM_EVENT_KEPT_COUNT_MAX + 10):
        node.machine.receive(b"%d" % n, Address("x"), node.now_ns)
        world.collect(node)
        if world.trace.is_full:
            world.trace.roll()
    assert len(node.events) == SIM_EVENT_KEPT_COUNT_MAX
    assert node.events[0] == Heard(data=b"10", source="x")


def test_a_node_shows_its_state(world: World) -> None:
    node = world.add("a", Probe)
    assert repr(node) == "<Node a running, life 1>"
    world.pause(node, SECOND)
    assert "paused" in repr(node)
