"""Sealed systems in the simulator: nodes with the keys form one picture, and others do no harm."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from skerry.engine.system.config import Rejoin, SystemConfig
from skerry.engine.system.events import Rejoining, SystemStatistics
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.machine import Address
from skerry.protocol.sealing.group_keys import Cipher, GroupKey, KeyRing
from skerry.testing.checkers import Checker
from skerry.testing.faults import Duplication, Loss, Reordering
from skerry.testing.machines.system_site import CONTROL_PORT, FIELD, SERVER, TYPES, SystemSite
from skerry.testing.node import Node
from skerry.testing.packet import Packet
from skerry.testing.world import MS, SECOND

RTPS_HEADER_BYTES = 20
SEALED = 0xF1


def ring(*key_ids: int, first: int = 1, **fields: Any) -> KeyRing:
    return KeyRing(
        GroupKey(key_id=one, secret=bytes([first, one]) * 16, **fields) for one in key_ids or (1,)
    )


class Recorder(Checker):
    """Keeps all datagrams, and refuses those in clear."""

    def __init__(self) -> None:
        self.packets: list[Packet] = []
        self.key_ids: set[int] = set()

    def arrived(self, packet: Packet) -> str | None:
        self.packets.append(packet)
        if packet.data[RTPS_HEADER_BYTES] != SEALED:
            return "a datagram in clear"
        self.key_ids.add(int.from_bytes(packet.data[24:28], "big"))
        return None


class Attacker(Checker):
    """Sends a changed copy of each datagram to a node again, a little later."""

    def __init__(
        self, site: SystemSite, change: Callable[[bytes, Random], bytes], *, delay_ns_max: int
    ) -> None:
        self.sent_count = 0
        self._site = site
        self._change = change
        self._rng = Random(7)
        self._delay_ns_max = delay_ns_max

    def arrived(self, packet: Packet) -> str | None:
        nodes = list(self._site.nodes.values())
        copy = (self._rng.choice(nodes), packet, self._change(packet.data, self._rng))
        self._site.world.after(1 + self._rng.randrange(self._delay_ns_max), self._send, copy)
        return None

    def _send(self, copy: tuple[Node[Any], Packet, bytes]) -> None:
        node, packet, data = copy
        if node.is_running:
            self.sent_count += 1
            inject(node, data, packet.to)


def inject(node: Node[Any], data: bytes, to: Address) -> None:
    """Deliver a datagram to a node, at its own address if it was for that of another."""
    port = to.port
    there = to if to.host.startswith("239.") else Address(node.machine.config.control.host, port)
    node.do(lambda core, now_ns: core.receive_at(data, Address("10.0.9.9", port), there, now_ns))


def wall_of(node: Node[Any]) -> int:
    return int(node.now_ns + node.machine._wall_offset_ns)


def drops(site: SystemSite, name: str) -> dict[str, int]:
    row = site.nodes[name].machine.statistics()
    found = dict(row.control.drops)
    for reason, count in row.data.drops.items():
        found[reason] = found.get(reason, 0) + count
    # On the data channel, until the picture of the sender and that of the receiver are the same.
    found.pop("stranger", None)
    return found


def sealed_site(seed: int = 1, names: str = "abc", **more: Any) -> SystemSite:
    site = SystemSite(seed)
    for name in names:
        site.add(name, seeds=("a",), keys=ring(), **more)
    return site


def talk(site: SystemSite, names: str, count: int, *, gap_ns: int = 5 * MS) -> None:
    for number in range(count):
        for name in names:
            site.send(name, f"{name}{number}")
        site.world.run_for(gap_ns)


def assert_all_received(site: SystemSite, names: str, count: int) -> None:
    for name in names:
        expected = {
            other: [f"{other}{number}" for number in range(count)]
            for other in names
            if other != name
        }
        assert site.texts(name) == expected


@pytest.mark.parametrize("cipher", Cipher)
def test_a_sealed_system_forms_one_picture_and_nothing_is_in_clear(cipher: Cipher) -> None:
    site = SystemSite()
    recorder = Recorder()
    site.world.watch(recorder)
    for name in ("alpha", "beta", "gamma"):
        site.add(name, seeds=("alpha",), keys=ring(cipher=cipher))
    site.form("alpha", "beta", "gamma")
    for _ in range(20):
        site.send("alpha", "confidential")
        site.send("alpha", "only for beta", to="beta")
        site.world.run_for(10 * MS)
    site.send("alpha", "confidential" * 1000)
    site.world.run_for(SECOND)
    assert len(site.texts("gamma")["alpha"]) == 21
    assert len(site.texts("beta")["alpha"]) == 41
    everything = b"".join(packet.data for packet in recorder.packets)
    for word in (b"confidential", b"only for", b"alpha", b"beta", b"gamma"):
        assert word not in everything
    limit = LinkConfig().datagram_bytes
    assert limit - 100 < max(len(packet.data) for packet in recorder.packets) <= limit
    for name in ("alpha", "beta", "gamma"):
        assert drops(site, name) == {}
        statistics = site.nodes[name].machine.statistics().seal
        assert statistics is not None
        assert statistics.sealed_count > 30 < statistics.opened_count
        assert statistics.sender_count == 4


def test_a_stranger_without_keys_takes_no_part() -> None:
    site = sealed_site(names="ab")
    site.form("a", "b")
    site.add("x", seeds=("a",), by_group=True)
    site.world.run_for(30 * SECOND)
    assert site.agree("a", "b")
    assert site.agree("x")
    assert drops(site, "a").keys() == {"unsealed"}
    assert drops(site, "x").keys() == {"sealed"}
    assert site.nodes["x"].machine.statistics().discovery.known_count == 0


def test_a_node_in_clear_without_checksums_names_the_reason_as_well() -> None:
    site = sealed_site(names="ab")
    site.add("x", seeds=("a",), by_group=True, link=LinkConfig(checksum=False))
    site.world.run_for(30 * SECOND)
    assert drops(site, "x").keys() == {"sealed"}


@pytest.mark.parametrize(
    ("keys", "system", "theirs", "ours"),
    [
        (ring(2), "harbour", "key", "key"),
        (ring(1, first=9), "harbour", "forged", "forged"),
        (ring(1), "another", "forged", "forged"),
    ],
    ids=["old key", "other secret", "other system"],
)
def test_a_node_with_other_keys_takes_no_part(
    keys: KeyRing, system: str, theirs: str, ours: str
) -> None:
    site = sealed_site(names="ab")
    site.form("a", "b")
    site.add("x", seeds=("a",), by_group=True, keys=keys, system=system)
    site.world.run_for(30 * SECOND)
    assert site.agree("a", "b")
    assert site.agree("x")
    assert drops(site, "a").keys() == {ours}
    assert drops(site, "x").keys() == {theirs}


def test_a_node_whose_clock_is_far_off_takes_no_part() -> None:
    site = sealed_site(names="ab")
    site.form("a", "b")
    late = site.add("x", seeds=("a",), keys=ring(), node_type=FIELD)
    late.do(lambda core, now_ns: core.set_wall_offset(core._wall_offset_ns - 301 * SECOND, now_ns))
    site.world.run_for(30 * SECOND)
    assert site.agree("a", "b")
    assert drops(site, "a").keys() == {"stale"}
    assert site.nodes["x"].machine.state is None
    late.do(lambda core, now_ns: core.set_wall_offset(core._wall_offset_ns + 301 * SECOND, now_ns))
    site.form("a", "b", "x")


def test_a_replayer_changes_nothing() -> None:
    site = sealed_site()
    attacker = Attacker(site, lambda data, _: data, delay_ns_max=20 * SECOND)
    site.world.watch(attacker)
    site.form("a", "b", "c")
    talk(site, "abc", 100)
    site.world.run_for(30 * SECOND)
    assert site.agree("a", "b", "c")
    assert_all_received(site, "abc", 100)
    assert attacker.sent_count > 500
    for name in "abc":
        assert site.deaths(name) == []
        # What was for another node is opened here once, and then found to be for the other.
        assert drops(site, name).keys() <= {"replayed", "destination", "channel"}
        assert drops(site, name)["replayed"] > 50
        assert site.nodes[name].machine.statistics().discovery.known_count == 2


def test_recorded_datagrams_are_refused_later_also_by_a_node_that_just_started() -> None:
    site = sealed_site(names="ab")
    recorder = Recorder()
    site.world.watch(recorder)
    site.form("a", "b")
    recorded = list(recorder.packets)
    site.crash("b")
    site.world.run_until(site.agreed("a"), timeout_ns=40 * SECOND)
    site.world.run_for(301 * SECOND)
    fresh = site.add("x", keys=ring())
    site.world.run_for(MS)
    for packet in recorded:
        for name in ("a", "x"):
            inject(site.nodes[name], packet.data, packet.to)
    site.world.run_for(20 * SECOND)
    assert fresh.machine.statistics().discovery.known_count == 0
    assert site.agree("a")
    assert site.agree("x")
    assert drops(site, "x") == {"stale": len(recorded)}


@pytest.mark.parametrize("seed", range(3))
def test_a_flipper_of_bits_changes_nothing(seed: int) -> None:
    def flip(data: bytes, rng: Random) -> bytes:
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 5))):
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(changed[: rng.choice((len(data), len(data), rng.randrange(len(data)))) or 1])

    site = sealed_site(seed)
    attacker = Attacker(site, flip, delay_ns_max=SECOND)
    site.world.watch(attacker)
    site.form("a", "b", "c")
    talk(site, "abc", 100)
    site.world.run_for(10 * SECOND)
    assert site.agree("a", "b", "c")
    assert_all_received(site, "abc", 100)
    assert attacker.sent_count > 500
    for name in "abc":
        assert site.deaths(name) == []
        assert drops(site, name)["forged"] > 50
        assert drops(site, name).keys() <= {"forged", "key", "short", "unsealed"}
        senders = site.nodes[name].machine.statistics().seal
        assert senders is not None
        assert senders.sender_count == 4


def test_a_restarted_node_joins_and_its_earlier_run_is_refused() -> None:
    site = sealed_site()
    recorder = Recorder()
    site.world.watch(recorder)
    site.form("a", "b", "c")
    old = site.id_of("c")
    of_old = [packet for packet in recorder.packets if packet.source.name == site.host("c")]
    site.world.restart(site.nodes["c"], down_ns=100 * MS)
    site.world.run_for(SECOND)
    site.world.run_until(site.agreed("a", "b", "c"), timeout_ns=20 * SECOND)
    assert site.id_of("c") != old
    before = drops(site, "a")
    for packet in of_old:
        inject(site.nodes["a"], packet.data, packet.to)
        inject(site.nodes["c"], packet.data, packet.to)
    site.world.run_for(20 * SECOND)
    assert site.agree("a", "b", "c")
    replayed = drops(site, "a")["replayed"] - before.get("replayed", 0)
    excluded = drops(site, "a").get("excluded", 0) - before.get("excluded", 0)
    assert replayed > 0
    assert replayed + excluded > 0.8 * len(of_old)
    talk(site, "abc", 20)
    site.world.run_for(SECOND)
    assert site.texts("a")["c"] == [f"c{number}" for number in range(20)]


def test_an_excluded_node_is_refused_with_its_own_reason() -> None:
    """Also without keys: what an earlier run sends is not that of a stranger."""
    for keys in (None, ring()):
        site = SystemSite()
        for name, node in (("a", 300), ("b", 200), ("c", 100)):
            site.add(name, ids=(node,), seeds=("a",), keys=keys)
        site.form("a", "b", "c")
        site.world.pause(site.nodes["c"], 20 * SECOND)
        site.world.run_until(site.agreed("a", "b"))
        site.world.run_for(30 * SECOND)
        assert site.left("c")
        assert drops(site, "a")["excluded"] > 0


def test_a_node_that_was_excluded_rejoins_a_sealed_system_with_a_new_id() -> None:
    site = sealed_site(rejoin=Rejoin.AUTO)
    site.form("a", "b", "c")
    old = site.id_of("c")
    site.world.pause(site.nodes["c"], 20 * SECOND)
    site.world.run_for(21 * SECOND)
    site.form("a", "b", "c")
    assert site.id_of("c") != old
    rejoining = [one for one in site.nodes["c"].events if isinstance(one, Rejoining)]
    assert [one.node for one in rejoining] == [site.id_of("c")]
    statistics = site.nodes["c"].machine.statistics()
    assert isinstance(statistics, SystemStatistics)
    assert statistics.node == site.id_of("c")
    talk(site, "abc", 20)
    site.world.run_for(SECOND)
    assert site.texts("a")["c"] == [f"c{number}" for number in range(20)]


def test_keys_change_under_traffic_without_loss() -> None:
    site = SystemSite()
    recorder = Recorder()
    site.world.watch(recorder)
    nodes = [site.add(name, seeds=("a",), keys=ring(1)) for name in "abc"]
    site.form("a", "b", "c")
    wall_ns = wall_of(nodes[0])
    both = KeyRing(
        [
            GroupKey(key_id=1, secret=bytes([1, 1]) * 16),
            GroupKey(key_id=2, secret=bytes([1, 2]) * 16, from_ns=wall_ns + 3 * SECOND),
        ]
    )
    for node in nodes:
        node.do(lambda core, _: core.rekey(both))
        talk(site, "abc", 50)
    site.world.run_until(lambda: wall_of(nodes[0]) > wall_ns + 3 * SECOND)
    site.world.run_for(SECOND)
    recorder.key_ids.clear()
    talk(site, "abc", 50)
    assert recorder.key_ids == {2}
    for node in nodes[:2]:
        node.do(lambda core, _: core.rekey(ring(2)))
    talk(site, "abc", 50)
    site.world.run_for(10 * SECOND)
    assert site.agree("a", "b", "c")
    for name in "abc":
        assert site.deaths(name) == []
        assert drops(site, name) == {}
        seal = site.nodes[name].machine.statistics().seal
        assert seal is not None
        assert seal.key_id == 2
        for texts in site.texts(name).values():
            assert len(texts) == 250
    late = site.add("x", seeds=("a",), keys=ring(1), node_type=FIELD)
    site.world.run_for(20 * SECOND)
    assert site.agree("a", "b", "c")
    assert drops(site, "a").keys() == {"key"}
    late.do(lambda core, _: core.rekey(ring(2)))
    site.form("a", "b", "c", "x")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_sealed_systems_under_faults_have_one_picture_and_lose_nothing(seed: int) -> None:
    site = sealed_site(seed, "abcd")
    for fault in (
        Loss(0.1),
        Duplication(0.1),
        Reordering(0.2, delay_ns_max=50 * MS),
    ):
        site.world.inject(fault)
    site.world.watch(Attacker(site, lambda data, _: data, delay_ns_max=5 * SECOND))
    site.form("a", "b", "c", "d", timeout_ns=60 * SECOND)
    talk(site, "abcd", 100)
    site.world.run_for(20 * SECOND)
    assert site.agree("a", "b", "c", "d")
    assert_all_received(site, "abcd", 100)


def test_datagrams_of_a_sealed_system_need_room_for_the_seal() -> None:
    fields: dict[str, Any] = {
        "system": "s",
        "name": "n",
        "node_types": TYPES,
        "type_name": SERVER.name,
        "control": Address("10.0.0.1", CONTROL_PORT),
        "data": Address("10.0.0.1", CONTROL_PORT + 1),
    }
    SystemConfig(**fields, link=LinkConfig(datagram_bytes=512))
    SystemConfig(**fields, link=LinkConfig(datagram_bytes=544), keys=ring())
    with pytest.raises(ValueError, match="datagram_bytes = 543: with keys it is at least 544"):
        SystemConfig(**fields, link=LinkConfig(datagram_bytes=543), keys=ring())
