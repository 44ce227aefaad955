"""Two halves of a system that meet again, and systems that were stopped, in the simulator."""

from __future__ import annotations

import pytest

from skerry.engine.system.config import Rejoin
from skerry.protocol.exclusion import ExclusionReason
from skerry.testing.machines.system_site import FIELD, SERVER, SystemSite
from skerry.testing.world import MS, SECOND

T = SERVER.dead_timeout_ns
WARM = 15 * SECOND


def split(rejoin: Rejoin) -> SystemSite:
    """A system of five nodes, cut into three and two for a minute, then healed."""
    site = SystemSite()
    for number, name in enumerate("abcde"):
        # The elected node is in the smaller half.
        site.add(name, seeds=("c",), rejoin=rejoin, ids=(100 + number, 10 + number))
    site.form(*"abcde")
    site.world.run_for(WARM)
    heal = site.cut_both("abc", "de")
    site.world.run_for(60 * SECOND)
    assert site.agree(*"abc")
    assert site.agree(*"de")
    for name in "abcde":
        site.send(name, f"{name} alone")
    site.world.run_for(SECOND)
    heal()
    return site


def test_fs_29_by_default_the_smaller_half_rejoins_with_new_ids() -> None:
    site = split(Rejoin.AUTO)
    before = {name: site.id_of(name) for name in "abcde"}
    site.form(*"abcde")
    assert [name for name in "abcde" if site.id_of(name) != before[name]] == ["d", "e"]
    for name in "abcde":
        site.send(name, f"{name} together")
    site.world.run_for(SECOND)
    for name in "abcde":
        texts = [text for sender in site.texts(name).values() for text in sender]
        others = set("abcde") - {name}
        assert {f"{other} together" for other in others} <= set(texts)
        # What a half has sent while they were apart does not reach the other one.
        half = set("abc" if name in "abc" else "de")
        assert {text[0] for text in texts if text.endswith("alone")} == half - {name}


def test_fs_29_with_manual_rejoin_there_are_two_systems() -> None:
    site = split(Rejoin.MANUAL)
    for _ in range(60):
        site.world.run_for(SECOND)
        assert site.agree(*"abc")
        assert site.agree(*"de")
    for name in "abcde":
        site.send(name, f"{name} apart")
    site.world.run_for(SECOND)
    for name in "abcde":
        half = set("abc" if name in "abc" else "de")
        texts = [text for sender in site.texts(name).values() for text in sender]
        assert {text[0] for text in texts} == half - {name}
        excluded = site.nodes[name].machine.discovery.directory.excluded
        assert set(excluded) == {site.id_of(other) for other in set("abcde") - half}


def test_a_half_learns_of_the_other_one_though_none_of_its_nodes_was_excluded() -> None:
    """All nodes of the smaller half have joined it since both were cut apart."""
    site = SystemSite()
    site.add("a", ids=(300,), seeds=("c",), rejoin=Rejoin.AUTO)
    site.add("b", ids=(200,), seeds=("c",), rejoin=Rejoin.AUTO)
    site.add("c", ids=(100, 101), rejoin=Rejoin.AUTO)
    site.add("d", ids=(50, 51), seeds=("c",), rejoin=Rejoin.AUTO)
    site.form(*"abcd")
    site.world.run_for(WARM)
    heal = site.cut_both("ab", "cd")
    site.world.run_until(lambda: site.agree(*"ab") and site.agree(*"cd"))
    for name in "cd":
        site.world.restart(site.nodes[name], down_ns=100 * MS)
        site.world.run_for(SECOND)
        site.form(*"cd")
    heal()
    site.form(*"abcd")
    assert (site.id_of("a"), site.id_of("b")) == (300, 200)


@pytest.mark.parametrize("rejoin", list(Rejoin))
def test_fs_30_a_node_that_was_cut_off_when_the_system_was_stopped(rejoin: Rejoin) -> None:
    """It is not admitted to the system that was started since, whether that has formed or not."""
    site = SystemSite()
    for name in "abc":
        site.add(name, seeds=("a",), rejoin=rejoin)
    site.form(*"abc")
    site.world.run_for(WARM)
    stopped = site.nodes["c"].machine.picture.membership.incarnation_id
    heal = site.cut_both("c", "abde")
    for name in "ab":
        site.nodes[name].do(lambda machine, now_ns: machine.stop(now_ns))
        site.crash(name)
    site.world.run_until(site.agreed("c"))
    # The stop has written the incarnation into the black list of each node.
    site.add("d", seeds=("c",), rejoin=rejoin, black_list=frozenset([stopped]))
    site.world.run_for(SECOND)
    heal()
    site.add("e", seeds=("d",), rejoin=rejoin, black_list=frozenset([stopped]))
    site.form("d", "e")
    assert ("c", ExclusionReason.BLACK_LISTED) in site.deaths("d")
    site.world.run_for(60 * SECOND)
    assert site.agree("d", "e")
    assert site.alive_at("c") == ["c"]
    assert site.nodes["c"].machine.picture.membership.incarnation_id == stopped
    # A node that starts later without the black list joins the new system, not the old node.
    site.add("f", node_type=FIELD, seeds=("d",), rejoin=rejoin)
    site.form("d", "e", "f")
    assert site.alive_at("c") == ["c"]
