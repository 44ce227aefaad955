"""Which nodes are silent, deaf or slow, by the counters of their streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.node_types import NodeType

__all__ = ["DEAF_TRANSMISSION_COUNT", "ChannelHealth", "dead_reason"]

_YOUNG_PACKET_COUNT: Final = 10
"""A node from which less was received may be silent for twice as long."""
_DATA_START_FACTOR: Final = 10
"""Before the first packet of its data channel, a node may be silent for this many timeouts."""
_MULTICAST_FACTOR: Final = 4
"""Unicast may arrive without multicast for this many timeouts."""
DEAF_TRANSMISSION_COUNT: Final = 30
_DEAF_PACKET_COUNT: Final = 50
"""A node is deaf that does not acknowledge so many transmissions, though this many packets were
received from it."""
_HARDLY_HEARD_NS: Final = 120_000_000_000
"""A node from which less was received is deaf after transmissions for two minutes."""
_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelHealth:
    """What one channel of this node knows of another node."""

    received_count: int = 0
    duplicate_count: int = 0
    retransmission_count: int = 0
    received_ns: int | None = None
    multicast_ns: int | None = None
    round_trip_ns: int = 0
    lag_ns: int = 0
    backlog_bytes: int = 0
    unanswered_count: int = 0


def dead_reason(
    health: ChannelHealth,
    node_type: NodeType,
    *,
    since_ns: int,
    now_ns: int,
    has_multicast: bool,
    is_data: bool,
) -> ExclusionReason | None:
    """Return why a node is dead by one channel; None if it is alive.

    `since_ns` is when it became known. `has_multicast` is whether this node is reached by
    multicast, so that the keep-alives of all others arrive by it.
    """
    timeout_ns = node_type.dead_timeout_ns
    if is_data and health.received_ns is None:
        timeout_ns *= _DATA_START_FACTOR
    elif health.received_count < _YOUNG_PACKET_COUNT:
        timeout_ns *= 2
    last_ns = since_ns if health.received_ns is None else health.received_ns
    if now_ns - last_ns > timeout_ns:
        return ExclusionReason.SILENT
    if has_multicast and health.received_ns is not None:
        multicast_ns = since_ns if health.multicast_ns is None else health.multicast_ns
        if now_ns - multicast_ns > _MULTICAST_FACTOR * timeout_ns:
            return ExclusionReason.SILENT
    is_heard = health.received_count > _DEAF_PACKET_COUNT
    if is_heard and health.unanswered_count >= DEAF_TRANSMISSION_COUNT:
        return ExclusionReason.UNANSWERED
    last_retry_ns = node_type.retry_timeouts_ms[-1] * _MS
    if health.unanswered_count * last_retry_ns >= _HARDLY_HEARD_NS:
        return ExclusionReason.UNANSWERED
    return None
