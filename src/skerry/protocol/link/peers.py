"""What a link knows about another node."""

from __future__ import annotations

from skerry.protocol.link.events import PeerStatistics
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType
from skerry.protocol.rtps.entities import Channel, guid_prefix

__all__ = ["Peer"]


class Peer:
    """One other node, from first contact to exclusion."""

    def __init__(
        self, node: int, node_type: NodeType, address: Address, channel: Channel, index: int
    ) -> None:
        """`index` is the number that this node gives to the peer, for streams to it alone."""
        self.node = node
        self.type = node_type
        self.address = address
        self.prefix = guid_prefix(node, channel)
        self.index = index
        self.is_included = False
        self.is_stalled = False
        """Whether it was reported that it has to be excluded."""
        self.received_packet_count = 0
        self.received_bytes = 0
        self.sent_packet_count = 0
        self.sent_bytes = 0
        self.duplicate_count = 0
        self.retransmission_count = 0
        self.lost_best_effort_count = 0
        self.corrupt_count = 0
        self.received_ns: int | None = None
        self.multicast_ns: int | None = None
        self.asked_ns: int | None = None
        """When an acknowledgement was requested that has not arrived."""
        self.round_trip_ns = 0

    def packet_received(self, size: int, now_ns: int, *, is_multicast: bool) -> None:
        """Count a datagram of the peer."""
        self.received_packet_count += 1
        self.received_bytes += size
        self.received_ns = now_ns
        if is_multicast:
            self.multicast_ns = now_ns

    def packet_sent(self, size: int) -> None:
        """Count a datagram to the peer."""
        self.sent_packet_count += 1
        self.sent_bytes += size

    def acknowledgement_requested(self, now_ns: int) -> None:
        """Begin to measure the round trip, unless it is being measured."""
        if self.asked_ns is None:
            self.asked_ns = now_ns

    def acknowledged(self, now_ns: int) -> None:
        """Finish measuring the round trip."""
        if self.asked_ns is not None:
            sample_ns = now_ns - self.asked_ns
            self.asked_ns = None
            before_ns = self.round_trip_ns
            self.round_trip_ns = (7 * before_ns + sample_ns) // 8 if before_ns else sample_ns

    def statistics(self, *, backlog_bytes: int, lag_ns: int, unanswered: int) -> PeerStatistics:
        """Return the counters."""
        return PeerStatistics(
            node=self.node,
            is_included=self.is_included,
            received_packet_count=self.received_packet_count,
            received_bytes=self.received_bytes,
            sent_packet_count=self.sent_packet_count,
            sent_bytes=self.sent_bytes,
            duplicate_count=self.duplicate_count,
            retransmission_count=self.retransmission_count,
            lost_best_effort_count=self.lost_best_effort_count,
            corrupt_count=self.corrupt_count,
            received_ns=self.received_ns,
            multicast_ns=self.multicast_ns,
            round_trip_ns=self.round_trip_ns,
            backlog_bytes=backlog_bytes,
            lag_ns=lag_ns,
            unanswered_count=unanswered,
        )
