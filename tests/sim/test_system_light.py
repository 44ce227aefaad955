"""Light nodes in the simulator: they detach, attach again and move between systems."""

from __future__ import annotations

from skerry.engine.system.config import Rejoin
from skerry.engine.system.system_core import SystemCore
from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.picture.events import Elected, IncarnationEntered
from skerry.testing.machines.system_site import LIGHT, SERVER, SystemSite
from skerry.testing.world import MS, SECOND

T = SERVER.dead_timeout_ns
MEMORY = 4 * T
"""How long a light node remembers that it has excluded a full one."""
WARM = 15 * SECOND


def exclude(site: SystemSite, by: str, name: str) -> None:
    """Let one node exclude another one."""
    node = site.id_of(name)

    def act(machine: SystemCore, now_ns: int) -> None:
        machine.picture.stalled(node, ExclusionReason.SLOW, now_ns)
        machine.advance(now_ns)

    site.nodes[by].do(act)


def test_fs_40_a_light_node_that_moves_to_another_system_is_never_in_both() -> None:
    site = SystemSite()
    for name in ("a", "b", "c", "d"):
        site.add(name, seeds=("a" if name < "c" else "c",))
    apart = site.cut_both(["a", "b"], ["c", "d"])
    site.form("a", "b")
    site.form("c", "d")
    leave_second = site.cut_both(["l"], ["c", "d"])
    site.add("l", node_type=LIGHT, seeds=("a", "c"))
    site.form("a", "b", "l")
    site.world.run_for(WARM)
    # It moves within a second: the first system still believes that it is there.
    site.cut_both(["l"], ["a", "b"])
    site.world.run_for(SECOND)
    leave_second()
    for _ in range(500):
        site.world.run_for(100 * MS)
        assert not ("l" in site.alive_at("a") and "l" in site.alive_at("c"))
        if site.agree("c", "d", "l"):
            break
    assert site.agree("c", "d", "l")
    assert site.agree("a", "b")
    assert site.left("l") == []
    apart()
    site.world.run_for(10 * SECOND)
    assert site.agree("c", "d", "l"), "two systems that meet do not merge"


def test_fs_41_the_only_full_node_dies_and_another_one_comes() -> None:
    site = SystemSite()
    site.add("a")
    for name in ("l", "m"):
        site.add(name, node_type=LIGHT, seeds=("a", "b"))
    site.form("a", "l", "m")
    site.world.run_for(WARM)
    site.crash("a")
    site.world.run_for(T + 3 * SECOND)
    for name, other in (("l", "m"), ("m", "l")):
        assert site.alive_at(name) == [name]
        state = site.nodes[name].machine.state
        assert state is not None
        assert state.is_detached
        assert site.id_of(other) not in site.nodes[name].machine.picture.table.nodes
    site.add("b", seeds=("a",))
    site.form("b", "l", "m")
    for name in ("l", "m"):
        entered = site.events(name, IncarnationEntered)
        assert [one.is_detached for one in entered] == [False, True, False]


def test_a_detached_light_node_that_excluded_a_full_one_asks_it_again() -> None:
    """It remembers the full node for a while, also if it is a system of its own by then."""
    site = SystemSite()
    site.add("a")
    site.add("l", node_type=LIGHT, seeds=("a",))
    site.form("a", "l")
    site.world.run_for(WARM)
    exclude(site, "l", "a")
    site.world.run_for(T + 2 * SECOND)
    assert site.alive_at("l") == ["l"]
    # It is found again, and excluded again before the light node attaches.
    site.world.run_until(
        lambda: any(not one.is_dead for one in site.nodes["l"].machine.picture.table.nodes.values())
    )
    assert site.nodes["l"].machine.picture.membership.is_detached
    exclude(site, "l", "a")
    assert site.nodes["l"].machine.picture.membership.is_detached
    site.form("a", "l", timeout_ns=MEMORY + 15 * SECOND)


def test_a_light_node_finds_a_full_one_again_that_both_have_forgotten() -> None:
    """Others told of it only while the light node remembered the exclusion."""
    site = SystemSite()
    site.add("a", seeds=("b",), ids=(300,))
    site.add("b", ids=(200,))
    site.add("l", node_type=LIGHT, seeds=("b",))
    site.form("a", "b", "l")
    site.world.run_for(WARM)
    site.crash("b")
    site.form("a", "l")
    exclude(site, "l", "a")
    exclude(site, "a", "l")
    site.add("c", seeds=("a", "l"), ids=(100,))
    directory = site.nodes["l"].machine.discovery.directory
    site.world.run_until(
        lambda: site.id_of("c") in directory.known and directory.known[site.id_of("c")].is_complete
    )
    assert site.id_of("a") in directory.excluded
    site.form("a", "c", "l", timeout_ns=MEMORY + 15 * SECOND)
    assert site.deaths("c") == [], "c knows the light node only after its death"


def test_a_light_node_that_attaches_is_no_longer_elected_by_itself() -> None:
    site = SystemSite()
    site.add("a", rejoin=Rejoin.MANUAL)
    site.add("l", node_type=LIGHT, seeds=("a",))
    site.form("a", "l")
    site.world.run_for(WARM)
    heal = site.cut_both(["a"], ["l"])
    site.world.run_for(T + 3 * SECOND)
    assert site.events("l", Elected)[-1].node == site.id_of("l")
    heal()
    site.world.run_until(
        lambda: not site.nodes["l"].machine.picture.membership.is_detached,
        timeout_ns=MEMORY + 15 * SECOND,
    )
    assert site.nodes["l"].machine.picture.election.elected_id != site.id_of("l")
    site.form("a", "l")


def test_a_light_node_returns_to_a_system_whose_nodes_hear_it_at_different_times() -> None:
    """They excluded it at different times, so it remembers them for different times."""
    site = SystemSite()
    for name in ("a", "b", "c"):
        site.add(name, seeds=("a",))
    site.add("l", node_type=LIGHT, seeds=("a",))
    site.form("a", "b", "c", "l")
    site.world.run_for(WARM)
    for name in ("b", "c", "a"):
        exclude(site, "l", name)
        site.world.run_for(5 * SECOND)
    site.form("a", "b", "c", "l", timeout_ns=2 * MEMORY)
    states = [site.nodes[name].machine.state for name in ("a", "b", "c")]
    found = [state.entry(site.id_of("l")) for state in states if state is not None]
    assert all(one is not None and one.generation > 0 for one in found)
