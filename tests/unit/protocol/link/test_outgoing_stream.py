"""A reliable stream at its sender."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import StallReason
from skerry.protocol.link.outgoing_stream import PROBE_NS, OutgoingStream
from skerry.protocol.link.output import LinkOutput
from skerry.protocol.link.peers import Peer
from skerry.protocol.node_types import NodeType
from skerry.protocol.rtps.datagram_reader import Datagram, DatagramReader
from skerry.protocol.rtps.datagram_writer import DatagramWriter
from skerry.protocol.rtps.entities import Channel, StreamClass, guid_prefix, writer_id
from skerry.protocol.rtps.number_sets import NumberSet
from skerry.protocol.rtps.submessages import AckNack, Data

CONFIG = LinkConfig(send_queue_packet_count=10)
WRITER = writer_id(StreamClass.RELIABLE_SINGLE, 2)
MS = 1_000_000
BIG = bytes(1200)
"""A message that fills a packet."""


class Sender:
    """One stream to some nodes by unicast, and what it sends."""

    def __init__(self, *peers: Peer, **fields: int) -> None:
        writer = DatagramWriter(guid_prefix(1, Channel.DATA), has_checksum=True)
        self.output = LinkOutput(writer, CONFIG.fragment_bytes, 0)
        node_type = NodeType(**{"window_packet_count": 4, "ack_request_threshold": 2, **fields})  # type: ignore[arg-type]
        self.stream = OutgoingStream(
            WRITER, node_type, CONFIG, self.output, group=None, is_shared=len(peers) > 1
        )
        self.count = 0
        for peer in peers:
            self.stream.add_reader(peer, 0)

    def send(self, count: int) -> list[bool]:
        return [self.stream.send(7, 0, BIG, None) for _ in range(count)]

    def sent(self, peer: Peer, now_ns: int) -> list[int]:
        """The numbers of the samples that are sent to a node now."""
        self.stream.pump(now_ns)
        reader = DatagramReader(peer.prefix)
        numbers = []
        for address, datagrams in self.output.take():
            for data in datagrams if address == peer.address else ():
                found = reader.read(data)
                assert isinstance(found, Datagram)
                numbers += [one.seq for one in found.submessages if isinstance(one, Data)]
        return numbers

    def acknowledge(self, peer: Peer, base: int, now_ns: int, *missing: int) -> bool:
        self.count += 1
        numbers = NumberSet(base, max([base - 1, *missing]) + 1, missing)
        return self.stream.acknowledged(peer.node, AckNack(WRITER, numbers, self.count), now_ns)


def test_no_more_than_the_window_is_in_flight(peer: Peer) -> None:
    sender = Sender(peer)
    assert sender.send(6) == [True] * 6
    assert sender.sent(peer, 0) == [1, 2, 3, 4]
    assert sender.sent(peer, 1) == []
    assert sender.acknowledge(peer, 3, 2)
    assert sender.sent(peer, 2) == [5, 6]


def test_a_full_queue_refuses_and_reports_room_at_half(peer: Peer) -> None:
    sender = Sender(peer)
    accepted = sender.send(20)
    assert accepted.count(True) <= CONFIG.send_queue_packet_count + 1
    assert accepted[-1] is False
    sent = sender.sent(peer, 0)
    while not sender.stream.is_room_due:
        assert sender.acknowledge(peer, sent[-1] + 1, 0)
        if not sender.stream.is_room_due:
            assert not sender.send(1)[0] or sender.stream.queued_packet_count > 5
        sent += sender.sent(peer, 0)
    assert sender.stream.queued_packet_count <= CONFIG.send_queue_packet_count // 2


def test_what_is_not_acknowledged_in_time_is_sent_again_with_growing_waits(peer: Peer) -> None:
    sender = Sender(peer)
    sender.send(1)
    assert sender.sent(peer, 0) == [1]
    times = []
    for now_ms in range(5, 400, 5):
        sender.stream.advance(now_ms * MS)
        if sender.sent(peer, now_ms * MS):
            times.append(now_ms)
    first, *waits = [after - before for before, after in zip([0, *times], times, strict=False)]
    assert first in range(20, 35)
    assert all(wait in range(80, 95) for wait in waits)


def test_only_what_is_missing_is_sent_again(peer: Peer) -> None:
    sender = Sender(peer)
    sender.send(4)
    sender.sent(peer, 0)
    sender.stream.advance(10 * MS)
    assert sender.acknowledge(peer, 1, 11 * MS, 1, 3)
    assert sender.sent(peer, 11 * MS) == [1, 3]


def test_an_impossible_acknowledgement_is_refused_and_an_old_one_ignored(peer: Peer) -> None:
    sender = Sender(peer)
    sender.send(2)
    sender.sent(peer, 0)
    assert not sender.acknowledge(peer, 9, 0)
    sender.count = 0
    assert sender.acknowledge(peer, 3, 0)  # Its count is not new, so it changes nothing.
    assert sender.stream.queued_packet_count == 2


def test_a_receiver_that_never_answers_is_reported(peer: Peer) -> None:
    sender = Sender(peer, lag_limit_ms=1000)
    sender.send(1)
    sender.sent(peer, 0)
    for now_ms in range(10, 1200, 10):
        sender.stream.advance(now_ms * MS)
    assert (peer, StallReason.LAG) in sender.stream.stalls


def test_what_was_queued_for_a_removed_receiver_is_released(
    make_peer: Callable[[int], Peer], peer: Peer
) -> None:
    other = make_peer(3)
    sender = Sender(peer, other)
    for one in (peer, other):
        assert sender.acknowledge(one, 1, 0)
    sender.send(3)
    sender.sent(peer, 0)
    sender.acknowledge(peer, 4, 0)
    assert sender.stream.queued_packet_count == 3
    sender.stream.remove_reader(other.node)
    assert sender.stream.queued_packet_count == 0


@pytest.mark.parametrize(("idle_ns", "is_final"), [(PROBE_NS - 1, True), (PROBE_NS, False)])
def test_an_idle_stream_asks_for_an_answer_now_and_then(
    peer: Peer, idle_ns: int, is_final: bool
) -> None:
    sender = Sender(peer)
    sender.send(1)
    sender.sent(peer, 0)
    sender.acknowledge(peer, 2, 0)
    assert sender.stream.keep_alive(idle_ns).is_final is is_final


def test_a_long_message_fills_the_queue_at_once(peer: Peer) -> None:
    sender = Sender(peer)
    long = bytes(CONFIG.send_queue_packet_count * CONFIG.fragment_bytes)
    assert [sender.stream.send(7, 0, long, None) for _ in range(3)] == [True, False, False]


def test_an_acknowledgement_of_what_was_acknowledged_before_frees_nothing_for_others(
    make_peer: Callable[[int], Peer], peer: Peer
) -> None:
    other = make_peer(3)
    sender = Sender(peer, other)
    for one in (peer, other):
        assert sender.acknowledge(one, 1, 0)
    sender.send(4)
    sender.sent(peer, 0)
    assert sender.acknowledge(peer, 5, 0)
    for _ in range(2):  # a newer acknowledgement with an earlier base, that has 1 and 3
        assert sender.acknowledge(peer, 1, 0, 2, 4)
    assert sender.stream.queued_packet_count == 4
    sender.stream.advance(10 * MS)
    sender.stream.advance(100 * MS)
    assert sender.sent(other, 100 * MS) != []


def test_a_slow_receiver_of_several_lags_although_the_host_fills_the_queue(
    make_peer: Callable[[int], Peer],
) -> None:
    quick, slow = make_peer(2), make_peer(3)
    sender = Sender(quick, slow, lag_grace_ms=100)
    base = {2: 1, 3: 1}
    for now_ms in range(0, 1000, 10):
        now_ns = now_ms * MS
        while all(sender.send(1)):
            pass
        if now_ms:
            sender.stream.advance(now_ns)
        base[2] += len(sender.sent(quick, now_ns))
        assert sender.acknowledge(quick, base[2], now_ns)
        if now_ms % 400 == 390:
            # It has all that was sent, but acknowledges it late each time.
            base[3] = base[2]
            assert sender.acknowledge(slow, base[3], now_ns)
    lagging = {node: reader.is_lagging for node, reader in sender.stream.readers.items()}
    assert lagging == {2: False, 3: True}
    assert base[2] > 100


def test_no_more_than_a_window_is_sent_again_between_two_ticks(peer: Peer) -> None:
    sender = Sender(peer, window_packet_count=4)
    sender.send(9)
    assert sender.sent(peer, 0) == [1, 2, 3, 4]
    assert sender.acknowledge(peer, 1, 1, 1, 2, 3)
    assert sender.sent(peer, 1) == [1, 2, 3]
    assert sender.acknowledge(peer, 5, 2)
    assert sender.sent(peer, 2) == [5, 6, 7, 8]
    assert sender.acknowledge(peer, 5, 3, 5, 6, 7)
    assert sender.sent(peer, 3) == [5], "three of the window of four were sent again before"
    sender.stream.advance(10 * MS)
    assert sender.acknowledge(peer, 5, 10 * MS, 5, 6, 7)
    assert sender.sent(peer, 10 * MS) == [6, 7]


@pytest.mark.parametrize("laggard_count", [1, 2])
def test_what_may_wait_is_divided_among_the_receivers_that_lag(
    make_peer: Callable[[int], Peer], laggard_count: int
) -> None:
    quick, *slow = (make_peer(number) for number in range(2, 3 + laggard_count))
    most = 100 * len(BIG)
    sender = Sender(quick, *slow, lag_grace_ms=100, backlog_bytes_max=most)
    base, now_ns = 1, 0
    while not sender.stream.stalls:
        now_ns += 10 * MS
        while all(sender.send(1)):
            pass
        sender.stream.advance(now_ns)
        base += len(sender.sent(quick, now_ns))
        assert sender.acknowledge(quick, base, now_ns)
    assert {reason for _, reason in sender.stream.stalls} == {StallReason.BACKLOG}
    waiting = max(reader.backlog_bytes for reader in sender.stream.readers.values())
    assert most // laggard_count < waiting < most // laggard_count + 20 * len(BIG)
