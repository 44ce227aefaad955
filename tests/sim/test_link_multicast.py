"""Reliable multicast: the tests of group-communication sections 1, 5 and 7, and 14 for multicast.

The link acknowledges multicast within a fixed window, so it needs no votes about what is stable: a
sample is kept until each included receiver has acknowledged it, and exclusion releases the rest.
Messages are sent again by unicast only. Members do not agree on the last messages of a crashed
sender; what they need of its objects they get when the pools are compared. Multicast without
membership, where what cannot be recovered is reported, is that of the distributor.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import Delivered, UpdatesLost
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import StallReason
from skerry.protocol.machine import Address
from skerry.testing.checkers import Checker
from skerry.testing.faults import LoseIf, Loss, Partition
from skerry.testing.machines.system_site import SystemSite
from skerry.testing.node import Node, Setting
from skerry.testing.packet import MULTICAST, UNICAST, Packet
from skerry.testing.world import MS, SECOND, World
from tests.sim.distributor import GROUP, new_connection
from tests.sim.link import Site
from tests.sim.link_host import DATA_PORT, SERVER, LinkDelivered, LinkHost

DATA = b"\x15\x05"
TICK_NS = 80 * MS
"""The longest wait before a retransmission, with the usual retry timeouts."""


def is_data(packet: Packet, source: str = "a") -> bool:
    """Whether a packet has a sample of a node."""
    return packet.source.name == source and DATA in packet.data[20:60]


def kept_bytes(site: Site, name: str) -> int:
    """Bytes of the samples that a node keeps for those that have not acknowledged them."""
    shared = site.nodes[name].machine.link._shared["server"]
    return sum(len(sample.data) for sample in shared._buffer.samples.values())


def exclude(site: Site, name: str, *others: str) -> None:
    """Let a node exclude some others."""

    def act(host: LinkHost, now_ns: int) -> None:
        for other in others:
            host.link.exclude(host.nodes[other], now_ns)

    site.nodes[name].do(act)


def send(host: LinkHost, now_ns: int, size: int = 1200) -> None:
    assert host.send_all(now_ns, size=size)


# -- section 1


def test_gc_1_1_a_node_that_restarts_at_once_is_another_node() -> None:
    """It is known at once under its new id, and becomes a member when failure detection has removed
    its old self: a new member has to have received all that are alive in the picture."""
    site = SystemSite()
    for name in ("a", "b", "c"):
        site.add(name, seeds=("a",))
    site.form("a", "b", "c")
    old = site.id_of("c")
    site.send("c", "old")
    site.world.run_for(100 * MS)
    site.world.restart(site.nodes["c"], down_ns=90 * MS)
    site.world.run_for(100 * MS)
    new = site.id_of("c")
    assert new != old
    site.world.run_until(lambda: new in site.nodes["a"].machine.control.peers)
    for number in range(70):  # until the old one is dead, and the new one has joined
        site.send("a", f"number {number}")
        site.world.run_for(100 * MS)
        # Once the window of the dead one is full, the others wait for it during the grace.
        arrived = len(site.texts("b")["a"])
        assert arrived > number - SERVER.lag_grace_ms // 100 - 1
    assert site.agree("a", "b", "c")
    assert site.deaths("a") == site.deaths("b")
    assert [name for name, _ in site.deaths("a")] == ["c"]
    for name in ("a", "b", "c"):
        site.send(name, f"{name} to all")
    site.world.run_for(100 * MS)
    for name in ("a", "b"):
        assert [data for node, data in site.received(name) if node == old] == [b"old"]
        assert [data for node, data in site.received(name) if node == new] == [b"c to all"]
    first = site.texts("c")["a"][0]
    since = int(first.removeprefix("number "))
    assert site.texts("c")["a"] == [*(f"number {n}" for n in range(since, 70)), "a to all"]


def test_gc_1_3_answers_to_a_multicast_reach_only_its_sender() -> None:
    """On real sockets, see tests/runtime/test_link_sockets.py."""
    site = Site("a", "b", "c", "d", "e")
    got: Counter[tuple[str, str]] = Counter()

    class Seen(Checker):
        def arrived(self, packet: Packet) -> str | None:
            if packet.kind == UNICAST and b"\x06\x03" in packet.data[20:60]:
                got[packet.source.name, packet.destination.name] += 1
            return None

    site.include_all()
    site.world.run_for(SECOND)
    site.world.watch(Seen())
    site.flood("a", 10, size=1200)
    site.world.run_for(100 * MS)
    assert set(got) == {(name, "a") for name in "bcde"}


# -- section 5


@pytest.mark.parametrize("is_told", [True, False], ids=["heartbeat arrives", "heartbeat lost too"])
def test_gc_5_1_the_last_of_ten_messages_is_lost_and_the_sender_is_silent(is_told: bool) -> None:
    """The heartbeat is the request to acknowledge that the sender makes after half a timeout."""
    site = Site("a", "b", "c")
    site.include_all()
    site.world.run_for(100 * MS)
    count = 0

    def is_lost(packet: Packet) -> bool:
        nonlocal count
        if packet.source.name != "a" or packet.destination.name != "b":
            return False
        count += 1
        is_heartbeat = packet.kind == UNICAST and not is_data(packet)
        return count == 10 or (count == 11 and is_heartbeat and not is_told)

    site.world.inject(LoseIf(is_lost))
    for _ in range(10):
        site.nodes["a"].do(send)
        site.world.run_for(MS)
    site.world.run_until(lambda: site.all_have("a", 10), timeout_ns=2 * TICK_NS)
    assert count >= 11


@pytest.mark.slow
def test_gc_5_2_five_members_send_10000_messages_each_at_20_percent_loss() -> None:
    site = Site(*"abcde")
    site.include_all()
    site.world.inject(Loss(0.2))
    for name in site.nodes:
        site.flood(name, 10_000, size=56, gap_ns=5 * MS)
    site.world.run_until(
        lambda: all(site.all_have(name, 10_000) for name in site.nodes), timeout_ns=300 * SECOND
    )


def test_gc_5_3_a_sender_crashes_with_a_gap_open_at_one_receiver() -> None:
    """Nothing is requested of it, since acknowledgements answer datagrams. Its exclusion frees what
    has waited. The missing messages are not fetched from another member: see above."""
    site = Site("a", "b", "c")
    site.include_all()
    site.world.run_for(100 * MS)
    count = 0

    def is_third(packet: Packet) -> bool:
        nonlocal count
        if packet.destination.name != "b" or not is_data(packet):
            return False
        count += 1
        return count == 3

    site.world.inject(LoseIf(is_third))
    for _ in range(8):
        site.nodes["a"].do(send)
    site.world.run_for(150_000)
    site.world.crash(site.nodes["a"])
    site.world.run_for(100 * MS)
    assert site.checker.next["b", "a", False] == 2
    assert site.checker.next["c", "a", False] == 8
    b = site.nodes["b"].machine.link
    assert b.waiting_bytes(100) > 5 * 1200
    before = b.peer_statistics(100).sent_packet_count
    site.world.run_for(5 * SECOND)
    # The keep-alives of b are multicast, so that they are not counted here.
    assert b.peer_statistics(100).sent_packet_count == before
    exclude(site, "b", "a")
    assert b._input._incoming.keys() == {key for key in b._input._incoming if key[0] == 102}
    assert b.waiting_bytes(100) == 0


def test_gc_5_4_and_5_5_a_late_or_repeated_welcome_never_moves_a_stream_back() -> None:
    """The welcome is what tells a new receiver where a stream begins. Nothing from before it is
    delivered, everything after it, and nothing twice."""
    site = Site("a", "b", "c")
    for name, others in (("a", "b"), ("b", "a")):
        site.nodes[name].do(partial(include, others))
    site.flood("a", 50, size=1200)
    site.world.run_for(100 * MS)
    welcomes: list[bytes] = []

    class Seen(Checker):
        def arrived(self, packet: Packet) -> str | None:
            if packet.destination.name == "c" and packet.data[36:37] == b"\x08":
                welcomes.append(packet.data)
            return None

    site.world.watch(Seen())
    late = Partition(sources=["a"], destinations=["c"])
    site.world.inject(late)
    site.nodes["a"].do(partial(include, "c"))
    site.nodes["c"].do(partial(include, "a"))
    site.flood("a", 10, size=1200)
    site.world.run_for(200 * MS)
    late.stop(site.world)
    site.world.run_until(lambda: site.checker.next.get(("c", "a", False)) == 60)
    for data in welcomes:
        site.nodes["c"].do(partial(receive, data))
    site.flood("a", 40, size=1200)
    site.world.run_until(lambda: site.all_have("a", 100))
    first = next(e.numbers[0] for e in site.nodes["c"].events if isinstance(e, LinkDelivered))
    assert first == 50
    assert site.checker.counts["c"] == 50
    assert welcomes


def include(names: str, host: LinkHost, now_ns: int) -> None:
    host.include(*names, now_ns=now_ns)


def receive(data: bytes, host: LinkHost, now_ns: int) -> None:
    host.receive(data, Address("a", DATA_PORT), now_ns)


def test_gc_5_6_three_receivers_miss_the_same_message() -> None:
    """Each of them gets one copy by unicast, and the fourth none: what is sent again is never
    multicast, so that a receiver which lags behind does not load the others."""
    site = Site(*"abcde")
    site.include_all()
    site.world.run_for(100 * MS)
    count = 0
    copies: Counter[tuple[str, str]] = Counter()

    def is_first(packet: Packet) -> bool:
        nonlocal count
        if not is_data(packet):
            return False
        copies[packet.kind, packet.destination.name] += 1
        count += packet.kind == MULTICAST and packet.destination.name in "bcd"
        return packet.kind == MULTICAST and packet.destination.name in "bcd" and count <= 3

    site.world.inject(LoseIf(is_first))
    for _ in range(3):
        site.nodes["a"].do(send)
    site.world.run_until(lambda: site.all_have("a", 3), timeout_ns=TICK_NS)
    site.world.run_for(SECOND)
    assert {name: copies[UNICAST, name] for name in "bcde"} == {"b": 1, "c": 1, "d": 1, "e": 0}
    assert {copies[MULTICAST, name] for name in "bcde"} == {3}


@pytest.mark.parametrize("is_excluded", [True, False], ids=["excluded", "continued"])
def test_gc_5_7_the_window_is_full_because_a_member_is_stopped(is_excluded: bool) -> None:
    """It does not stop the others: after a grace it is served on its own."""
    config = LinkConfig(datagram_bytes=512, send_queue_packet_count=20)
    site = Site("a", "b", "c", config=config)
    site.include_all()
    site.world.run_for(100 * MS)
    site.world.pause(site.nodes["c"], 100 * SECOND)
    refused = site.nodes["a"].machine.statistics().refused_message_count
    site.flood("a", 4000, size=400, gap_ns=2 * MS)
    site.world.run_for(400 * MS)
    assert site.nodes["a"].machine.statistics().refused_message_count > refused, "a has to wait"
    assert kept_bytes(site, "a") < 25 * 512
    site.world.run_until(lambda: site.checker.next.get(("b", "a", False)) == 4000)
    backlog = kept_bytes(site, "a")
    assert 1_000_000 < backlog < 4000 * 512
    if is_excluded:
        site.world.run_until(lambda: bool(site.nodes["a"].machine.stalled))
        (stalled,) = site.nodes["a"].machine.stalled
        assert (stalled.node, stalled.reason) == (102, StallReason.LAG)
        exclude(site, "a", "c")
    else:
        site.world.resume(site.nodes["c"])
        site.world.run_until(lambda: site.all_have("a", 4000))
    site.world.run_for(SECOND)
    assert kept_bytes(site, "a") == 0


# -- section 7


def test_gc_7_1_nothing_is_freed_beyond_a_member_that_delivers_nothing() -> None:
    """Its exclusion frees everything at once; no round of votes is needed."""
    site = Site("a", "b", "c")
    site.include_all()
    site.world.run_for(100 * MS)
    site.nodes["c"].do(lambda host, _: host.link.pause())
    site.flood("a", 19, size=1200)
    site.world.run_for(300 * MS)
    assert site.checker.next["b", "a", False] == 19
    (reader,) = [
        one
        for node, one in site.nodes["a"].machine.link._shared["server"].readers.items()
        if node == 102
    ]
    assert reader.base_seq == reader.first_seq, "it has acknowledged nothing in order"
    cut = Partition(sources=["c"], destinations=["a"])
    site.world.inject(cut)
    site.flood("a", 19, size=1200)
    site.world.run_for(100 * MS)
    assert kept_bytes(site, "a") > 15 * 1200
    exclude(site, "a", "c")
    site.world.run_for(100 * MS)
    assert kept_bytes(site, "a") == 0
    assert site.checker.next["b", "a", False] == 38


@pytest.mark.slow
def test_gc_7_2_memory_is_bounded_while_100_megabytes_are_sent() -> None:
    """By the queue and the window of a receiver that lags for a moment, however fast they are."""
    config = LinkConfig(datagram_bytes=32_000, send_queue_packet_count=100)
    site = Site("a", "b", "c", config=config)
    site.include_all()
    site.world.inject(Loss(0.02))
    count, size = 3200, 31_250
    site.flood("a", count, size=size, gap_ns=2 * MS)
    most = 0
    while not site.all_have("a", count):
        site.world.run_for(20 * MS)
        most = max(most, kept_bytes(site, "a"))
    assert 0 < most <= (102 + SERVER.window_packet_count) * 32_000 < 4_000_000
    assert site.world.now_ns < 60 * SECOND


def test_gc_7_3_an_acknowledgement_from_before_an_exclusion_is_ignored() -> None:
    site = Site("a", "b", "c")
    acks: list[bytes] = []

    class Seen(Checker):
        def arrived(self, packet: Packet) -> str | None:
            if packet.source.name == "c" and packet.destination.name == "a":
                acks.append(packet.data)
            return None

    site.world.watch(Seen())
    site.include_all()
    site.flood("a", 30, size=1200)
    site.world.run_for(SECOND)
    exclude(site, "a", "c")
    exclude(site, "c", "a")
    site.nodes["a"].do(lambda host, _: host.meet("c"))
    site.nodes["a"].do(partial(include, "c"))
    cut = Partition(sources=["a"], destinations=["c"])
    site.world.inject(cut)
    site.flood("a", 5, size=1200)
    site.world.run_for(10 * MS)
    before = kept_bytes(site, "a")
    assert before > 5 * 1200
    for data in acks:
        site.nodes["a"].do(
            lambda host, now_ns: host.receive(data, Address("c", DATA_PORT), now_ns)  # noqa: B023
        )
    assert kept_bytes(site, "a") == before


# -- section 14, multicast: without membership it is that of the distributor


class _Group:
    """A publisher and a subscriber of the distributor."""

    def __init__(self, **fields: int) -> None:
        given = {"segment_bytes": 256, "request_timeout_ms": 100, "heartbeat_interval_ms": 300}
        self.config = DistributorConfig(**{**given, **fields})  # type: ignore[arg-type]
        self.world = World(1)

    def add(self, name: str, *, publishes: bool) -> Node[GroupConnection]:
        def make(setting: Setting) -> GroupConnection:
            connection = new_connection(setting, self.config, 1)
            if publishes:
                connection.open_publisher(setting.now_ns)
            else:
                connection.subscribe("/...", None, setting.now_ns)
            return connection

        return self.world.add(name, make, groups=[GROUP])

    @staticmethod
    def publish(node: Node[GroupConnection], *numbers: int) -> None:
        for number in numbers:
            updates = [(f"/{number}", b"x" * 150)]
            node.do(partial(_publish, updates))

    @staticmethod
    def received(node: Node[GroupConnection]) -> list[int]:
        found = [event for event in node.events if isinstance(event, Delivered)]
        return [int(subject[1:]) for event in found for subject, _ in event.batch]

    @staticmethod
    def lost(node: Node[GroupConnection]) -> list[UpdatesLost]:
        return [event for event in node.events if isinstance(event, UpdatesLost)]


def _publish(updates: list[tuple[str, bytes]], machine: GroupConnection, now_ns: int) -> None:
    assert machine.publish_many(updates, 0, now_ns) == len(updates)


def test_gc_14_1_a_receiver_that_starts_late_delivers_from_the_first_message_seen() -> None:
    group = _Group()
    sender = group.add("sender", publishes=True)
    group.publish(sender, 1, 2, 3)
    group.world.run_for(10 * SECOND)
    receiver = group.add("receiver", publishes=False)
    group.world.run_for(SECOND)
    group.publish(sender, 4, 5)
    group.world.run_for(SECOND)
    assert group.received(receiver) == [4, 5]
    assert group.lost(receiver) == []


def test_gc_14_2_a_sender_of_a_group_crashes_with_an_open_gap() -> None:
    """The requests stop after the last try, and the loss is reported in its place."""
    group = _Group(request_retry_count_max=5)
    sender = group.add("sender", publishes=True)
    receiver = group.add("receiver", publishes=False)
    group.world.run_for(SECOND)
    group.publish(sender, 1)
    group.world.run_for(100 * MS)
    lost = Loss(1.0).between(sources=["sender"])
    group.world.inject(lost)
    group.publish(sender, 2)
    group.world.run_for(MS)
    lost.stop(group.world)
    group.publish(sender, 3)
    group.world.run_for(MS)
    group.world.crash(sender)
    group.world.run_for(20 * SECOND)
    requests = receiver.machine.statistics().requests_sent_count
    assert 1 <= requests <= 6
    group.world.run_for(60 * SECOND)
    assert receiver.machine.statistics().requests_sent_count == requests
    (loss,) = group.lost(receiver)
    assert loss.stop_seq - loss.first_seq == 1
    assert group.received(receiver) == [1, 3], "delivery continues behind the gap"


def test_gc_14_3_a_sender_of_a_group_that_was_silent_for_long_is_received_again() -> None:
    group = _Group()
    sender = group.add("sender", publishes=True)
    receiver = group.add("receiver", publishes=False)
    group.world.run_for(SECOND)
    group.publish(sender, 1, 2)
    group.world.run_for(SECOND)
    cut = Partition(sources=["sender"], destinations=["receiver"])
    group.world.inject(cut)
    group.world.run_for(60 * SECOND)  # the sender is forgotten long before
    assert receiver.machine.statistics().sender_count == 0
    cut.stop(group.world)
    group.world.run_for(SECOND)
    group.publish(sender, 3, 4)
    group.world.run_for(SECOND)
    assert group.received(receiver) == [1, 2, 3, 4]


def test_gc_14_4_a_message_that_the_sender_has_dropped_is_reported_and_not_awaited() -> None:
    group = _Group(cache_bytes_max=500)
    sender = group.add("sender", publishes=True)
    receiver = group.add("receiver", publishes=False)
    group.world.run_for(SECOND)
    group.publish(sender, 1)
    group.world.run_for(100 * MS)
    cut = Partition(sources=["sender"], destinations=["receiver"])
    group.world.inject(cut)
    group.publish(sender, *range(2, 20))
    group.world.run_for(5 * SECOND)
    cut.stop(group.world)
    group.publish(sender, 20)
    group.world.run_for(10 * SECOND)
    requests = receiver.machine.statistics().requests_sent_count
    assert group.lost(receiver)
    received = group.received(receiver)
    assert (received[0], received[-1]) == (1, 20)
    assert received == sorted(set(received))
    group.publish(sender, 21)
    group.world.run_for(10 * SECOND)
    assert group.received(receiver)[-1] == 21
    assert receiver.machine.statistics().requests_sent_count == requests
