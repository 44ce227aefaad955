"""The links between nodes as objects: what each end counts, since the last time."""

from __future__ import annotations

from typing import Any

from skerry.engine.services.node_links import NodeLinks, ObservedPeer
from skerry.protocol.link.events import PeerStatistics


def channel(
    *, received: int = 0, sent: int = 0, resent: int = 0, round_trip_ns: int = 0, lag_ns: int = 0
) -> PeerStatistics:
    return PeerStatistics(
        node=2,
        is_included=True,
        received_packet_count=received,
        received_bytes=100 * received,
        sent_packet_count=sent,
        sent_bytes=100 * sent,
        duplicate_count=0,
        retransmission_count=resent,
        lost_best_effort_count=received // 10,
        corrupt_count=0,
        received_ns=None,
        multicast_ns=None,
        round_trip_ns=round_trip_ns,
        backlog_bytes=0,
        lag_ns=lag_ns,
        unanswered_count=0,
    )


def peer(*channels: PeerStatistics) -> ObservedPeer:
    return ObservedPeer(node=2, name="quay", channels=channels)


def test_each_end_counts_what_it_knows() -> None:
    made: list[Any] = NodeLinks().take(
        1,
        "crane",
        [
            peer(
                channel(received=20, sent=5, resent=1, round_trip_ns=4_000_000),
                channel(received=30, sent=6, resent=2, lag_ns=1_500_000_000),
            )
        ],
    )
    to_here, from_here = made
    assert (to_here.sender, to_here.receiver, to_here.application) == ("quay", "crane", "quay")
    assert (to_here.senderNumber, to_here.receiverNumber, to_here.carrier) == (2, 1, "link")
    assert (to_here.datagrams, to_here.bytes, to_here.lost) == (50, 5000, 5)
    assert to_here.retransmissions is None, "only the sender knows"
    assert (from_here.sender, from_here.receiver, from_here.application) == (
        *("crane", "quay", "crane"),
    )
    assert (from_here.senderNumber, from_here.receiverNumber) == (1, 2)
    assert (from_here.datagrams, from_here.bytes, from_here.retransmissions) == (11, 1100, 3)
    assert (from_here.roundTrips, from_here.roundTripTime, from_here.lag) == (1, 0.004, 1.5)


def test_only_what_was_counted_since_the_last_time_is_taken() -> None:
    links = NodeLinks()
    links.take(1, "crane", [peer(channel(received=20, sent=5))])
    made: list[Any] = links.take(1, "crane", [peer(channel(received=21, sent=9))])
    assert [one.datagrams for one in made] == [1, 4]
    assert (made[1].roundTrips, made[1].roundTripTime) == (0, None)
    assert links.take(1, "crane", []) == []


def test_counters_that_begin_again_are_taken_from_zero() -> None:
    links = NodeLinks()
    links.take(1, "crane", [peer(channel(received=20, sent=5))])
    # The peer is a light node that has returned.
    made: list[Any] = links.take(1, "crane", [peer(channel(received=3, sent=9))])
    assert [one.datagrams for one in made] == [0, 4]
    # This node has joined again, with a new id.
    again: list[Any] = links.take(7, "crane", [peer(channel(received=4, sent=2))])
    assert [one.datagrams for one in again] == [4, 2]
