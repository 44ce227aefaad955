"""Nodes that die, harm others or are cut off, in the simulator: scenarios of the specification."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from skerry.engine.system.config import Rejoin
from skerry.engine.system.system_core import SystemCore
from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.picture.bodies import RAW, STATE, write_raw, write_state
from skerry.protocol.picture.events import Elected, LoopWasLate, StateContradicts
from skerry.protocol.picture.liveness import DEAF_TRANSMISSION_COUNT
from skerry.testing.faults import LoseIf, Loss, RateLimit
from skerry.testing.machines.system_site import DATA_PORT, FIELD, MESSAGE, SERVER, SystemSite
from skerry.testing.node_faults import lose_interface
from skerry.testing.packet import MULTICAST, Packet
from skerry.testing.world import MS, SECOND
from tests.sim.link import Site

T = SERVER.dead_timeout_ns
WARM = 15 * SECOND
"""After it, nodes have heard enough of each other to be excluded after one timeout."""


def formed(*names: str, seed: int = 1, ids: bool = True) -> SystemSite:
    """A site of nodes, of which the first one is elected if they have ids."""
    site = SystemSite(seed)
    for number, name in enumerate(names):
        own = (1000 - 10 * number, 9 - number) if ids else ()
        site.add(name, seeds=(names[0],), ids=own)
    site.form(*names)
    site.world.run_for(WARM)
    return site


def test_fs_21_multicast_blocked_between_two_nodes() -> None:
    site = formed("c", "a", "b")
    site.cut_both(["a"], ["b"], kinds=[MULTICAST])
    started_ns = site.world.now_ns

    def agreed_after_unicast() -> bool:
        return site.agree("c", "a")

    while not agreed_after_unicast():
        assert site.world.now_ns - started_ns < 4 * T + 6 * SECOND
        for name, far in (("a", "b"), ("b", "a")):
            if site.nodes[name].machine.state is not None:
                site.send(name, "unicast", to=far)
                send_control(site, name, far)
        site.world.run_for(SECOND)
    assert site.world.now_ns - started_ns > 4 * T - SECOND
    site.world.run_for(30 * SECOND)
    assert site.agree("c", "a")


def send_control(site: SystemSite, name: str, far: str) -> None:
    """Send something to one node on the control channel, which the picture ignores."""
    node = site.id_of(far)
    site.nodes[name].do(lambda machine, now: machine.control.send_to(node, 1, b"unicast", now))


@pytest.mark.parametrize("blocked", ["a", "b"])
def test_fs_22_one_way_between_two_nodes(blocked: str) -> None:
    site = formed("a", "b")
    other = "b" if blocked == "a" else "a"
    site.cut([blocked], [other])
    site.world.run_for(T + 2 * SECOND)
    for name, far in (("a", "b"), ("b", "a")):
        if not site.left(name):
            assert site.alive_at(name) == [name]
            assert [dead for dead, _ in site.deaths(name)] == [far]


def is_refusal(packet: Packet) -> bool:
    """Whether a packet has a message of discovery: its kind is the first parameter."""
    return b"\x01\x80\x04\x00\x05\x00\x00\x00" in packet.data


def exclude(site: SystemSite, by: str, name: str) -> None:
    node = site.id_of(name)

    def act(machine: SystemCore, now_ns: int) -> None:
        machine.picture.stalled(node, ExclusionReason.SLOW, now_ns)
        machine.advance(now_ns)

    site.nodes[by].do(act)


@pytest.mark.parametrize("has_refusal", [True, False])
def test_fs_23_an_excluded_node_learns_of_it(has_refusal: bool) -> None:
    site = formed("b", "a", "c")
    site.world.run_for(30 * SECOND)
    if not has_refusal:
        site.world.inject(LoseIf(is_refusal))
    exclude(site, "b", "a")
    exclude(site, "c", "a")
    site.world.run_for(2 * SECOND if has_refusal else 10 * SECOND)
    assert site.left("a")


def test_fs_23_an_idle_node_that_is_excluded_learns_by_its_probes() -> None:
    site = Site("a", "b", "c")
    site.include_all()
    site.world.run_for(60 * SECOND)
    a, b = (site.nodes[name].machine for name in "ab")
    site.nodes["b"].do(lambda host, now_ns: host.link.exclude(100, now_ns))
    assert a.link.peer_statistics(101).unanswered_count == 0
    site.world.run_for(9 * SECOND)
    assert 100 not in b.link.peers
    assert a.link.peer_statistics(101).unanswered_count >= DEAF_TRANSMISSION_COUNT
    assert a.link.peer_statistics(102).unanswered_count == 0


def test_fs_24_a_killed_node_is_excluded_everywhere() -> None:
    site = formed("a", "b", "c", "d")
    site.crash("d")
    site.world.run_until(site.agreed("a", "b", "c"), timeout_ns=T + 2 * SECOND)


def test_fs_25_a_node_that_stops_is_excluded_at_once() -> None:
    site = formed("a", "b", "c")
    started_ns = site.world.now_ns
    site.nodes["c"].do(lambda machine, now_ns: machine.stop(now_ns))
    site.world.run_for(300 * MS)
    site.nodes["c"].do(lambda machine, now_ns: machine.stop(now_ns))
    site.crash("c")
    site.world.run_until(site.agreed("a", "b"), timeout_ns=700 * MS)
    assert site.world.now_ns - started_ns <= SECOND
    assert site.deaths("a") == site.deaths("b") == [("c", ExclusionReason.ORDERED)]


def test_fs_25_the_first_notice_of_a_stop_is_lost() -> None:
    site = formed("a", "b", "c")
    lost = Loss(1.0).between(sources=site.hosts("c"))
    site.world.inject(lost)
    site.nodes["c"].do(lambda machine, now_ns: machine.stop(now_ns))
    site.world.run_for(300 * MS)
    lost.stop(site.world)
    site.nodes["c"].do(lambda machine, now_ns: machine.stop(now_ns))
    site.crash("c")
    site.world.run_until(site.agreed("a", "b"), timeout_ns=700 * MS)


def test_fs_26_the_elected_node_is_killed() -> None:
    site = formed("a", "b", "c", "d", "e")
    before = site.nodes["e"].machine.picture.membership.incarnation_id
    site.crash("a")
    site.world.run_until(site.agreed("b", "c", "d", "e"), timeout_ns=T + 3 * SECOND)
    for name in ("b", "c", "d", "e"):
        picture = site.nodes[name].machine.picture
        assert picture.election.elected_id == site.id_of("b")
        assert picture.membership.incarnation_id == before


def test_fs_27_the_elected_node_restarts_with_a_higher_id() -> None:
    site = SystemSite()
    site.add("a", ids=(1000, 2000), seeds=("b",))
    site.add("b", ids=(900,))
    site.add("c", ids=(800,), seeds=("b",))
    site.form("a", "b", "c")
    site.world.run_for(WARM)
    site.world.restart(site.nodes["a"], down_ns=SECOND)
    site.world.run_for(2 * SECOND)
    site.world.run_until(site.agreed("a", "b", "c"), timeout_ns=T + 5 * SECOND)
    site.world.run_for(5 * SECOND)
    for name in ("a", "b", "c"):
        state = site.nodes[name].machine.state
        assert state is not None
        assert state.elected_id == 2000
        old = state.entry(1000)
        assert old is not None
        assert old.is_dead


@pytest.mark.parametrize("elected", ["a", "b", "c"])
def test_fs_32_two_of_three_nodes_cannot_see_each_other(elected: str) -> None:
    site = SystemSite()
    ids = {"a": 30, "b": 20, "c": 10, elected: 100}
    for name in ("a", "b", "c"):
        site.add(name, seeds=("c",), ids=(ids[name],))
    site.form("a", "b", "c")
    site.world.run_for(WARM)
    site.cut_both(["a"], ["b"])
    site.world.run_for(T + 10 * SECOND)
    members = site.alive_at("c")
    assert members in (["a", "c"], ["b", "c"])
    assert site.agree(*members)
    (other,) = {"a", "b"} - set(members)
    # It has left, or is a system of its own.
    assert site.left(other) or site.alive_at(other) == [other]


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
def test_fs_33_a_node_whose_own_loop_stalls_excludes_nobody(is_busy: bool) -> None:
    site = formed("a", "b", "c")
    if is_busy:
        keep_sending(site)
    site.world.pause(site.nodes["b"], 4 * SECOND)
    site.world.run_for(30 * SECOND)
    assert site.agree("a", "b", "c")
    assert all(site.deaths(name) == [] for name in ("a", "b", "c"))
    assert site.events("b", LoopWasLate)


@pytest.mark.parametrize("paused", ["a", "b", "c"])
def test_fs_33_a_node_that_stalls_for_so_long_that_it_is_excluded_leaves(paused: str) -> None:
    """Node a is the elected one."""
    site = formed("a", "b", "c")
    others = sorted({"a", "b", "c"} - {paused})
    site.world.pause(site.nodes[paused], 15 * SECOND)
    site.world.run_for(14 * SECOND)
    assert site.agree(*others)
    site.world.run_for(10 * SECOND)
    assert site.left(paused)
    assert not any(site.left(name) for name in others)
    assert site.agree(*others)


@pytest.mark.parametrize("seed", range(1, 6))
def test_an_elected_node_that_stalled_takes_no_other_one_with_it(seed: int) -> None:
    """It learns of its exclusion node by node, and must not claim a half that is gone."""
    site = SystemSite(seed)
    for number, name in enumerate("abc"):
        site.add(name, seeds=("a",), rejoin=Rejoin.AUTO, ids=(1000 - 10 * number, 9 - number))
    site.form(*"abc")
    site.world.run_for(WARM)
    site.world.pause(site.nodes["a"], 8600 * MS)
    site.world.run_for(25 * SECOND)
    assert site.left("a")
    assert not site.left("b")
    assert not site.left("c")


def send_state(machine: SystemCore, body: bytes, data_type: int, now_ns: int) -> None:
    """Send a message of the picture on the control channel, as the machine itself would."""
    assert machine.control.send_all(machine.own_type, data_type, body, now_ns)


def test_fs_34_a_state_that_contradicts_itself() -> None:
    site = formed("a", "b", "c")
    machine = site.nodes["a"].machine
    state = machine.state
    assert state is not None
    entry = state.entry(site.id_of("b"))
    assert entry is not None
    contrary = replace(
        state,
        sequence=state.sequence + 1,
        nodes=(*state.nodes, entry, replace(entry, name="other"), *state.nodes),
    )
    for _ in range(3):
        site.nodes["a"].do(lambda core, now: send_state(core, write_state(contrary), STATE, now))
    site.world.run_for(5 * SECOND)
    for name in ("a", "b", "c"):
        assert site.alive_at(name) == ["a", "b", "c"]
        found = site.nodes[name].machine.state
        assert found is not None
        assert len({one.node for one in found.nodes}) == len(found.nodes)
    for name in ("b", "c"):
        assert site.events(name, StateContradicts) == [StateContradicts(by=site.id_of("a"))]


def test_fs_35_a_state_of_a_node_that_is_not_elected_is_ignored() -> None:
    site = formed("a", "b", "c")
    machine = site.nodes["c"].machine
    state = machine.state
    assert state is not None
    ignored = site.nodes["b"].machine.statistics().picture.ignored_count
    wrong = replace(
        state,
        sequence=state.sequence + 1,
        nodes=tuple(replace(one, is_dead=one.node != machine.node) for one in state.nodes),
    ).sealed()
    site.nodes["c"].do(lambda core, now: send_state(core, write_state(wrong), STATE, now))
    site.world.run_for(SECOND)
    assert site.nodes["b"].machine.statistics().picture.ignored_count == ignored + 1
    assert site.agree("a", "b", "c")


def test_fs_35_three_wrong_elections_in_a_row_cause_a_new_one() -> None:
    site = formed("a", "b", "c")
    before = len(site.events("a", Elected))
    machine = site.nodes["c"].machine
    wrong = replace(machine.picture.raw(), election_id=4711)
    for _ in range(3):
        site.nodes["c"].do(lambda core, now: send_state(core, write_raw(wrong), RAW, now))
        site.world.run_for(100 * MS)
    site.world.run_for(3 * SECOND)
    assert len(site.events("a", Elected)) == before + 1
    assert site.agree("a", "b", "c")


def test_fs_36_the_data_channel_is_blocked_from_the_start() -> None:
    site = SystemSite()
    for name in ("a", "b", "c"):
        site.add(name, seeds=("a",), ids=({"a": 30, "b": 20, "c": 10}[name],))
    site.cut_both(["c"], ["a", "b"], ports=[DATA_PORT, 26651])
    site.form("a", "b", "c")
    site.world.run_for(9 * T)
    assert site.agree("a", "b", "c"), "programs may take long to start"
    site.world.run_until(site.agreed("a", "b"), timeout_ns=T + 2 * SECOND)


@pytest.mark.parametrize("blocked", ["a", "c"])
def test_fs_36_the_data_channel_is_blocked_later(blocked: str) -> None:
    site = formed("a", "b", "c")
    others = [name for name in ("a", "b", "c") if name != blocked]
    site.cut_both([blocked], others, ports=[DATA_PORT, 26651])
    site.world.run_until(site.agreed(*others), timeout_ns=T + 2 * SECOND)


def test_fs_36_the_data_channel_is_blocked_one_way() -> None:
    site = formed("a", "b", "c")

    def talk() -> None:
        for name in ("a", "b", "c"):
            if site.nodes[name].is_up:
                site.send(name, "x")

    for _ in range(100):
        talk()
        site.world.run_for(20 * MS)
    site.cut(["c"], ["a", "b"], ports=[DATA_PORT, 26651])
    for _ in range(220):
        talk()
        site.world.run_for(20 * MS)
    site.world.run_until(site.agreed("a", "b"), timeout_ns=SECOND)


def keep_sending(site: SystemSite) -> None:
    """Let all nodes that are not paused send ten messages a second on both channels."""

    def send(_: None) -> None:
        for name, node in site.nodes.items():
            if node.is_running and not site.left(name):
                site.send(name, "x")
                node.do(lambda machine, now: machine.forget([4711], now))
        site.world.after(100 * MS, send)

    send(None)


@pytest.mark.slow
def test_fs_33_a_node_that_was_late_declares_nobody_silent() -> None:
    """It stalls for almost as long as a node may be silent, at any time between two keep-alives. So
    it has often received nothing for longer than that when it continues, unlike the others."""
    silences_ns = []
    for phase in range(20):
        site = SystemSite(seed=phase)
        for name in ("b", "a", "c"):
            site.add(name, seeds=("a",))
            site.world.run_for(SERVER.heartbeat_ns // 3)
        site.form("a", "b", "c")
        site.world.run_for(WARM + phase * SERVER.heartbeat_ns // 20)
        b = site.nodes["b"]
        heard_ns = min(row.received_ns or 0 for row in b.machine.control.statistics().peers)
        length_ns = T - 400 * MS
        site.world.pause(b, length_ns)
        silence_ns = b.now_ns + length_ns - heard_ns
        site.world.run_for(30 * SECOND)
        if not site.deaths("a") + site.deaths("c"):
            assert site.events("b", LoopWasLate)
            assert site.deaths("b") == [], phase
            silences_ns.append(silence_ns)
    assert sum(silence_ns > T for silence_ns in silences_ns) >= 3


@pytest.mark.parametrize(
    ("is_busy", "length_ns"),
    [(False, 2 * SECOND), (True, 2 * SECOND), (True, T - 1200 * MS)],
    ids=["idle", "busy", "busy and long"],
)
def test_fs_52_a_cable_is_out_for_two_seconds(is_busy: bool, length_ns: int) -> None:
    """Or for almost as long as a node may be silent: keep-alives are a second apart."""
    site = formed("a", "b", "c")
    world = site.world
    if is_busy:
        keep_sending(site)
        world.run_for(SECOND)
    give_back = lose_interface(world, site.nodes["c"])
    world.run_for(length_ns)
    give_back()
    world.run_for(30 * SECOND)
    assert site.agree("a", "b", "c")
    assert all(site.deaths(name) == [] for name in ("a", "b", "c"))
    for name in ("a", "b", "c"):
        site.send(name, f"{name} after")
    world.run_for(SECOND)
    for name in ("a", "b", "c"):
        for far, texts in site.texts(name).items():
            assert texts[-1 - is_busy * 10 :].count(f"{far} after") == 1


@pytest.mark.slow
def test_decisions_are_made_although_the_data_channel_is_saturated() -> None:
    """Both channels share links of 200 kB/s, which drop much of the data that the nodes send."""
    site = formed("a", "b", "c", "d")
    limit = RateLimit(bytes_per_s=200_000, queue_bytes_max=10_000)
    site.world.inject(limit)

    def fill(_: None) -> None:
        for node in site.nodes.values():
            if node.is_up:
                node.do(send_all_that_fits)
        site.world.after(5 * MS, fill)

    fill(None)
    site.world.run_for(5 * SECOND)
    assert limit.strike_count > 500
    site.crash("a")
    site.world.run_until(site.agreed("b", "c", "d"), timeout_ns=T + 3 * SECOND)
    site.world.run_for(5 * SECOND)
    assert site.agree("b", "c", "d")
    for name in ("b", "c", "d"):
        assert [dead for dead, _ in site.deaths(name)] == ["a"]
        machine = site.nodes[name].machine
        assert machine.picture.election.elected_id == site.id_of("b")
        assert machine.statistics().data.refused_message_count > 500


def send_all_that_fits(machine: SystemCore, now_ns: int) -> None:
    while machine.send_all("server", MESSAGE, bytes(1000), now_ns):
        pass


@pytest.mark.parametrize("out_ns", [4 * SECOND, T + 5 * SECOND])
def test_fs_52_a_cable_is_out_while_messages_are_sent(out_ns: int) -> None:
    # Within the detection time, a node is not excluded; after it, its reason is silence. Both ends
    # repeat messages without an answer all the time, which would be a link in one direction only if
    # anything of the other end arrived.
    site = formed("a", "b", "c")
    heal = site.cut_both(["c"], ["a", "b"])
    for name in ("a", "c"):
        for far in ("a", "b", "c"):
            if far != name:
                send_control(site, name, far)
    site.world.run_for(out_ns)
    heal()
    site.world.run_for(30 * SECOND)
    reasons = {reason for name in ("a", "b", "c") for _, reason in site.deaths(name)}
    assert reasons == (set() if out_ns < T else {ExclusionReason.SILENT})
    assert site.agree(*("abc" if out_ns < T else "ab"))


def test_a_node_that_was_silent_has_time_to_answer() -> None:
    site = formed("a", "b", "c")
    heal = site.cut_both(["c"], ["a", "b"])
    send_control(site, "a", "c")
    site.world.run_for(3 * SECOND)
    heal()
    # Its keep-alives arrive first, since it receives nothing for another while.
    deaf = site.cut(["a", "b"], ["c"])
    site.world.run_for(1500 * MS)
    deaf()
    site.world.run_for(30 * SECOND)
    assert site.agree("a", "b", "c")
    assert site.deaths("a") == []


@pytest.mark.slow
def test_fs_57_memory_stays_flat_while_a_node_restarts_each_minute() -> None:
    """Forty minutes instead of a day: what is remembered depends on the restarts since the last
    clean-up, and there are four of these."""
    site = SystemSite()
    for name in ("a", "b", "c", "d"):
        site.add(name, seeds=("a",), node_type=SERVER if name < "c" else FIELD)
    site.form("a", "b", "c", "d")
    site.world.inject(Loss(0.01))
    counts = []
    for minute in range(40):
        site.world.restart(site.nodes["d"], down_ns=SECOND)
        site.world.run_for(50 * SECOND)
        assert site.agree("a", "b", "c", "d"), minute
        machine = site.nodes["a"].machine
        if minute % 10 == 9:
            dead = [one.node for one in machine.state.nodes if one.is_dead] if machine.state else []
            assert 3 <= len(machine.picture.table.more_dead) <= 10
            site.nodes["b"].do(partial(forget, [*dead, *machine.picture.table.more_dead]))
        site.world.run_for(10 * SECOND)
        if minute % 10 == 9:
            assert not machine.picture.table.more_dead
            counts.append(footprint(machine))
    assert counts == [counts[0]] * 4


def forget(nodes: list[int], machine: SystemCore, now_ns: int) -> None:
    machine.forget(nodes, now_ns)


def footprint(machine: SystemCore) -> tuple[int, ...]:
    """How many things of each kind a node remembers."""
    discovery, picture = machine.discovery, machine.picture
    return (
        len(picture.table.nodes) + len(picture.table.more_dead),
        len(discovery.directory.excluded) + len(discovery.directory.known),
        len(discovery.directory.reported) + len(discovery.directory.seeds),
        len(machine.control.peers) + len(machine.data.peers),
        len(machine.state.nodes) if machine.state else 0,
    )
