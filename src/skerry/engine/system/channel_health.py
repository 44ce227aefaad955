"""What the picture needs to know of the nodes on a channel, from the counters of its link."""

from __future__ import annotations

from skerry.protocol.link.events import PeerStatistics
from skerry.protocol.link.link import Link
from skerry.protocol.picture.liveness import ChannelHealth

__all__ = ["health_of"]


def health_of(link: Link) -> dict[int, ChannelHealth]:
    """The health of each node on this channel."""
    return {node: _health(link.peer_statistics(node)) for node in link.peers}


def _health(row: PeerStatistics) -> ChannelHealth:
    return ChannelHealth(
        received_count=row.received_packet_count,
        duplicate_count=row.duplicate_count,
        retransmission_count=row.retransmission_count,
        received_ns=row.received_ns,
        multicast_ns=row.multicast_ns,
        round_trip_ns=row.round_trip_ns,
        lag_ns=row.lag_ns,
        backlog_bytes=row.backlog_bytes,
        unanswered_count=row.unanswered_count,
    )
