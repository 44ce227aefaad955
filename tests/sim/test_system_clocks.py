"""Nodes whose clocks are wrong, in the simulator."""

from __future__ import annotations

from skerry.engine.system.config import Rejoin
from skerry.protocol.exclusion import ExclusionReason
from skerry.testing.machines.system_site import SystemSite
from skerry.testing.world import SECOND

MINUTE = 60 * SECOND


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
