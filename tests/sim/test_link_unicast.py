"""Reliable unicast: the tests of group-communication section 4, and of section 14 for unicast.

Where a test speaks of a member, the streams are those of `Link`, whose nodes are included; without
membership they are those of `DirectLink`. An acknowledgement states all that was received, and a
heartbeat what the sender still keeps, so that no message asks for the first one: the next heartbeat
of a stream tells a receiver that has forgotten it where to continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.direct_link import DirectClosed, DirectConfig, DirectEnd
from skerry.protocol.link.events import MessagesMissed, NotFull
from skerry.protocol.link.stream_places import STREAM_PLACE_COUNT_MAX, StreamPlaces
from skerry.protocol.machine import Address
from skerry.testing.checkers import Checker
from skerry.testing.faults import Duplication, LoseIf, Loss, Partition, Reordering
from skerry.testing.packet import Packet
from skerry.testing.world import MS, SECOND
from tests.sim.direct import PORT, DirectHost, DirectSite
from tests.sim.link import Site
from tests.sim.link_host import DATA_PORT, LinkHost

ACKNACK = b"\x06\x03"
DATA = b"\x15\x05"
TICK_NS = 80 * MS
"""The longest wait before a retransmission to a member, with the usual retry timeouts."""
QUICK = DirectConfig(idle_ms=1000, close_ms=3000)


def has(part: bytes, packet: Packet) -> bool:
    """Whether a datagram has a submessage; the first one follows the destination and the time."""
    return part in packet.data[20:60]


def sample_of(packet: Packet) -> int:
    """The number of the sample in a datagram to one node; 0 if there is none."""
    at = packet.data.find(DATA, 20, 60)
    return int.from_bytes(packet.data[at + 20 : at + 24], "little") if at > 0 else 0


class Lost:
    """Loses the datagrams with these numbers, of those with a part from one node."""

    def __init__(self, source: str, numbers: Iterable[int], part: bytes = DATA) -> None:
        self.count = 0
        self._source, self._numbers, self._part = source, set(numbers), part

    def __call__(self, packet: Packet) -> bool:
        if packet.source.name != self._source or not has(self._part, packet):
            return False
        self.count += 1
        return self.count - 1 in self._numbers


def send_to(host: LinkHost, now_ns: int) -> None:
    assert host.send_to("b", now_ns, size=1200)


def got(site: Site, count: int) -> Callable[[], bool]:
    """Whether b has so many messages of a to it alone. The site checks that they are in order."""
    return lambda: site.checker.next.get(("b", "a", True)) == count


@pytest.mark.parametrize("lost", [(0,), (9,), (0, 9)], ids=["first", "last", "first and last"])
def test_gc_4_1_the_first_and_the_last_message_are_lost(lost: tuple[int, ...]) -> None:
    site = Site("a", "b")
    site.include_all()
    site.world.run_for(100 * MS)
    site.world.inject(LoseIf(Lost("a", lost)))
    for _ in range(10):
        site.nodes["a"].do(send_to)
        site.world.run_for(MS)
    site.world.run_until(got(site, 10), timeout_ns=3 * TICK_NS)


def test_gc_4_2_all_acknowledgements_are_lost_for_two_seconds() -> None:
    site = Site("a", "b")
    site.include_all()
    site.world.run_for(100 * MS)
    cut = LoseIf(lambda packet: packet.source.name == "b" and has(ACKNACK, packet))
    site.world.inject(cut)
    for _ in range(10):
        site.nodes["a"].do(send_to)
        site.world.run_for(MS)
    site.world.run_for(2 * SECOND)
    assert got(site, 10)(), "each is delivered once, which the site checks"
    cut.stop(site.world)
    site.world.run_for(2 * TICK_NS)
    (row,) = site.nodes["a"].machine.statistics().peers
    site.world.run_for(10 * SECOND)
    (after,) = site.nodes["a"].machine.statistics().peers
    assert after.retransmission_count == row.retransmission_count > 100
    assert site.nodes["a"].machine.stalled == []


def close(name: str) -> Callable[[DirectHost, int], None]:
    return lambda host, now_ns: host.link.close(host.nodes[name], now_ns)


def release(name: str) -> Callable[[DirectHost, int], bool]:
    return lambda host, now_ns: host.link.release(host.nodes[name], now_ns)


@pytest.mark.parametrize(
    ("ends_sender", "ends_receiver"), [(True, False), (False, True), (True, True)]
)
def test_gc_4_3_one_side_or_both_close_and_the_next_messages_arrive(
    ends_sender: bool, ends_receiver: bool
) -> None:
    site = DirectSite("a", "b")
    site.send("a", "b", 10)
    site.world.run_for(SECOND)
    if ends_sender:
        site.nodes["a"].do(close("b"))
    if ends_receiver:
        site.nodes["b"].do(close("a"))
    site.send("a", "b", 10)
    site.world.run_until(lambda: site.has("b", "a", 20), timeout_ns=SECOND)
    assert [node.machine.closed for node in site.nodes.values()] == [[], []]


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_gc_4_3_the_receiver_forgets_the_stream_while_100_messages_are_in_flight(
    loss: float,
) -> None:
    """It forgets only when nothing waits behind a gap, since that has been acknowledged."""
    site = DirectSite("a", "b", config=DirectConfig(window_packet_count=100))
    if loss:
        site.world.inject(Loss(loss))
        site.world.inject(Reordering(loss))
    count, released = 3000, 0
    site.flood("a", "b", count, size=1200)
    while not site.has("b", "a", count):
        site.world.run_for(200_000)
        if site.nodes["b"].machine.link.connected:
            released += bool(site.nodes["b"].do(release("a")))
    assert released > 20
    assert site.nodes["a"].machine.closed == site.nodes["b"].machine.closed == []


def test_gc_4_3_the_sender_opens_again_and_the_first_message_is_lost() -> None:
    site = DirectSite("a", "b")
    site.send("a", "b", 5, size=1200)
    site.world.run_for(SECOND)
    site.nodes["a"].do(close("b"))
    site.world.inject(LoseIf(Lost("a", [0])))
    site.send("a", "b", 5, size=1200)
    site.world.run_until(lambda: site.has("b", "a", 10), timeout_ns=SECOND)


def test_gc_4_3_a_receiver_that_keeps_no_place_continues_with_what_the_sender_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The agreement on the next number after the place of the stream was dropped as well."""
    monkeypatch.setattr("skerry.protocol.link.stream_places.STREAM_PLACE_COUNT_MAX", 0)
    for used in (3, 300):  # The next number is inside the window of a new stream, or beyond it.
        site = DirectSite("a", "b")
        site.flood("a", "b", used, size=1200)
        site.world.run_until(lambda: site.has("b", "a", used))  # noqa: B023
        site.world.run_for(SECOND)
        assert site.nodes["b"].do(release("a"))
        site.flood("a", "b", 200, size=1200)
        site.world.run_until(lambda: site.has("b", "a", used + 200))  # noqa: B023
        (row,) = site.nodes["a"].machine.statistics().peers
        assert row.retransmission_count <= 64


def test_places_are_bounded() -> None:
    class Stream:
        def __init__(self, number: int) -> None:
            self.peer, self.writer = self, 7
            self.node, self.place, self.is_lost = number, (number, number), False

    places = StreamPlaces()
    for number in range(STREAM_PLACE_COUNT_MAX + 10):
        places.note(Stream(number))  # type: ignore[arg-type]
    assert len(places) == STREAM_PLACE_COUNT_MAX
    first: Any = Stream(0)
    first.place = 1, 0
    places.restore(first)
    assert first.place == (1, STREAM_PLACE_COUNT_MAX + 9), "its count is above all others"


class Captured(Checker):
    """Keeps the acknowledgements of one node."""

    def __init__(self, source: str) -> None:
        self.found: list[bytes] = []
        self._source = source

    def arrived(self, packet: Packet) -> str | None:
        if packet.source.name == self._source and has(ACKNACK, packet):
            self.found.append(packet.data)
        return None


@pytest.mark.parametrize("is_new", [False, True], ids=["same stream", "new stream"])
def test_gc_4_4_a_delayed_acknowledgement_of_the_old_connection_frees_nothing(
    is_new: bool,
) -> None:
    """An acknowledgement names its stream, and has a count that rises also if the receiver has
    forgotten the stream in between."""
    site = DirectSite("a", "b")
    captured = Captured("b")
    site.world.watch(captured)
    site.flood("a", "b", 50, size=1200)
    site.world.run_until(lambda: site.has("b", "a", 50))
    site.world.run_for(SECOND)
    late = captured.found[-1]
    if is_new:
        site.nodes["a"].do(close("b"))
    site.nodes["b"].do(release("a"))
    cut = Partition(sources=["a"], destinations=["b"])
    site.send("a", "b", 1, size=1200)
    site.world.run_for(SECOND)
    site.world.inject(cut)
    site.send("a", "b", 60, size=1200)
    site.world.run_for(10 * MS)
    before = site.nodes["a"].machine.statistics().queued_packet_count
    for data in (late, captured.found[0]):
        site.nodes["a"].do(
            lambda host, now_ns: host.receive(data, Address("b", PORT), now_ns)  # noqa: B023
        )
    assert site.nodes["a"].machine.statistics().queued_packet_count == before >= 60
    cut.stop(site.world)
    site.world.run_until(lambda: site.has("b", "a", 111))


@pytest.mark.parametrize(
    ("config", "most_ns"),
    [
        (DirectConfig(close_ms=3000), 3 * SECOND),
        (DirectConfig(close_ms=60_000, try_count_max=10), 5 * SECOND),
    ],
    ids=["time", "count"],
)
def test_gc_4_5_and_14_5_a_receiver_that_is_gone_is_given_up_and_one_that_returns_begins_anew(
    config: DirectConfig, most_ns: int
) -> None:
    """Section 14, test 5, as well: a receiver of unicast crashes."""
    site = DirectSite("a", "b", config=config)
    site.send("a", "b", 3)
    site.world.run_for(SECOND)
    a = site.nodes["a"]
    cut = [Partition(sources=["a"], destinations=["b"]), Partition(sources=["b"], destinations="a")]
    for one in cut:
        site.world.inject(one)
    site.send("a", "b", 20, size=1200)
    site.world.run_for(SECOND)
    assert a.machine.closed == []
    site.world.run_for(most_ns)
    assert a.machine.closed == [
        DirectClosed(
            node=site.id_of("b"),
            reason=DirectEnd.UNANSWERED,
            unacknowledged_count=20,
            undelivered_bytes=0,
        )
    ]
    assert a.machine.statistics().queued_packet_count == 0
    for one in cut:
        one.stop(site.world)
    site.send("a", "b", 4)
    site.world.run_for(SECOND)
    assert site.numbers("b", "a") == [0, 1, 2, 23, 24, 25, 26]
    site.world.run_for(2 * config.idle_ms * MS)
    assert a.machine.link.connected == []
    assert a.machine.deadline_ns() is None, "an idle program does nothing"


def test_gc_4_5_the_sender_that_was_refused_learns_that_there_is_room_again() -> None:
    site = DirectSite("a", "b", config=QUICK)
    a = site.nodes["a"]
    site.world.inject(Partition(sources=["a"], destinations=["b"]))

    def fill(host: DirectHost, now_ns: int) -> None:
        while host.send("b", now_ns, size=1200):
            pass

    a.do(fill)
    site.world.run_for(5 * SECOND)
    (closed,) = a.machine.closed
    assert closed.unacknowledged_count == a.machine.sent["b"]
    rooms = [event for event in a.events if isinstance(event, NotFull)]
    assert rooms == [NotFull(node_type="direct", node=site.id_of("b"))]


def test_gc_4_6_changes_of_the_membership_of_others_leave_a_stream_alone() -> None:
    """A stream ends when its own node is excluded. There are no views, so a node of which the
    others have not decided yet cannot be missing in one."""
    site = Site("a", "b", "c", "d", "e")
    site.include_all()
    lossy = Loss(0.2)
    site.world.inject(lossy)
    a = site.nodes["a"]
    sent = 0
    for name in ("c", "d", "e"):
        for _ in range(20):
            a.do(send_to)
            sent += 1
            site.world.run_for(500_000)
        a.do(lambda host, now_ns: host.link.exclude(host.nodes[name], now_ns))  # noqa: B023
    index = a.machine.link.peers[101].index
    site.world.run_until(got(site, sent))
    lossy.stop(site.world)
    site.world.run_for(SECOND)
    assert a.machine.link.peers[101].index == index
    assert a.machine.statistics().queued_packet_count == 0


def test_gc_4_7_and_14_3_a_connection_that_was_forgotten_continues() -> None:
    """Section 14, test 3, as well: idle for twice the time after which it is forgotten."""
    site = DirectSite("a", "b", config=QUICK)
    site.send("a", "b")
    site.world.run_for(500 * MS)
    assert [node.machine.link.connected for node in site.nodes.values()] == [[101], [100]]
    site.world.run_for(2500 * MS)
    assert [node.machine.link.connected for node in site.nodes.values()] == [[], []]
    site.send("a", "b")
    site.world.run_for(500 * MS)
    assert site.numbers("b", "a") == [0, 1]
    # Only the receiver forgets it: the sender is busy with another message in between.
    site.nodes["b"].do(release("a"))
    site.send("a", "b", 3)
    site.world.run_for(500 * MS)
    assert site.has("b", "a", 5)


def test_gc_4_8_reordered_duplicated_and_lost_datagrams() -> None:
    site = DirectSite("a", "b")
    for fault in (Reordering(0.1), Duplication(0.1), Loss(0.2)):
        site.world.inject(fault)
    site.flood("a", "b", 10_000, size=100)
    site.world.run_until(lambda: site.has("b", "a", 10_000), timeout_ns=300 * SECOND)


@pytest.mark.parametrize("kind", ["member", "direct"])
def test_gc_14_1_a_receiver_that_starts_late_begins_with_the_first_message_to_it(kind: str) -> None:
    """For multicast, the first message after the welcome; see `test_fs_18` for a busy stream."""
    if kind == "direct":
        direct = DirectSite("a", "b")
        direct.world.crash(direct.nodes["b"])
        direct.send("a", "b", 5)
        direct.world.run_for(SECOND)
        direct.world.start(direct.nodes["b"])
        direct.world.run_for(2 * SECOND)
        assert direct.numbers("b", "a") == [], "it is another program, with another id"
        direct.nodes["a"].do(
            lambda host, _: host.link.contact(1101, Address("b", PORT))  # the new id
        )
        direct.nodes["a"].machine.nodes = {"b": 1101}
        direct.send("a", "b", 2)
        direct.world.run_for(SECOND)
        assert direct.numbers("b", "a") == [5, 6]
        return
    site = Site("a", "b")
    site.nodes["a"].do(lambda host, now_ns: host.include("b", now_ns=now_ns))
    site.nodes["a"].do(send_to)
    site.world.run_for(SECOND)
    site.nodes["b"].do(lambda host, now_ns: host.include("a", now_ns=now_ns))
    site.world.run_until(got(site, 1), timeout_ns=2 * TICK_NS)


def test_gc_14_2_a_sender_crashes_with_an_open_gap() -> None:
    """The receiver asks for nothing, since its acknowledgements answer datagrams. It forgets the
    sender, and reports what could not be delivered."""
    site = DirectSite("a", "b", config=QUICK)
    site.world.inject(LoseIf(lambda packet: packet.source.name == "a" and sample_of(packet) == 2))
    b = site.nodes["b"]
    site.send("a", "b", 5, size=1200)
    site.world.run_for(MS)
    site.world.crash(site.nodes["a"])
    assert site.numbers("b", "a") == [0]
    site.world.run_for(100 * MS)
    sent = b.machine.statistics().peers[0].sent_packet_count
    site.world.run_for(5 * SECOND)
    assert len(b.machine.closed) == 0, "the sender may be cut off, and still try"
    site.world.run_for(2 * SECOND)
    (closed,) = b.machine.closed
    assert (closed.reason, closed.unacknowledged_count) == (DirectEnd.SILENT, 0)
    assert closed.undelivered_bytes > 3 * 1200
    assert sent <= 6
    assert b.machine.link.connected == []
    assert b.machine.statistics().peers == ()


def test_gc_14_4_what_the_sender_no_longer_keeps_is_reported_and_the_rest_follows() -> None:
    """The receiver acknowledged what waited behind a gap, and has dropped it: it reports what is
    lost, and continues with what the sender still keeps."""
    site = DirectSite("a", "b")
    lost = LoseIf(lambda packet: packet.source.name == "a" and sample_of(packet) == 2)
    site.world.inject(lost)
    site.send("a", "b", 5, size=1200)
    site.world.run_for(20 * MS)
    assert site.numbers("b", "a") == [0]
    site.nodes["b"].do(close("a"))
    lost.stop(site.world)
    site.world.run_for(SECOND)
    site.send("a", "b", 5, size=1200)
    site.world.run_for(SECOND)
    b = site.nodes["b"]
    (closed,) = b.machine.closed
    assert closed.reason is DirectEnd.CLOSED
    assert closed.undelivered_bytes > 3 * 1200
    missed = [event for event in b.events if isinstance(event, MessagesMissed)]
    assert missed == [MessagesMissed(node=site.id_of("a"), first_seq=3, stop_seq=6)]
    assert site.numbers("b", "a") == [0, 1, 5, 6, 7, 8, 9]


def test_a_stranger_that_sends_no_message_is_counted_and_not_remembered() -> None:
    site = DirectSite("a", "b", config=DirectConfig(peer_count_max=1))
    site.send("a", "b")
    site.world.run_for(SECOND)
    captured = Captured("b")
    site.world.watch(captured)
    site.send("a", "b")
    site.world.run_for(SECOND)
    site.nodes["a"].do(close("b"))
    a = site.nodes["a"]
    a.do(lambda host, now_ns: host.receive(captured.found[0], Address("b", PORT), now_ns))
    assert a.machine.link.connected == []
    assert a.machine.statistics().drops == {"stranger": 1}


def test_no_more_connections_than_the_limit() -> None:
    site = DirectSite("a", "b", "c", config=DirectConfig(peer_count_max=1, contact_count_max=1))
    site.nodes["a"].do(
        lambda host, _: host.link.contact(host.nodes["b"], Address("b", PORT))  # c is dropped
    )
    site.send("a", "b")
    site.world.run_for(MS)
    assert not site.nodes["a"].do(lambda host, now_ns: host.send("c", now_ns))
    site.nodes["c"].do(lambda host, _: host.link.contact(host.nodes["b"], Address("b", PORT)))
    site.send("c", "b")
    site.world.run_for(SECOND)
    assert site.numbers("b", "c") == []
    assert site.nodes["b"].machine.statistics().drops["stranger"] > 1
    site.world.run_for(130 * SECOND)
    site.send("c", "b")
    site.world.run_for(SECOND)
    assert site.numbers("b", "c") == [1], "the connection of a has been idle"


@pytest.mark.parametrize(
    ("field", "value"),
    [("try_count_max", 0), ("close_ms", 1), ("idle_ms", 1), ("peer_count_max", 0)],
)
def test_wrong_parameters_are_named(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{field} = {value} is not between"):
        DirectConfig(**{field: value})  # type: ignore[arg-type]


def test_indexes_wrap_and_skip_those_in_use() -> None:
    """Each new stream to a node takes an index of 16 bits."""
    site = DirectSite("a", "b")
    a = site.nodes["a"]
    link = a.machine.link._link
    link._next_index = 65_534
    indexes = []
    for _ in range(6):
        site.send("a", "b")
        site.world.run_for(MS)
        indexes.append(link.peers[101].index)
        link.renew(101)
    assert site.has("b", "a", 6)
    assert indexes == [65_534, 65_535, 1, 2, 3, 4]
    link._next_index = 5  # that of the stream which was begun last
    assert link._free_index() == 6


def test_a_system_that_runs_for_years_counts_on() -> None:
    """Counts of heartbeats and acknowledgements have 32 bits."""
    site = Site("a", "b", config=LinkConfig(send_queue_packet_count=1000))
    site.include_all()
    site.flood("a", 5)
    site.world.run_until(lambda: site.all_have("a", 5))
    a, b = site.nodes["a"].machine.link, site.nodes["b"].machine.link
    for wrap in (1 << 31, 1 << 32):
        a._shared["server"]._heartbeat_count = wrap - 3
        # The receiver has seen the counts up to there.
        for stream in b._input._incoming.values():
            stream._heartbeat_count = wrap - 3
            stream._ack_count = wrap - 3
        a._shared["server"].readers[101].ack_count = wrap - 3
        done = site.checker.next["b", "a", False]
        site.flood("a", 300, size=1200)
        site.world.run_until(lambda: site.all_have("a", done + 300))  # noqa: B023
    assert DATA_PORT
