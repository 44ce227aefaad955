"""What a link knows about another node."""

from __future__ import annotations

from skerry.protocol.link.peers import Peer


def test_the_round_trip_is_smoothed_and_measured_one_at_a_time(peer: Peer) -> None:
    peer.acknowledgement_requested(100)
    peer.acknowledgement_requested(150)
    peer.acknowledged(200)
    assert peer.round_trip_ns == 100
    peer.acknowledged(900)
    assert peer.round_trip_ns == 100
    peer.acknowledgement_requested(1000)
    peer.acknowledged(1900)
    assert peer.round_trip_ns == (7 * 100 + 900) // 8


def test_multicast_is_noted_apart(peer: Peer) -> None:
    peer.packet_received(10, 5, is_multicast=False)
    assert (peer.received_ns, peer.multicast_ns) == (5, None)
    peer.packet_received(10, 7, is_multicast=True)
    peer.packet_sent(3)
    statistics = peer.statistics(backlog_bytes=1, lag_ns=2, unanswered=3)
    assert (statistics.received_bytes, statistics.multicast_ns, statistics.sent_bytes) == (20, 7, 3)
