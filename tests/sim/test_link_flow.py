"""Fragments, flow control and the transport: the tests of group-communication sections 9 to 11.

The link has no credits that are given back: what is in flight to a receiver is limited in packets
and in bytes, headers included, and each acknowledgement makes room. Where a test speaks of a credit
message, it is the acknowledgement; the request for credits is the request to acknowledge.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import NotFull, RecordsReceived
from skerry.protocol.machine import MachineEvent
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.testing.checkers import Checker
from skerry.testing.faults import LoseIf, Loss, Partition, RateLimit
from skerry.testing.packet import MULTICAST, Packet
from skerry.testing.world import MS, SECOND
from tests.sim.link import Site
from tests.sim.link_host import FIELD, SERVER, LinkDelivered, LinkHost

ACKNACK, DATA, FRAGMENT = b"\x06\x03", b"\x15\x05", b"\x16\x01"


def row_of(site: Site, name: str, node: int) -> Any:
    """What a node counts of another one."""
    return site.nodes[name].machine.link.peer_statistics(node)


def waiting(site: Site, name: str) -> int:
    """Bytes of all others that wait at a node."""
    link = site.nodes[name].machine.link
    return sum(link.waiting_bytes(node) for node in link.peers)


def kept(site: Site, name: str) -> int:
    """Bytes that a node keeps for all others."""
    streams = site.nodes[name].machine.link._streams()
    return sum(len(one.data) for stream in streams for one in stream._buffer.samples.values())


def send(size: int, host: LinkHost, now_ns: int) -> None:
    assert host.send_all(now_ns, size=size)


# -- section 9


@pytest.mark.parametrize("is_sized", [True, False], ids=["sized buffer", "buffer of 8 KiB"])
def test_gc_9_1_a_message_of_30000_bytes_through_a_small_buffer(is_sized: bool) -> None:
    """A message has four fragments of 8192 bytes. On real sockets, see tests/runtime."""
    site = Site("a", "b", config=LinkConfig(datagram_bytes=8192 + 128))
    site.include_all()
    site.world.run_for(100 * MS)
    buffer = RateLimit(bytes_per_s=100_000_000, queue_bytes_max=2_000_000 if is_sized else 8448)
    site.world.inject(buffer)
    for number in range(100):
        site.nodes["a"].do(partial(send, 30_000))
        site.world.run_until(lambda: site.all_have("a", number + 1))  # noqa: B023
    count = row_of(site, "a", 101).retransmission_count
    assert count == 0 if is_sized else count > 100


def test_gc_9_2_messages_of_100_kilobytes_of_two_senders_mixed_with_small_ones() -> None:
    """The content of each message is checked where it is received."""
    site = Site("a", "b", "c", config=LinkConfig(datagram_bytes=24_000 + 128))
    site.include_all()
    site.world.inject(Loss(0.01))
    left = {"a": 1000, "b": 1000}

    def more(name: str, _: Any = None) -> None:
        def act(host: LinkHost, now_ns: int) -> None:
            while left[name]:
                size = 100_000 if left[name] % 2 else 8 + left[name] % 50
                if not host.send_all(now_ns, size=size):
                    return
                left[name] -= 1

        site.nodes[name].do(act)
        if left[name]:
            site.world.after(MS, partial(more, name))

    for name in left:
        more(name)
    site.world.run_until(lambda: all(site.all_have(name, 1000) for name in left))


def test_gc_9_3_a_sender_is_killed_in_the_middle_of_a_message() -> None:
    site = Site("a", "b")
    site.include_all()
    site.world.run_for(100 * MS)
    site.nodes["a"].do(partial(send, 1_000_000))
    site.world.run_for(MS)
    assert waiting(site, "b") > 10_000
    site.world.crash(site.nodes["a"])
    site.nodes["b"].do(lambda host, now_ns: host.link.exclude(100, now_ns))
    assert waiting(site, "b") == 0
    assert site.nodes["b"].machine.link._input._incoming == {}


@pytest.mark.slow
def test_gc_9_4_a_message_of_100_megabytes_with_2_megabytes_in_flight() -> None:
    server = NodeType(
        name="server",
        multicast_control=SERVER.multicast_control,
        multicast_data=SERVER.multicast_data,
        window_packet_count=256,
        window_bytes=2_000_000,
    )
    config = LinkConfig(datagram_bytes=32_000, message_bytes_max=100_000_000)
    site = Site("a", "b", "c", server=server, types=NodeTypes([server, FIELD]), config=config)
    site.include_all()
    most = 0

    class InFlight(Checker):
        def safety(self, world: Any) -> str | None:
            nonlocal most
            readers = site.nodes["a"].machine.link._shared["server"].readers
            most = max(most, *(len(reader.flight) for reader in readers.values()), 0)
            return None

    site.world.watch(InFlight())
    site.nodes["a"].do(partial(send, 100_000_000))
    site.world.run_until(lambda: site.all_have("a", 1))
    assert 50 <= most <= 2_000_000 // 32_000


# -- section 10


class SlowHost(LinkHost):
    """A host that takes a millisecond for each message."""

    _busy_ns: int | None = None

    def take_events(self) -> Any:
        events = super().take_events()
        count = sum(len(event.numbers) for event in events if isinstance(event, LinkDelivered))
        if count:
            self.link.pause()
            self._busy_ns = self.link._now_ns + count * MS
        return events

    def deadline_ns(self) -> int | None:
        found = super().deadline_ns()
        if self._busy_ns is None:
            return found
        return self._busy_ns if found is None else min(found, self._busy_ns)

    def advance(self, now_ns: int) -> None:
        if self._busy_ns is not None and now_ns >= self._busy_ns:
            self._busy_ns = None
            self.link.resume(now_ns)
        super().advance(now_ns)


def test_gc_10_1_slow_receivers_that_send_to_each_other() -> None:
    site = Site("a", "b", host_class=SlowHost)
    site.include_all()
    count = 3000
    for name in site.nodes:
        site.flood(name, count, size=1000)
    most = 0
    started_ns = site.world.now_ns
    while not (site.all_have("a", count) and site.all_have("b", count)):
        site.world.run_for(50 * MS)
        most = max(most, waiting(site, "a"), waiting(site, "b"))
        assert site.world.now_ns < 30 * SECOND, "they do not wait for each other for ever"
        assert kept(site, "a") <= (LinkConfig().queue_packet_count + 5) * 1450
    assert 0 < most <= SERVER.window_packet_count * 1450
    rate = count * SECOND / (site.world.now_ns - started_ns)
    assert 500 < rate <= 1000, "as fast as the receivers take them"
    assert [node.machine.stalled for node in site.nodes.values()] == [[], []]


def test_gc_10_2_lost_acknowledgements_are_requested_again() -> None:
    site = Site("a", "b")
    site.include_all()
    site.world.run_for(100 * MS)
    count = 0

    def is_lost(packet: Packet) -> bool:
        nonlocal count
        is_ack = packet.source.name == "b" and ACKNACK in packet.data[20:60]
        count += is_ack
        return is_ack and count <= 3

    site.world.inject(LoseIf(is_lost))
    for _ in range(30):
        site.nodes["a"].do(partial(send, 1200))
    site.world.run_until(lambda: site.all_have("a", 30), timeout_ns=200 * MS)
    assert count > 3


def test_gc_10_3_exclusion_of_a_slow_member_ends_the_wait_of_the_sender() -> None:
    site = Site("a", "b", "c", config=LinkConfig(send_queue_packet_count=10))
    site.include_all()
    site.world.run_for(100 * MS)
    site.world.inject(Partition(sources=["c"], destinations=["a"]))
    a = site.nodes["a"]

    def fill(host: LinkHost, now_ns: int) -> None:
        while host.send_all(now_ns, size=1200):
            pass

    a.do(fill)
    site.world.run_for(200 * MS)
    assert [event for event in a.events if isinstance(event, NotFull)] == []
    a.do(lambda host, now_ns: host.link.exclude(102, now_ns))
    site.world.run_for(MS)
    assert [event for event in a.events if isinstance(event, NotFull)] == [
        NotFull(node_type="server", node=0)
    ]
    assert a.do(lambda host, now_ns: host.send_all(now_ns, size=1200))


def test_gc_10_4_a_member_that_leaves_and_rejoins_ten_times_leaves_nothing_behind() -> None:
    site = Site("a", "b", fields=("f",))
    site.include_all()

    def talk() -> None:
        for name in ("a", "b"):
            site.flood(name, 20, type_name="field", size=700)
        for name in ("f", "a"):
            site.flood(name, 20, size=700)
        site.nodes["a"].do(lambda host, now_ns: host.send_to("f", now_ns))
        site.nodes["a"].do(lambda host, now_ns: host.send_to("f", now_ns, is_reliable=False))
        site.nodes["f"].do(lambda host, now_ns: host.send_to("a", now_ns))

    for round_number in range(10):
        talk()
        site.world.run_for(SECOND if round_number % 2 else 2 * MS)
        for name, others in (("f", ("a", "b")), ("a", ("f",)), ("b", ("f",))):
            for other in others:
                site.nodes[name].do(partial(_return, other))
                site.checker.next = {
                    key: number for key, number in site.checker.next.items() if "f" not in key[:2]
                }
    talk()
    site.world.run_for(5 * SECOND)
    for name, node in site.nodes.items():
        link = node.machine.link
        known = {number for other, number in node.machine.nodes.items() if other != name}
        assert set(link.peers) == known
        readers = {one for stream in link._shared.values() for one in stream.readers}
        assert readers == known
        assert {key[0] for key in link._input._incoming} <= known
        assert len(link._input._incoming) <= 2 * len(known)
        assert len(link._single) <= 1
        assert len(link._single_best) <= 1
        assert len(link._by_index) == len(known)
        assert kept(site, name) == 0
        assert node.machine.stalled == []
    sent = site.nodes["a"].machine.sent
    assert site.checker.next["f", "a", False] == sent["field"]
    assert site.checker.next["f", "a", True] == sent["f"]


def _return(name: str, host: LinkHost, now_ns: int) -> None:
    """Exclude a node, and include it again as a light node that returns."""
    host.link.exclude(host.nodes[name], now_ns)
    host.meet(name)
    host.include(name, now_ns=now_ns)


def test_gc_10_5_and_11_1_100000_small_messages_as_fast_as_possible() -> None:
    """With all defaults, without loss: nothing is sent again and nothing is dropped. A datagram is
    as full as it can be: 18 messages of 56 bytes and 16 bytes of header each fit 1450 bytes."""
    site = Site("a", "b", "c")
    site.include_all()
    site.world.run_for(100 * MS)
    datagrams = 0

    class Sent(Checker):
        def arrived(self, packet: Packet) -> str | None:
            nonlocal datagrams
            is_data = packet.kind == MULTICAST and DATA in packet.data[20:60]
            datagrams += is_data and packet.destination.name == "b"
            return None

    site.world.watch(Sent())
    site.flood("a", 100_000, size=56)
    site.world.run_until(lambda: site.all_have("a", 100_000))
    statistics = site.nodes["a"].machine.statistics()
    assert [row.retransmission_count for row in statistics.peers] == [0, 0]
    assert statistics.dropped_message_count == 0
    assert [row_of(site, name, 100).duplicate_count for name in "bc"] == [0, 0]
    assert datagrams <= 100_000 / 17.9


def test_gc_11_1_datagrams_of_a_jumbo_frame_have_more_than_20_messages() -> None:
    site = Site("a", "b", config=LinkConfig(datagram_bytes=8900))
    site.include_all()
    site.world.run_for(100 * MS)
    before = row_of(site, "a", 101).sent_packet_count
    site.flood("a", 100_000, size=56)
    site.world.run_until(lambda: site.all_have("a", 100_000))
    assert row_of(site, "a", 101).sent_packet_count - before <= 100_000 / 20


def test_gc_11_1_a_message_on_an_idle_system_leaves_at_once() -> None:
    site = Site("a", "b")
    site.include_all()
    site.world.run_for(SECOND)
    site.nodes["a"].do(partial(send, 56))
    # The latency of the simulated network alone.
    site.world.run_until(lambda: site.all_have("a", 1), timeout_ns=site.world.network.latency_ns)


@pytest.mark.parametrize("size", [56, 5000], ids=["whole", "fragments"])
def test_gc_11_2_what_is_sent_five_times_is_the_same_each_time(size: int) -> None:
    site = Site("a", "b")
    site.include_all()
    site.world.run_for(100 * MS)
    parts: dict[int, set[bytes]] = {}
    counts: dict[int, int] = {}

    class Seen(Checker):
        def arrived(self, packet: Packet) -> str | None:
            data = packet.data
            part = DATA if size < 1000 else FRAGMENT
            at = data.find(part, 20, 60)
            if packet.source.name != "a" or at < 0:
                return None
            length = int.from_bytes(data[at + 2 : at + 4], "little") + 4
            number = int.from_bytes(data[at + 24 : at + 28], "little") if size > 1000 else 0
            parts.setdefault(number, set()).add(data[at : at + length])
            counts[number] = counts.get(number, 0) + 1
            kinds = kinds_of(data)
            assert len(kinds) == len(set(kinds)), f"{kinds}: each part is there once"
            return None

    site.world.watch(Seen())
    site.world.inject(Partition(sources=["b"], destinations=["a"]))
    site.nodes["a"].do(partial(send, size))
    site.world.run_for(SECOND)
    assert min(counts.values()) >= 5
    assert {len(found) for found in parts.values()} == {1}
    assert len(parts) == (1 if size < 1000 else 4)


def kinds_of(data: bytes) -> list[int]:
    """The kinds of the submessages in a datagram."""
    kinds, at = [], 20
    while at < len(data):
        kinds.append(data[at])
        at += 4 + int.from_bytes(data[at + 2 : at + 4], "little")
    return kinds


class RawHost(LinkHost):
    """A host whose messages have no number."""

    found: list[bytes] = []  # noqa: RUF012 - replaced, never changed

    def take_events(self) -> list[MachineEvent]:
        events = self.link.take_events()
        received = [event for event in events if isinstance(event, RecordsReceived)]
        self.found = [data for event in received for _, _, data in event.records] or self.found
        return []


@pytest.mark.parametrize("kind", ["all", "one", "best effort"])
def test_gc_11_3_the_buffer_of_the_caller_may_change_after_the_call(kind: str) -> None:
    site = Site("a", "b", host_class=RawHost)
    site.include_all()
    site.world.run_for(100 * MS)
    site.world.inject(LoseIf(first_of("b")))
    buffer = bytearray(b"before, and long enough")

    def act(host: LinkHost, now_ns: int) -> None:
        link, data = host.link, buffer
        if kind == "one":
            link.send_to(101, 7, data, now_ns)
        else:
            link.send_all(SERVER, 7, data, now_ns, is_reliable=kind == "all")
            if kind == "best effort":
                link.send_all(SERVER, 7, data, now_ns, is_reliable=False)
        buffer[:6] = b"after!"

    site.nodes["a"].do(act)
    buffer[:] = bytes(len(buffer))
    site.world.run_for(SECOND)
    receiver = site.nodes["b"].machine
    assert isinstance(receiver, RawHost)
    assert receiver.found[:1] == [b"before, and long enough"]


def first_of(name: str) -> Any:
    """The first datagram with a reliable sample to a node is lost, so that it is sent again."""
    count = 0

    def is_lost(packet: Packet) -> bool:
        nonlocal count
        if packet.destination.name != name or DATA not in packet.data[20:60]:
            return False
        at = packet.data.find(DATA, 20, 60)
        count += not packet.data[at + 12] & 1
        return count == 1 and not packet.data[at + 12] & 1

    return is_lost


def test_gc_11_4_a_node_whose_handler_blocks_for_two_seconds_loses_nothing() -> None:
    """Its sockets are drained meanwhile; on real ones, see tests/runtime/test_link_sockets.py."""
    site = Site("a", "b", "c")
    site.include_all()
    site.flood("a", 3000, size=500)
    site.world.run_for(5 * MS)
    site.world.pause(site.nodes["b"], 2 * SECOND)
    site.world.run_until(lambda: site.all_have("a", 3000))
    assert site.nodes["a"].machine.stalled == []


# -- what is sent again, and what waits for laggards


def test_gc_16_a_burst_of_lost_packets_is_repaired_without_waiting_for_ticks() -> None:
    """The receiver reports what is missing with each datagram that arrives, so that the repair goes
    at the pace of the answers. Only what is missing is sent again."""
    times_ns = []
    server = NodeType(
        name="server",
        multicast_control=SERVER.multicast_control,
        multicast_data=SERVER.multicast_data,
        window_packet_count=256,
        window_bytes=1_000_000,
        ack_request_threshold=32,
    )
    for lost_count in (0, 100):
        config = LinkConfig(send_queue_packet_count=1000)
        site = Site("a", "b", server=server, types=NodeTypes([server, FIELD]), config=config)
        site.include_all()
        site.world.run_for(100 * MS)
        count = 0

        def is_lost(packet: Packet) -> bool:
            nonlocal count
            is_data = packet.source.name == "a" and DATA in packet.data[20:60]
            count += is_data
            return is_data and 200 < count <= 200 + lost_count  # noqa: B023

        site.world.inject(LoseIf(is_lost))
        began_ns = site.world.now_ns
        site.flood("a", 1000, size=1200, gap_ns=MS)
        site.world.run_until(lambda: site.all_have("a", 1000))  # noqa: B023
        times_ns.append(site.world.now_ns - began_ns)
        assert row_of(site, "a", 101).retransmission_count == lost_count
    # The request to acknowledge is lost as well, and repeated after half a timeout.
    assert times_ns[1] - times_ns[0] < 15 * MS, "100 losses"


def test_no_more_than_a_window_is_sent_again_within_a_tick() -> None:
    site = Site("a", "b")
    site.include_all()
    site.world.run_for(100 * MS)
    site.world.inject(Partition(sources=["b"], destinations=["a"]))
    sent_ns: list[int] = []

    class Seen(Checker):
        def arrived(self, packet: Packet) -> str | None:
            if packet.destination.name == "b" and DATA in packet.data[20:60]:
                sent_ns.append(packet.sent_ns)
            return None

    site.world.watch(Seen())
    for _ in range(60):
        site.nodes["a"].do(partial(send, 1200))
    site.world.run_for(2 * SECOND)
    tick_ns = SERVER.retry_timeouts_ms[0] // 2 * MS
    per_tick: dict[int, int] = {}
    for at_ns in sent_ns:
        per_tick[at_ns // tick_ns] = per_tick.get(at_ns // tick_ns, 0) + 1
    assert max(per_tick.values()) <= SERVER.window_packet_count
    assert len(sent_ns) > 20 * SERVER.window_packet_count


def test_the_backlogs_of_several_laggards_refer_to_one_buffer() -> None:
    config = LinkConfig(datagram_bytes=512, send_queue_packet_count=20)
    site = Site("a", "b", "c", "d", config=config)
    site.include_all()
    site.world.run_for(100 * MS)
    for name in "cd":
        site.world.pause(site.nodes[name], 100 * SECOND)
    site.flood("a", 2000, size=400, gap_ns=2 * MS)
    site.world.run_until(lambda: site.checker.next.get(("b", "a", False)) == 2000)
    rows = [row_of(site, "a", node) for node in (102, 103)]
    backlogs = [row.backlog_bytes for row in rows]
    assert all(row.lag_ns > 0 for row in rows)
    assert min(backlogs) > 500_000
    assert kept(site, "a") < 1.1 * max(backlogs)
    for name in "cd":
        site.world.resume(site.nodes[name])
    site.world.run_until(lambda: site.all_have("a", 2000))
    site.world.run_for(SECOND)
    assert kept(site, "a") == 0
