"""Nodes of a system as processes in network namespaces: scenarios with real networks and faults.

The names are those of the scenarios that the simulator plays as well. Times of detection are
shorter than the defaults, so that a test takes seconds; the simulator checks those of the defaults.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from skerry.protocol.exclusion import ExclusionReason
from tests.runtime.network import (
    DEAD_S,
    SERVER,
    SERVER_V6,
    Network,
    NetworkNode,
    agree,
    node_type,
    together,
    until,
)

pytestmark = pytest.mark.slow

NEVER_SILENT = node_type(heartbeat_interval_ms=20_000)
PATIENT = node_type(lost_heartbeat_count_max=60)
"""Dead after 9 s of silence."""
IDS = dict(zip("abcde", (50, 40, 30, 20, 10), strict=True))
"""So that a is elected, and then b."""
DATA_PORTS = "udp dport { 26651, 26661 }"


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with Network(tmp_path) as made:
        yield made


def formed(network: Network, names: str, **given: Any) -> list[NetworkNode]:
    """Nodes with these names, each on a host of its own, that are one system."""
    return together(network.bridged(names), id=IDS.__getitem__, **given)


def exchange(*nodes: NetworkNode, count: int = 100, size: int = 0) -> None:
    """Send messages from all to all, and check that they arrive in order."""
    before = {node.name: node.status["published"] for node in nodes}
    for node in nodes:
        node.publish(count, size)
    for node in nodes:
        for other in nodes:
            if other is not node:
                number = before[other.name] + count
                until(lambda: node.has_received(number, other), "messages are missing")  # noqa: B023
        assert node.status["wrong"] == []


def test_fs_01_two_nodes_one_of_which_seeds_the_other(network: Network) -> None:
    hosts = network.bridged("ab")
    types = [node_type("server", position=0)]
    a, b = together(hosts, types=types, seeds=["10.77.0.1:26660"])
    exchange(a, b, size=5000)
    for node in (a, b):
        # A node gets the next index each time it is reported.
        assert (node.status["indexes"], node.status["known"]) == ([1], 1)
        assert node.deaths() == {}


def test_fs_01_over_ipv6(network: Network) -> None:
    nodes = together(network.bridged("ab"), types=[SERVER_V6], ipv6=True)
    exchange(*nodes, size=5000)
    for node in nodes:
        assert [one["has_multicast"] for one in node.status["data_peers"]] == [True]
        assert node.status["addresses"]["a"].endswith("fd77::1:26660")


def test_fs_06_an_excluded_node_is_refused_and_returns_with_a_new_id(network: Network) -> None:
    a, b, c = formed(network, "abc")
    old = c.node
    c.process.send_signal(signal.SIGSTOP)
    until(lambda: agree(a, b), "the stopped process is still alive for the others")
    c.process.send_signal(signal.SIGCONT)
    until(lambda: c.status["left"], "the excluded node has not learned of it")
    assert a.status["refusals"] + b.status["refusals"] >= 1
    assert agree(a, b)
    c.kill()
    again = NetworkNode(c.host)
    until(lambda: agree(a, b, again))
    assert again.status["addresses"]["c"].endswith("10.77.0.3:26660")
    assert again.node != old
    exchange(a, b, again)


def test_fs_08_loss_duplicates_and_reordering(network: Network) -> None:
    hosts, relay = network.relayed("abcd", loss=0.1, repeat=0.05, reorder=0.05)
    # A tenth of all datagrams is lost for each receiver, and none may be taken for dead.
    nodes = together(hosts, types=[PATIENT])
    exchange(*nodes, count=10_000)
    assert sum(one["retransmissions"] for one in nodes[0].status["data_peers"]) > 0
    relay.stop()
    assert min(relay.counts.values()) > 10, relay.counts


def test_fs_08_loss_by_the_packet_filter(network: Network) -> None:
    a, b, c = formed(network, "abc", types=[PATIENT])
    for node in (a, b, c):
        node.host.filter("udp dport 26651-26661 numgen random mod 100 < 10 counter drop")
    exchange(a, b, c, count=3000, size=1000)
    assert min(node.host.counted() for node in (a, b, c)) > 10


def test_fs_16_a_slow_receiver_does_not_slow_down_the_others(network: Network) -> None:
    types = [node_type(lag_grace_ms=100, lag_limit_ms=1000)]
    sender, *others, slow = together(network.bridged("abcdef"), types=types)
    number = slow.node
    slow.ask("slow", seconds=0.02)
    sender.publish(4000, 1200)
    until(lambda: all(one.has_received(4000, sender) for one in others))
    # It takes fifty messages a second, and is served on its own, or excluded by now.
    rows = [one for one in sender.status["data_peers"] if one["node"] == number]
    assert all(one["lag_ns"] > 0 for one in rows)
    until(lambda: agree(sender, *others), "the slow node is still alive")
    assert sender.deaths()["f"] == ExclusionReason.SLOW
    assert [one.status["wrong"] for one in others] == [[]] * 4


def test_fs_20_multicast_and_unicast_nodes_together(network: Network) -> None:
    hosts = network.bridged("abcd")
    types = [SERVER, node_type("field", position=0)]
    for host in hosts[2:]:
        host.filter("ip daddr 224.0.0.0/4 udp dport > 1024 counter")
    kinds = dict(zip("abcd", ("server", "server", "field", "field"), strict=True))
    seeds = ["10.77.0.1:26660"]
    nodes = together(hosts, types=types, type=kinds.__getitem__, seeds=seeds)
    exchange(*nodes, count=1000)
    for node in nodes[:2]:
        assert any(one["has_multicast"] for one in node.status["data_peers"])
    for node in nodes[2:]:
        assert not any(one["has_multicast"] for one in node.status["data_peers"])
        assert node.host.counted() == 0


def test_fs_21_multicast_blocked_between_two_nodes(network: Network) -> None:
    a, b, c = formed(network, "abc")
    for node, other in ((b, c), (c, b)):
        node.ask("whisper", to=other.node)
    multicast_s = 4 * DEAD_S
    for node, other in ((b, c), (c, b)):
        node.host.filter(f"ip saddr {other.host.address()} ip daddr 224.0.0.0/4 counter drop")
    took_s = until(lambda: agree(a, b), "the pair is still in the picture")
    assert took_s > multicast_s - 1, "unicast arrives, so it is not silent before"
    assert min(node.host.counted() for node in (b, c)) > 10
    found = c.status
    assert found["left"] or found["alive"] == ["c"]
    exchange(a, b)
    assert list(a.deaths()) == list(b.deaths()) == ["c"]


def test_fs_22_one_way_between_two_nodes(network: Network) -> None:
    a, b = formed(network, "ab")
    a.host.cut(b.host)

    def is_over(node: NetworkNode, other: str) -> bool:
        found = node.status
        return bool(found["left"]) or (
            found["alive"] == [node.name] and [name for name, _ in found["deaths"]] == [other]
        )

    until(lambda: is_over(a, "b") and is_over(b, "a"), "one node is alive for the other")


def test_decisions_are_made_although_the_data_channel_is_saturated(network: Network) -> None:
    count = 1_000_000
    nodes = formed(network, "abcd", types=[node_type(lost_heartbeat_count_max=30)])
    a, *others = nodes
    for node in nodes:
        node.publish(count, 1200)
    until(lambda: all(one.has_received(1000, *others[:1]) for one in others[1:]))
    a.kill()
    until(lambda: agree(*others), "the picture waits for the data")
    for node in others:
        found = node.status
        assert found["elected"] == IDS["b"]
        assert list(node.deaths()) == ["a"]
        assert found["wrong"] == []
        assert 1000 < found["published"] < count


def test_fs_24_a_killed_node_is_excluded_everywhere(network: Network) -> None:
    a, b, c, d = formed(network, "abcd")
    d.kill()
    until(lambda: agree(a, b, c))
    assert [node.deaths() for node in (a, b, c)] == [{"d": ExclusionReason.SILENT}] * 3


def test_fs_25_a_node_that_stops_is_excluded_at_once(network: Network) -> None:
    a, b, c = formed(network, "abc", types=[NEVER_SILENT])
    c.ask("stop")
    until(lambda: agree(a, b))
    assert a.deaths() == b.deaths() == {"c": ExclusionReason.ORDERED}


def test_fs_26_the_elected_node_is_killed(network: Network) -> None:
    a, *others = formed(network, "abcde")
    before = others[0].status
    assert before["elected"] == IDS["a"]
    a.kill()
    until(lambda: agree(*others))
    for node in others:
        until(lambda: node.status["elected"] == IDS["b"])  # noqa: B023
        assert node.status["incarnation"] == before["incarnation"]


def split(network: Network, nodes: list[NetworkNode], at: int) -> None:
    """Cut a system in two, and wait until there are two."""
    left, right = nodes[:at], nodes[at:]
    for side, other in ((left, right), (right, left)):
        for node in side:
            node.host.cut(*(one.host for one in other))
    until(lambda: agree(*left) and agree(*right), "the parts are not systems of their own")


def heal(nodes: list[NetworkNode]) -> None:
    for node in nodes:
        node.host.filter()


def test_fs_29_two_halves_stay_apart_if_nodes_do_not_rejoin(network: Network) -> None:
    nodes = formed(network, "abcde")
    split(network, nodes, 3)
    left, right = nodes[:3], nodes[3:]
    exchange(*left)
    heal(nodes)
    # Each half hears of the other, and refuses it.
    until(lambda: all(one.status["drops"].get("excluded") for one in left))
    exchange(*left)
    assert agree(*left)
    for node in right:
        found = node.status
        assert found["left"] or found["alive"] == ["d", "e"]
        assert not set("abc") & set(found["received"])


def test_fs_29_the_smaller_half_rejoins(network: Network) -> None:
    nodes = formed(network, "abcde", rejoin="auto")
    split(network, nodes, 3)
    heal(nodes)
    until(lambda: agree(*nodes), "the halves have not become one system")
    assert [node.status["rejoined"] for node in nodes] == [0, 0, 0, 1, 1]
    exchange(*nodes)


def test_fs_30_a_node_that_was_cut_off_does_not_enter_the_restarted_system(
    network: Network,
) -> None:
    a, b, c = formed(network, "abc")
    for node in (a, b):
        node.host.cut(c.host)
    c.host.cut(a.host, b.host)
    for node in (a, b):
        node.ask("stop")
        node.kill()
    until(lambda: agree(c))
    again = together([a.host, b.host])
    heal([*again, c])
    until(lambda: all(one.deaths().get("c") for one in again), "they have not met again")
    assert {one.deaths()["c"] for one in again} <= {
        ExclusionReason.INCARNATION,
        ExclusionReason.COORDINATOR,
    }
    exchange(*again)
    assert agree(*again)


def test_fs_36_the_data_channel_is_blocked(tmp_path: Path) -> None:
    # Dead after 0.9 s, and after ten times that if the data channel never worked.
    given: dict[str, Any] = {"types": [node_type(lost_heartbeat_count_max=6)]}
    with ExitStack() as ending:
        networks = []
        for name in ("start", "later", "one-way"):
            (tmp_path / name).mkdir()
            networks.append(ending.enter_context(Network(tmp_path / name)))
        start, later, one_way = networks
        hosts = start.bridged("abc")
        hosts[2].filter(f"{DATA_PORTS} drop")
        for host in hosts[:2]:
            host.filter(f"{DATA_PORTS} ip saddr 10.77.0.3 drop")
        first = together(hosts, id=IDS.__getitem__, **given)
        second, third = formed(later, "abc", **given), formed(one_way, "abc", **given)
        for nodes in (second, third):
            exchange(*nodes, count=300)
        second[2].host.filter(f"{DATA_PORTS} drop")
        for node in second[:2]:
            node.host.filter(f"{DATA_PORTS} ip saddr 10.77.0.3 drop")
        third[2].host.filter(f"{DATA_PORTS} drop")
        for nodes in (second, third):
            for node in nodes:
                node.publish(5000)
        for nodes in (second, third, first):
            until(lambda: agree(*nodes[:2]), "the node without data is alive")  # noqa: B023
            assert list(nodes[0].deaths()) == ["c"]


def test_the_channels_use_two_interfaces_of_which_that_of_the_data_fails(network: Network) -> None:
    hosts = network.bridged("abc")
    network.bridge(1)
    for host in hosts:
        host.plug(1)
        # Nothing of one channel is accepted on the interface of the other one.
        host.filter(
            "iifname eth0 udp dport { 26651, 26661 } counter drop",
            "iifname eth1 udp dport { 26650, 26660 } counter drop",
        )
    data = {host.name: host.address(1) for host in hosts}
    a, b, c = together(hosts, id=IDS.__getitem__, data=data.__getitem__)
    exchange(a, b, c, count=300, size=1000)
    assert [node.host.counted() for node in (a, b, c)] == [0, 0, 0]
    assert all(one["has_multicast"] for one in c.status["data_peers"])
    hosts[2].ip("link set eth1 down")
    until(lambda: agree(a, b), "the node without data is alive")
    # Unanswered for a node that c has refused as silent.
    assert a.deaths()["c"] in (ExclusionReason.SILENT, ExclusionReason.UNANSWERED)
    exchange(a, b)


def test_fs_52_an_interface_disappears_and_returns(network: Network) -> None:
    a, b, c = formed(network, "abc", types=[PATIENT])
    host = c.host
    host.cable_out()
    c.publish(200)
    host.cable_in()
    until(lambda: a.has_received(200, c) and b.has_received(200, c))
    host.ip("link set eth0 down")
    until(lambda: "sockets of a channel are closed" in c.log(), "it has not noticed")
    host.set_up()
    until(lambda: c.status["reopened"] == 2)
    exchange(a, b, c)
    host.unplug()
    until(lambda: c.log().count("sockets of a channel are closed") == 4)
    host.plug()
    until(lambda: c.status["reopened"] == 4)
    exchange(a, b, c)
    for node in (a, b, c):
        assert node.deaths() == {}
        assert all(one["has_multicast"] for one in node.status["control_peers"])


def test_fs_52_a_node_waits_for_its_interface_when_it_starts(network: Network) -> None:
    network.bridge()
    host = network.host("a")
    node = NetworkNode(host, alone_s=0.5)
    until(lambda: "waiting for the network interface" in node.log(), "it does not wait")
    host.plug()
    until(lambda: agree(node))


def test_fs_53_another_node_has_taken_the_address(network: Network) -> None:
    a, b, c = formed(network, "abc", types=[PATIENT])
    old = c.node
    # Those that are left send again what the old node has not acknowledged, and ask it.
    c.process.send_signal(signal.SIGSTOP)
    for node in (a, b):
        node.publish(50, 1000)
    c.kill()
    again = NetworkNode(c.host, types=[PATIENT])
    until(
        lambda: again.status["data_drops"].get("destination"),
        "nothing for the old node has arrived at the new one",
    )
    assert again.status["received"] == {}
    until(lambda: agree(a, b, again))
    assert again.node != old
    for node in (a, b):
        node.publish(100)
    until(lambda: again.has_received(100, a, b))
    assert again.status["received"] == {"a": 100, "b": 100}


def test_fs_54_random_and_truncated_datagrams(network: Network) -> None:
    a, b, stranger = network.bridged("abc")
    nodes = together([a, b])
    ports = [(host.address(), port) for host in (a, b) for port in (26660, 26661)]
    groups = [("239.192.77.1", 26650), ("239.192.77.1", 26651)]
    given = {"seed": 7, "count": 30_000, "targets": [*ports, *groups]}
    given["address"] = stranger.address()
    command = [sys.executable, "-m", "tests.runtime.network_fire", json.dumps(given)]
    fire = network.start([*stranger.prefix, *command], log="fire.log")
    exchange(*nodes, count=300)
    assert fire.stdout is not None
    assert fire.stdout.readline() == "done\n", (network.folder / "fire.log").read_text()
    exchange(*nodes, count=300)
    for node in nodes:
        for drops in (node.status["drops"], node.status["data_drops"]):
            assert {"short", "kind", "checksum", "stranger"} <= set(drops)
            assert sum(drops.values()) > 1000
        assert node.deaths() == {}
        assert sorted(node.status["received"]) == sorted({"a", "b"} - {node.name})
        assert "Traceback" not in node.log()


def test_fs_52_over_ipv6(network: Network) -> None:
    types = [node_type(lost_heartbeat_count_max=60, ipv6=True)]
    nodes = together(network.bridged("ab"), types=types, ipv6=True)
    _, b = nodes
    # Without a link, an interface keeps no address of IPv6.
    b.host.ip("link set eth0 down")
    until(lambda: b.log().count("sockets of a channel are closed") == 2)
    b.host.set_up()
    until(lambda: b.status["reopened"] == 2)
    exchange(*nodes, size=5000)
    assert [node.deaths() for node in nodes] == [{}, {}]
