"""The link in the simulator: scenarios of the specification, and random worlds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any
from zlib import crc32

import pytest

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import NotFull, StallReason
from skerry.protocol.machine import Address, MachineEvent
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.testing.checkers import Checker
from skerry.testing.faults import (
    Duplication,
    LoseIf,
    Loss,
    Partition,
    RateLimit,
    Reordering,
)
from skerry.testing.packet import MULTICAST, UNICAST, Packet
from skerry.testing.world import MS, SECOND
from tests.sim.link import Site
from tests.sim.link_host import DATA_PORT, FIELD, SERVER, LinkDelivered, LinkHost

ACKNACK = b"\x06\x03"


def test_messages_arrive_in_order_at_all_nodes_of_a_type() -> None:
    site = Site("a", "b", "c")
    site.include_all()
    site.flood("a", 1000)
    site.world.run_until(lambda: site.all_have("a", 1000))


def test_fs_07_messages_of_a_node_that_is_known_but_not_included_are_not_taken() -> None:
    site = Site("a", "b")
    site.nodes["a"].do(lambda host, now_ns: host.include("b", now_ns=now_ns))
    answers: list[bytes] = []

    class Seen(Checker):
        def arrived(self, packet: Packet) -> str | None:
            if packet.source.name == "b" and ACKNACK in packet.data[20:60]:
                answers.append(packet.data)
            return None

    site.world.watch(Seen())
    for is_reliable in (True, False):
        site.nodes["a"].do(partial(send_both, is_reliable))
    site.world.run_for(SECOND)
    assert site.checker.counts["b"] == 0
    assert answers == []
    (row,) = site.nodes["b"].machine.statistics().peers
    assert row.received_packet_count > 4, "it counts as received from"
    site.nodes["b"].do(lambda host, now_ns: host.include("a", now_ns=now_ns))
    site.world.run_for(SECOND)
    assert answers, "what is not lost arrives once it is included"
    assert site.checker.counts["b"] == 2


def send_both(is_reliable: bool, host: LinkHost, now_ns: int) -> None:
    """Send a message to all nodes, and one to b."""
    assert host.send_all(now_ns, is_reliable=is_reliable)
    assert host.send_to("b", now_ns, is_reliable=is_reliable)


def test_fs_08_loss_duplicates_and_reordering() -> None:
    site = Site("a", "b", "c", "d")
    site.include_all()
    for fault in (Loss(0.1), Duplication(0.05), Reordering(0.05)):
        site.world.inject(fault)
    count = 10_000
    for name in site.nodes:
        site.flood(name, count)
    site.world.run_until(
        lambda: all(site.all_have(name, count) for name in site.nodes), timeout_ns=300 * SECOND
    )


SMALL = LinkConfig(datagram_bytes=512, send_queue_packet_count=20)
"""Few packets in flight, so that a simulated second has thousands of packets and not more."""


def sent_in(site: Site, duration_ns: int) -> int:
    """How many messages of node a the receivers took in a duration."""
    before = site.checker.next.get(("b", "a", False), 0)
    site.world.run_for(duration_ns)
    return site.checker.next.get(("b", "a", False), 0) - before


@pytest.mark.slow
def test_fs_16_a_slow_receiver_does_not_slow_down_the_others_and_is_excluded() -> None:
    rates = {}
    for has_slow in (False, True):
        site = Site("a", "b", "c", "d", "e", "f", config=SMALL)
        site.include_all()
        if has_slow:
            # One in a hundred of what a sends.
            slow = RateLimit(bytes_per_s=30_000, queue_bytes_max=3_000)
            site.world.inject(slow.between(destinations=["f"]))
        site.flood("a", 10**9, gap_ns=5 * MS, size=400)
        rates[has_slow] = sent_in(site, 20 * SECOND)
        stalled = site.nodes["a"].machine.stalled
        if has_slow:
            assert {(one.node, one.reason) for one in stalled} <= {
                (105, StallReason.LAG),
                (105, StallReason.BACKLOG),
            }
            assert stalled
        else:
            assert stalled == []
    assert rates[True] >= 0.95 * rates[False], rates


@pytest.mark.slow
def test_fs_16_a_receiver_that_stops_again_and_again_does_not_slow_down_the_others() -> None:
    rates = {}
    for is_slow in (False, True):
        site = Site("a", "b", "c", config=SMALL)
        site.include_all()
        if is_slow:
            stop_regularly(site, "c", stopped_ns=600 * MS, taking_ns=200 * MS)
        site.flood("a", 10**9, gap_ns=10 * MS, size=400)
        rates[is_slow] = sent_in(site, 20 * SECOND)
        assert site.nodes["a"].machine.stalled == []
    assert rates[True] >= 0.9 * rates[False], rates


@pytest.mark.slow
def test_fs_16_receivers_that_hold_each_other_up_in_turns_do_not_lag() -> None:
    """Processes that share processors run in turns. None of them is slower than the others."""
    site = Site("a", "b", "c", "d", config=SMALL)
    site.include_all()
    for number, name in enumerate("bcd"):
        site.world.after(number * 100 * MS, partial(stop_and_take, site, name))
    site.flood("a", 10**9, gap_ns=10 * MS, size=400)
    for _ in range(300):
        site.world.run_for(100 * MS)
        link = site.nodes["a"].machine.link
        assert [row.lag_ns for row in link.statistics().peers] == [0, 0, 0]


def stop_and_take(site: Site, name: str, _argument: object) -> None:
    stop_regularly(site, name, stopped_ns=100 * MS, taking_ns=200 * MS)


def stop_regularly(site: Site, name: str, *, stopped_ns: int, taking_ns: int) -> None:
    """Let a node take no messages for a time, and then all that wait, again and again."""
    node = site.nodes[name]

    def resume() -> None:
        node.do(lambda host, now_ns: host.link.resume(now_ns))
        site.world.after(taking_ns, lambda _: stop())

    def stop() -> None:
        node.do(lambda host, _: host.link.pause())
        site.world.after(stopped_ns, lambda _: resume())

    stop()


@pytest.mark.slow
def test_fs_17_a_slow_receiver_that_recovers_catches_up() -> None:
    site = Site("a", "b", "c", config=SMALL)
    site.include_all()
    slow = RateLimit(bytes_per_s=30_000, queue_bytes_max=3_000).between(destinations=["c"])
    site.world.inject(slow)
    site.flood("a", 12_000, gap_ns=5 * MS, size=400)
    site.world.run_for(4 * SECOND)
    (row,) = [row for row in site.nodes["a"].machine.statistics().peers if row.node == 102]
    assert row.lag_ns > 0
    assert row.backlog_bytes > 0
    slow.stop(site.world)
    site.world.run_until(lambda: site.all_have("a", 12_000))
    site.world.run_for(SECOND)
    (row,) = [row for row in site.nodes["a"].machine.statistics().peers if row.node == 102]
    assert (row.lag_ns, row.backlog_bytes) == (0, 0)
    assert site.nodes["a"].machine.stalled == []


def test_fs_09_a_long_message_with_loss_resends_only_what_is_missing() -> None:
    site = Site("a", "b")
    site.include_all()
    site.world.inject(Loss(0.03))
    size = 5_000_000
    site.nodes["a"].do(lambda host, now_ns: host.send_all(now_ns, size=size))
    sender, receiver = (site.nodes[name].machine for name in "ab")
    # The host has more to send, which waits in a queue with a limit.
    site.flood("a", 1000, size=1000)
    kept_count = waiting_bytes = 0
    while not site.all_have("a", 1001):
        site.world.run_for(10 * MS)
        kept_count = max(kept_count, sender.statistics().queued_packet_count)
        waiting_bytes = max(waiting_bytes, receiver.link.waiting_bytes(100))
        assert site.world.now_ns < 60 * SECOND
    (row,) = site.nodes["a"].machine.statistics().peers
    config = LinkConfig()
    packet_count = (size + 1000 * 1000) // config.fragment_bytes
    long_count = size // config.fragment_bytes + 1
    assert long_count <= kept_count <= long_count + config.send_queue_packet_count
    assert 0.9 * size < waiting_bytes <= size + SERVER.window_packet_count * config.datagram_bytes
    # Those that were lost, some of them twice, and some whose acknowledgement was.
    assert 0.02 * packet_count < row.retransmission_count < 0.06 * packet_count
    assert row.sent_packet_count < 1.2 * packet_count


def test_fs_10_a_fragment_that_never_arrives_by_multicast_is_repaired_by_unicast() -> None:
    site = Site("a", "b", "c")
    site.include_all()

    def is_third(packet: Packet) -> bool:
        at = packet.data.find(b"\x16\x01")
        return packet.kind == MULTICAST and packet.data[at + 24 : at + 28] == b"\x03\0\0\0"

    site.world.inject(LoseIf(is_third).between(destinations=["c"]))
    site.nodes["a"].do(lambda host, now_ns: host.send_all(now_ns, size=100_000))
    site.world.run_until(lambda: site.all_have("a", 1))
    rows = {row.node: row for row in site.nodes["a"].machine.statistics().peers}
    assert (rows[101].retransmission_count, rows[102].retransmission_count) == (0, 1)


def test_fs_11_a_lost_last_packet_is_repaired_within_the_first_retry_timeout() -> None:
    site = Site("a", "b", "c")
    site.include_all()
    site.world.run_for(SECOND)
    lost = LoseIf(lambda packet: packet.kind == MULTICAST and len(packet.data) > 100)
    site.world.inject(lost)
    site.nodes["a"].do(lambda host, now_ns: host.send_all(now_ns))
    site.world.run_until(lambda: site.all_have("a", 1), timeout_ns=32 * MS)


def test_fs_12_without_acknowledgements_the_intervals_follow_the_retry_timeouts() -> None:
    site = Site("a", "b")
    site.include_all()
    site.world.run_for(500 * MS)
    sent_ns: list[int] = []

    class Seen(Checker):
        def arrived(self, packet: Packet) -> str | None:
            if packet.destination.name == "b" and b"\x15\x05" in packet.data[20:60]:
                sent_ns.append(packet.sent_ns)
            return None

    site.world.watch(Seen())
    answered_ns: list[int] = []

    def is_answer(packet: Packet) -> bool:
        found = packet.source.name == "b" and ACKNACK in packet.data[20:60]
        if found:
            answered_ns.append(packet.sent_ns)
        return found

    cut = LoseIf(is_answer)
    site.world.inject(cut)
    site.nodes["a"].do(lambda host, now_ns: host.send_all(now_ns))
    site.world.run_for(SECOND)
    repeated_ns = {at_ns + site.world.network.latency_ns for at_ns in sent_ns[1:]}
    assert repeated_ns <= set(answered_ns), "duplicates are acknowledged at once"
    gaps_ms = [round((after - before) / MS) for before, after in pairwise(sent_ns)]
    assert gaps_ms[0] == 20
    assert set(gaps_ms[1:]) == {80}
    cut.stop(site.world)
    site.world.run_for(200 * MS)
    count = len(sent_ns)
    site.world.run_for(SECOND)
    assert len(sent_ns) == count, "it is acknowledged at last"
    assert site.checker.counts["b"] == 1, "delivered once"
    (row,) = site.nodes["b"].machine.statistics().peers
    assert row.duplicate_count == count - 1


def test_fs_13_a_full_queue_refuses_and_reports_once_that_there_is_room() -> None:
    # Each packet is acknowledged, so that the queue becomes shorter by one at a time.
    server = replace(SERVER, window_packet_count=2, ack_request_threshold=1)
    site = Site(
        "a",
        "b",
        config=LinkConfig(send_queue_packet_count=10),
        server=server,
        types=NodeTypes([server, FIELD]),
    )
    queued: list[int] = []

    class Seen(Checker):
        def observed(self, node: Any, event: MachineEvent) -> str | None:
            if isinstance(event, NotFull):
                queued.append(node.machine.statistics().queued_packet_count)
            return None

    site.world.watch(Seen())
    site.include_all()
    site.world.run_for(100 * MS)
    cut = Partition(sources=["b"], destinations=["a"])
    site.world.inject(cut)
    node = site.nodes["a"]

    def fill(host: LinkHost, now_ns: int) -> int:
        count = 0
        while host.send_all(now_ns, size=1000):
            count += 1
        return count

    assert 10 <= node.do(fill) <= 12
    assert not node.do(lambda host, now_ns: host.send_all(now_ns))
    assert [event for event in node.events if isinstance(event, NotFull)] == []
    cut.stop(site.world)
    site.world.run_for(SECOND)
    assert [event for event in node.events if isinstance(event, NotFull)] == [
        NotFull(node_type="server", node=0)
    ]
    assert 3 <= queued[0] <= 5, "at half of the queue, not when it is empty"
    site.world.run_for(SECOND)
    assert site.all_have("a", node.machine.sent["server"])
    assert node.machine.statistics().refused_message_count == 2


def test_fs_14_unacknowledged_messages_without_room_are_dropped_and_counted() -> None:
    site = Site("a", "b", config=LinkConfig(send_queue_packet_count=10))
    site.include_all()

    def flood(host: LinkHost, now_ns: int) -> None:
        for _ in range(50):
            assert host.send_all(now_ns, size=1000, is_reliable=False)

    site.nodes["a"].do(flood)
    site.world.run_for(SECOND)
    statistics = site.nodes["a"].machine.statistics()
    assert statistics.dropped_message_count + site.checker.counts["b"] == 50
    assert site.checker.counts["b"] in (10, 11)


def test_fs_15_a_host_that_takes_nothing_for_two_seconds_is_waited_for() -> None:
    site = Site("a", "b", "c")
    site.include_all()
    site.world.run_for(100 * MS)
    site.nodes["b"].do(lambda host, _: host.link.pause())
    site.flood("a", 5000, size=300)
    site.flood("b", 2000, size=300)
    site.world.run_for(2 * SECOND)
    assert site.checker.counts["b"] == 0
    assert site.checker.next["c", "b", False] == 2000, "its own sending goes on"
    (row,) = [row for row in site.nodes["c"].machine.statistics().peers if row.node == 101]
    assert site.nodes["c"].now_ns - (row.received_ns or 0) < 1100 * MS, "so do its keep-alives"
    incoming = site.nodes["b"].machine.link
    assert sum(map(incoming.waiting_bytes, (100, 102))) <= 21 * 1450
    site.nodes["b"].do(lambda host, now_ns: host.link.resume(now_ns))
    site.world.run_until(lambda: site.all_have("a", 5000))
    assert [node.machine.stalled for node in site.nodes.values()] == [[], [], []]


@pytest.mark.slow
def test_fs_18_a_node_that_is_included_in_the_middle_starts_at_its_welcome() -> None:
    site = Site("a", "b", "c")
    a, b, c = site.nodes["a"], site.nodes["b"], site.nodes["c"]
    a.do(lambda host, now_ns: host.include("b", now_ns=now_ns))
    b.do(lambda host, now_ns: host.include("a", now_ns=now_ns))
    count = 100_000
    site.flood("a", count, size=300)
    site.world.run_for(200 * MS)
    number = a.machine.sent["server"]
    assert 10_000 < number < 90_000
    a.do(lambda host, now_ns: host.include("c", now_ns=now_ns))
    site.world.run_for(3 * MS)
    assert ("c", "a", False) not in site.checker.next
    c.do(lambda host, now_ns: host.include("a", now_ns=now_ns))
    site.world.run_until(lambda: site.all_have("a", count))
    first = next(event.numbers[0] for event in c.events if isinstance(event, LinkDelivered))
    assert first == number, "nothing from before its inclusion, and all from there on"


def test_fs_19_a_lost_welcome_is_repeated_and_nothing_is_delivered_before() -> None:
    site = Site("a", "b")
    welcome_count = 0

    def is_welcome(packet: Packet) -> bool:
        nonlocal welcome_count
        found = packet.source.name == "a" and packet.data[36:37] == b"\x08"
        welcome_count += found
        return found and welcome_count <= 10

    site.world.inject(LoseIf(is_welcome))
    site.include_all()
    site.flood("a", 500)
    while welcome_count <= 10:
        assert site.checker.counts["b"] == 0
        site.world.run_for(10 * MS)
    site.world.run_until(lambda: site.all_have("a", 500))


def test_fs_20_nodes_that_are_reached_by_unicast_never_receive_multicast() -> None:
    site = Site("a", "b", fields=("c", "d"))
    kinds: dict[str, set[str]] = defaultdict(set)

    class Seen(Checker):
        def arrived(self, packet: Packet) -> str | None:
            kinds[packet.destination.name].add(packet.kind)
            return None

    site.world.watch(Seen())
    site.include_all()
    for name in site.nodes:
        site.flood(name, 300)
        site.flood(name, 300, type_name="field")
    site.world.run_for(2 * SECOND)
    for sender in site.nodes:
        for name in site.nodes:
            if name != sender:
                assert site.checker.next[name, sender, False] == 300
    assert kinds["c"] == kinds["d"] == {UNICAST}
    assert MULTICAST in kinds["a"]


def test_states_that_a_later_one_replaces_are_left_out_for_a_node_that_lags() -> None:
    site = Site("a", "b", "c", config=SMALL)
    site.include_all()
    slow = RateLimit(bytes_per_s=30_000, queue_bytes_max=3_000).between(destinations=["c"])
    site.world.inject(slow)
    node, keys = site.nodes["a"], 7
    last: dict[int, int] = {}

    def more() -> None:
        def send(host: LinkHost, now_ns: int) -> None:
            number = host.sent.get("server", 0)
            while number < 6000 and host.send_all(now_ns, size=300, key=number % keys):
                last[number % keys] = number
                number += 1

        node.do(send)
        if node.machine.sent["server"] < 6000:
            site.world.after(5 * MS, lambda _: more())

    site.checker.is_gapless = False
    more()
    backlogs = []
    for _ in range(40):
        site.world.run_for(100 * MS)
        (row,) = [row for row in node.machine.statistics().peers if row.node == 102]
        backlogs.append(row.backlog_bytes)
    assert 0 < max(backlogs) < 500_000, "of 2.5 MB"
    slow.stop(site.world)
    site.world.run_for(3 * SECOND)
    numbers = [
        n
        for event in site.nodes["c"].events
        if isinstance(event, LinkDelivered)
        for n in event.numbers
    ]
    assert numbers == sorted(set(numbers))
    assert len(numbers) < 4000
    assert set(last.values()) <= set(numbers), "the last state of each key arrives"


def test_a_thousand_random_datagrams_do_no_harm() -> None:
    site = Site("a", "b")
    site.include_all()
    site.flood("a", 100)
    rng = Random(7)
    captured: list[bytes] = []

    class Seen(Checker):
        def arrived(self, packet: Packet) -> str | None:
            captured.append(packet.data)
            return None

    site.world.watch(Seen())
    site.world.run_for(SECOND)
    receiver = site.nodes["b"]
    for _ in range(3000):
        data = bytearray(rng.choice(captured))
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        del data[rng.randrange(len(data) + 1) :]
        if rng.random() < 0.5 and len(data) > 28:
            # With a right checksum, what is behind the header is read.
            data = data[:-8] + b"\xf0\x01\x04\0"
            data += crc32(bytes(data)).to_bytes(4, "little")
        receiver.do(partial(_receive, bytes(data)))
    assert site.checker.counts["b"] == 100
    assert sum(receiver.machine.statistics().drops.values()) > 0


def _receive(data: bytes, host: LinkHost, now_ns: int) -> None:
    host.receive(data, Address("a", 1), now_ns)


def test_a_receiver_that_was_removed_delivers_nothing_behind_what_was_dropped_with_it() -> None:
    """It still receives from the group, and must not take what comes later for the next."""
    site = Site("a", "b", "c")
    a, b = site.nodes["a"], site.nodes["b"]
    a.do(lambda host, now_ns: host.include("b", now_ns=now_ns))
    b.do(lambda host, now_ns: host.include("a", now_ns=now_ns))
    site.world.run_for(100 * MS)

    def send_and_exclude(host: LinkHost, now_ns: int) -> None:
        host.send_all(now_ns)
        host.link.take_transmits()
        host.send_all(now_ns)
        host.link.exclude(101, now_ns)
        host.send_all(now_ns)
        host.include("c", now_ns=now_ns)
        host.send_all(now_ns)

    # The first message leaves at once, the second one waits, the third one has no receiver.
    site.checker.is_gapless = True
    a.do(send_and_exclude)
    site.world.run_for(SECOND)
    assert site.checker.counts["b"] <= 1


LIGHT = NodeType(name="light", light=True, may_form_system=False)


def include_again(name: str, node_type: NodeType, host: LinkHost, now_ns: int) -> None:
    """Exclude a node, and include it at once."""
    node = host.nodes[name]
    host.link.exclude(node, now_ns)
    host.link.meet(node, node_type, Address(name, DATA_PORT))
    host.link.include(node, now_ns)


@pytest.mark.parametrize("has_noticed", [False, True])
def test_messages_of_a_light_node_that_is_included_again_arrive_once(has_noticed: bool) -> None:
    """The acknowledgements are lost, so it repeats its messages; it may have noticed or not."""
    types = NodeTypes([SERVER, FIELD, LIGHT])
    site = Site("b", fields=("a",), types=types, field=LIGHT)
    a, b = site.nodes["a"], site.nodes["b"]
    site.include_all()
    site.world.run_for(200 * MS)
    cut = Partition(sources=["b"], destinations=["a"])
    site.world.inject(cut)
    for _ in range(3):
        a.do(lambda host, now_ns: (host.send_all(now_ns), host.send_to("b", now_ns)))
    site.world.run_for(300 * MS)
    assert site.checker.counts["b"] == 6
    for node, other in ((b, "a"), (a, "b"))[: 1 + has_noticed]:
        node.do(partial(include_again, other, types.named("light" if other == "a" else "server")))
    cut.stop(site.world)
    for _ in range(3):
        a.do(lambda host, now_ns: (host.send_all(now_ns), host.send_to("b", now_ns)))
    site.world.run_for(2 * SECOND)
    assert site.checker.counts["b"] == 12
    assert a.machine.stalled == []
    assert b.machine.stalled == []
