"""Nodes find each other and form a system, in the simulator: scenarios of the specification."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from random import Random

import pytest

from skerry.engine.system.system_core import SystemCore
from skerry.ids import hash64
from skerry.protocol.discovery.descriptions import NodeDescription
from skerry.protocol.discovery.directory import KnownNode
from skerry.protocol.discovery.discovery import Discovery
from skerry.protocol.discovery.events import LightSeed, SeedIgnored
from skerry.protocol.link.link import Link
from skerry.protocol.machine import Address
from skerry.protocol.picture.events import IncarnationEntered
from skerry.protocol.rtps.entities import Channel
from skerry.testing.checkers import Checker
from skerry.testing.faults import LoseIf
from skerry.testing.machines.system_checkers import HeardFirst
from skerry.testing.machines.system_site import (
    CONTROL_PORT,
    DATA_PORT,
    FIELD,
    LIGHT,
    MESSAGE,
    SERVER,
    TYPES,
    SystemSite,
)
from skerry.testing.packet import MULTICAST, UNICAST, Packet
from skerry.testing.world import MS, SECOND


def test_fs_01_two_nodes_one_of_which_seeds_the_other() -> None:
    site = SystemSite()
    site.add("a")
    site.add("b", seeds=("a",))
    site.form("a", "b", timeout_ns=15 * SECOND)
    site.world.run_for(60 * SECOND)
    for name in ("a", "b"):
        machine = site.nodes[name].machine
        # A node gets the next index each time it is reported.
        assert [peer.index for peer in machine.control.peers.values()] == [1]
        assert machine.statistics().discovery.known_count == 1


def test_fs_02_nodes_of_which_another_one_tells_are_reported_when_they_are_heard() -> None:
    site = SystemSite()
    site.world.watch(HeardFirst())
    for name in ("b", "c", "d"):
        site.add(name, seeds=("b",))
    site.form("b", "c", "d")
    back = [site.cut([name], ["a"]) for name in ("c", "d")]
    site.add("a", seeds=("b",))
    site.world.run_for(10 * SECOND)
    assert len(site.nodes["a"].machine.picture.table.nodes) == 1
    for heal in back:
        heal()
    site.form("a", "b", "c", "d")


def test_fs_03_a_node_that_does_not_exist_is_asked_but_never_reported() -> None:
    site = SystemSite()
    b = site.add("b")
    for name in ("nobody", "nowhere"):
        site.add(name)
        site.crash(name)
    site.form("b")
    # One is an address that b has heard of, the other one a node that was silent ever since.
    b.do(partial(emit, site.host("nobody"), site.host("nowhere")))
    asked_ns: dict[str, list[int]] = {"nobody": [], "nowhere": []}
    lengths: list[int] = []

    def is_lost(packet: Packet) -> bool:
        is_from_a = packet.source is site.nodes["a"] and packet.kind == UNICAST
        for name, times_ns in asked_ns.items():
            if is_from_a and packet.destination is site.nodes[name]:
                times_ns.append(packet.sent_ns)
                lengths.append(len(packet.data))
        return False

    site.world.inject(LoseIf(is_lost))
    site.add("a", seeds=("b",), alone_timeout_ns=60 * SECOND)
    site.form("a", "b")
    site.world.run_for(60 * SECOND)
    alive = site.nodes["a"].machine.picture.table.alive()
    assert [one.entry.name for one in alive] == ["b"]
    assert site.agree("a", "b")
    for times_ns in asked_ns.values():
        gaps_ns = [after - before for before, after in pairwise(times_ns)]
        assert len(gaps_ns) >= 20, "it goes on"
        assert SECOND <= min(gaps_ns) <= max(gaps_ns) <= 3 * SECOND
    assert sum(lengths) < 2 * 60 * 300, "bytes in a minute"


def emit(nobody: str, nowhere: str, machine: SystemCore, now_ns: int) -> None:
    """Let a machine know a node that is silent, and an address."""
    directory = machine.discovery.directory
    directory.add_seeds([Address(nobody, CONTROL_PORT)])
    directory.known[77] = KnownNode(
        NodeDescription(
            node=77,
            name="nowhere",
            type_id=SERVER.id,
            control=Address(nowhere, CONTROL_PORT),
            data=Address(nowhere, DATA_PORT),
        )
    )


def hear(data: bytes, source: Address, machine: SystemCore, now_ns: int) -> None:
    """Pass a datagram to a machine."""
    machine.receive(data, source, now_ns)


@pytest.mark.slow
def test_fs_04_two_hundred_nodes_are_listed_in_several_datagrams() -> None:
    site = SystemSite()
    b = site.add("b")
    count = 200
    for number in range(count):
        # Real datagrams of nodes that are then silent: 200 whole ones would take minutes.
        host = f"10.1.0.{number}"
        other = Discovery(
            me=NodeDescription(
                node=number + 1,
                name=f"node {number}",
                type_id=FIELD.id,
                control=Address(host, CONTROL_PORT),
                data=Address(host, DATA_PORT),
            ),
            own_type=FIELD,
            node_types=TYPES,
            system=hash64("harbour"),
            rng=Random(number),
            now_ns=0,
            seeds=[b.address],
        )
        other.advance(0)
        ((_, data),) = other.take_datagrams()
        source = Address(host, CONTROL_PORT)
        b.do(partial(hear, data, source))
    a = site.add("a", seeds=("b",))
    answers: list[int] = []

    def is_lost_part(packet: Packet) -> bool:
        # The kind of a message of discovery is its first parameter.
        is_info = b"\x01\x80\x04\x00\x02\x00\x00\x00" in packet.data
        is_answer = packet.destination is a and is_info and b"node 77" in packet.data
        if is_answer:
            answers.append(packet.sent_ns)
        return is_answer and len(answers) == 1

    lost = LoseIf(is_lost_part)
    site.world.inject(lost)
    lengths: list[int] = []

    class Measured(Checker):
        def arrived(self, packet: Packet) -> str | None:
            if packet.source is b:
                lengths.append(len(packet.data))
            return None

    site.world.watch(Measured())
    site.world.run_for(500 * MS)
    directory = a.machine.discovery.directory
    known = directory.known[site.id_of("b")]
    assert lost.strike_count == 1
    assert not known.is_complete
    assert known.packet_count > 10
    assert len(directory.reported) < count
    # Those that do not answer are asked in turns, with the one that has to repeat its answer.
    site.world.run_until(lambda: known.is_complete, timeout_ns=15 * SECOND)
    assert len(directory.reported) == count
    assert max(lengths) <= a.machine.config.link.datagram_bytes
    answer_count = len(answers)
    site.world.run_for(15 * SECOND)
    assert len(answers) == answer_count


def test_fs_05_the_own_address_as_a_seed_and_one_that_is_not_an_address() -> None:
    site = SystemSite()
    site.add("a")
    site.add("b", seeds=("b", "a"))
    node = site.nodes["b"]
    node.do(lambda machine, _: machine.add_seeds([Address("no-such-host", 7)]))
    site.form("a", "b")
    assert node.machine.statistics().discovery.seed_count == 0
    assert site.events("b", SeedIgnored) == [SeedIgnored(address=Address("no-such-host", 7))]


def test_fs_06_an_excluded_node_is_refused_and_returns_with_a_new_id() -> None:
    site = SystemSite()
    site.add("a", ids=(300,))
    site.add("c", ids=(200,), seeds=("a",))
    site.add("b", ids=(100, 101), seeds=("a",))
    site.form("a", "b", "c")
    old = site.id_of("b")
    site.world.pause(site.nodes["b"], 20 * SECOND)
    site.world.run_until(site.agreed("a", "c"))
    site.world.run_until(lambda: bool(site.left("b")), timeout_ns=30 * SECOND)
    refusals = site.nodes["a"].machine.statistics().discovery.refusal_sent_count
    assert refusals >= 1
    site.world.run_for(30 * SECOND)
    assert site.agree("a", "c")
    site.world.restart(site.nodes["b"], down_ns=100 * MS)
    site.world.run_for(SECOND)
    site.form("a", "b", "c")
    assert site.id_of("b") != old


def test_fs_07_data_of_a_node_that_is_not_included_is_not_delivered() -> None:
    site = SystemSite()
    site.add("a")
    site.add("b", seeds=("a",))
    site.form("a", "b")
    machine = site.nodes["a"].machine
    now_ns = site.nodes["a"].now_ns
    stranger = Link(channel=Channel.DATA, node=77, node_types=TYPES, own_type=SERVER, now_ns=now_ns)
    stranger.meet(machine.node, SERVER, Address(site.host("a"), DATA_PORT))
    stranger.include(machine.node, now_ns)
    stranger.send_all(SERVER, MESSAGE, b"strange", now_ns)
    stranger.send_to(machine.node, MESSAGE, b"strange", now_ns)
    datagrams = stranger.take_transmits()
    source = Address("10.0.9.9", DATA_PORT)

    def act(core: SystemCore, at_ns: int) -> None:
        core.take_transmits()
        for sent in datagrams:
            core.receive_at(sent.data, source, sent.destination, at_ns)
        assert source not in [one.destination for one in core.take_transmits()]

    site.nodes["a"].do(act)
    assert datagrams
    assert site.received("a") == []
    assert machine.statistics().data.drops["stranger"] == len(datagrams)


def test_fs_19_nothing_is_delivered_before_a_welcome_that_is_lost_ten_times() -> None:
    site = SystemSite()
    site.add("a", ids=(100,))
    site.add("b", ids=(200,), seeds=("a",))
    lost = 0

    def is_welcome(packet: Packet) -> bool:
        nonlocal lost
        is_data = packet.to.port == DATA_PORT and packet.source.name == site.host("a")
        # A gap is the second submessage, after the destination.
        found = is_data and len(packet.data) > 36 and packet.data[36] == 0x08 and lost < 10
        lost += found
        return found

    site.world.inject(LoseIf(is_welcome))
    site.form("a", "b")
    for number in range(20):
        site.send("a", f"{number}")
        if lost < 10:
            assert site.received("b") == []
        site.world.run_for(20 * MS)
    site.world.run_for(2 * SECOND)
    assert lost == 10
    assert site.texts("b")["a"] == [str(number) for number in range(20)]


def test_fs_20_multicast_and_unicast_nodes_together() -> None:
    site = SystemSite()
    names = ("a", "b", "c", "d")
    for name in names:
        site.add(name, node_type=SERVER if name < "c" else FIELD, seeds=("a",))
    fields = site.hosts("c", "d")
    to_field = LoseIf(lambda one: one.kind == MULTICAST and one.destination.name in fields)
    site.world.inject(to_field)
    site.form(*names)
    for number in range(200):
        for name in names:
            site.send(name, f"{name}{number}")
        site.world.run_for(5 * MS)
    site.world.run_for(SECOND)
    for name in names:
        others = [other for other in names if other != name]
        expected = {other: [f"{other}{number}" for number in range(200)] for other in others}
        assert site.texts(name) == expected
    assert to_field.strike_count == 0


def test_fs_28_eight_nodes_start_together() -> None:
    for seed in range(5):
        site = SystemSite(seed)
        names = [f"n{number}" for number in range(8)]
        for name in names:
            site.add(name, by_group=True)
            site.world.run_for(12 * MS)
        site.form(*names, timeout_ns=20 * SECOND)
        site.world.run_for(30 * SECOND)
        assert site.agree(*names)
        machines = [site.nodes[name].machine for name in names]
        assert len({machine.picture.membership.incarnation_id for machine in machines}) == 1
        elected = {machine.picture.election.elected_id for machine in machines}
        assert elected == {max(machine.node for machine in machines)}
        assert all(site.deaths(name) == [] for name in names)


def test_fs_31_a_node_that_may_not_form_a_system_waits_for_one_that_may() -> None:
    site = SystemSite()
    site.add("f", node_type=FIELD)
    site.add("g", node_type=FIELD, seeds=("f",))
    site.world.run_for(300 * SECOND)
    assert site.nodes["f"].machine.state is None
    assert site.events("f", IncarnationEntered) == []
    site.add("s", seeds=("f",))
    site.form("f", "g", "s")


def test_fs_42_a_light_node_as_the_seed_of_a_light_node() -> None:
    site = SystemSite()
    site.add("a")
    site.add("l", node_type=LIGHT, seeds=("a",))
    site.add("m", node_type=LIGHT, seeds=("l", "a"))
    site.form("a", "l", "m")
    assert len(site.events("l", LightSeed)) >= 1
    light = site.id_of("m"), site.id_of("l")
    for name in ("l", "m"):
        assert not set(site.nodes[name].machine.picture.table.nodes) & set(light)


def test_fs_53_datagrams_for_the_node_that_had_the_address_before_are_dropped() -> None:
    site = SystemSite()
    site.add("a", seeds=("b",))
    site.add("b")
    site.form("a", "b")
    site.world.restart(site.nodes["b"], down_ns=100 * MS)
    site.world.run_for(3 * SECOND)
    drops = site.nodes["b"].machine.statistics().control.drops
    assert drops["destination"] > 0
    site.form("a", "b")


def test_a_node_to_which_no_address_leads_is_found_by_its_keep_alives() -> None:
    # d has no seed, and the node that it was a seed of is gone: nobody knows its address. Its
    # keep-alives for that node are multicast, so they arrive at the others.
    site = SystemSite()
    for name, seeds in (("d", ()), ("c", ("d",))):
        site.add(name, seeds=seeds, alone_timeout_ns=60 * SECOND)
    site.world.run_for(5 * SECOND)
    site.crash("c")
    site.add("a")
    site.add("b", seeds=("a",))
    site.form("a", "b", "d")


def test_a_node_that_restarts_at_once_joins_with_a_new_id_and_receives_all() -> None:
    """The old id is in the picture until its time is over."""
    site = SystemSite()
    for name in ("a", "b", "c"):
        site.add(name, seeds=("a",))
    site.form("a", "b", "c")
    old = site.id_of("c")
    site.world.restart(site.nodes["c"], down_ns=100 * MS)
    site.world.run_for(SECOND)
    assert site.id_of("c") != old
    site.world.run_until(site.agreed("a", "b", "c"), timeout_ns=9 * SECOND)
    for number in range(50):
        site.send("c", f"c{number}")
        site.world.run_for(MS)
    site.world.run_for(SECOND)
    for name in ("a", "b"):
        assert site.texts(name)["c"] == [f"c{number}" for number in range(50)]
