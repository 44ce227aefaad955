"""Nodes whose clocks are wrong, in the simulator."""

from __future__ import annotations

import pytest

from skerry.engine.system.config import Rejoin
from skerry.protocol.exclusion import ExclusionReason
from skerry.testing.machines.system_site import SystemSite
from skerry.testing.world import SECOND

MINUTE = 60 * SECOND


@pytest.mark.parametrize("wrong", ["a", "b", "c"])
def test_a_node_with_a_wrong_clock_does_not_form_a_system_with_others(wrong: str) -> None:
    """The clocks differ when the system is formed, also if it is the elected node that would."""
    site = SystemSite()
    for number, name in enumerate("abc"):
        site.add(name, seeds=("a",), rejoin=Rejoin.AUTO, ids=(100 - number, *range(1, 100, 3)))
    site.world.jump_wall(site.nodes[wrong], -2 * MINUTE)
    right = sorted({"a", "b", "c"} - {wrong})
    site.form(*right, timeout_ns=2 * MINUTE)
    site.world.run_for(MINUTE)
    assert site.agree(*right)
    assert site.left(wrong)[-1].reason == ExclusionReason.CLOCK
    site.world.jump_wall(site.nodes[wrong], 2 * MINUTE)
    site.form("a", "b", "c", timeout_ns=2 * MINUTE)


def test_two_nodes_whose_clocks_differ_are_no_system() -> None:
    site = SystemSite()
    site.add("a", rejoin=Rejoin.AUTO)
    site.add("b", seeds=("a",), rejoin=Rejoin.AUTO)
    site.world.jump_wall(site.nodes["b"], 2 * MINUTE)
    for _ in range(60):
        site.world.run_for(SECOND)
        assert not site.agree("a", "b")
    assert site.agree("a") or site.agree("b")


def test_a_node_with_a_wrong_clock_is_refused_until_it_is_right() -> None:
    site = SystemSite()
    for name in ("a", "b", "c"):
        site.add(name, seeds=("a",), rejoin=Rejoin.AUTO)
    site.form("a", "b", "c")
    late = site.add("late", seeds=("a",), rejoin=Rejoin.AUTO)
    site.world.jump_wall(late, 2 * MINUTE)
    site.world.run_for(20 * MINUTE)
    assert site.agree("a", "b", "c")
    assert len(site.left("late")) > 10
    # It comes with a new id each time. What the others remember of it does not grow.
    for name in ("a", "b", "c"):
        assert {reason for _, reason in site.deaths(name)} == {ExclusionReason.CLOCK}
        machine = site.nodes[name].machine
        assert machine.statistics().picture.dead_count <= 10
        assert not machine.picture.table.more_dead
    site.world.jump_wall(late, -2 * MINUTE)
    site.form("a", "b", "c", "late", timeout_ns=2 * MINUTE)
