"""The links between this node and the others of its system, as objects that recordings keep.

A node counts what it receives on the link from another node. What it sends on the link to that
node, it counts as well, with what only a sender knows: retransmissions, round trips and the lag.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from skerry.codec.envelope import LINK
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.protocol.link.events import PeerStatistics

__all__ = ["NodeLinks", "ObservedPeer"]

_U32: Final = 0xFFFFFFFF
_NS: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPeer:
    """Another node, and the counters of both channels to it."""

    node: int
    name: str
    channels: tuple[PeerStatistics, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """Sums over both channels since the nodes met."""

    received_count: int = 0
    received_bytes: int = 0
    lost_count: int = 0
    sent_count: int = 0
    sent_bytes: int = 0
    resent_count: int = 0


class NodeLinks:
    """Makes a SkerryLink for each direction of each link, over the time since the last ones."""

    def __init__(self) -> None:
        self._node = 0
        self._last: dict[int, _Counts] = {}

    def take(self, node: int, name: str, peers: Iterable[ObservedPeer]) -> list[Struct]:
        """The links to and from `peers`. `node` and `name` are those of this node."""
        if node != self._node:
            # It has joined again, and its counters began at 0.
            self._node, self._last = node, {}
        before, self._last = self._last, {}
        made: list[Struct] = []
        for peer in peers:
            now = self._last[peer.node] = _counts(peer.channels)
            then = before.get(peer.node, _Counts())
            round_trip_ns = next(
                (one.round_trip_ns for one in peer.channels if one.round_trip_ns), 0
            )
            made.append(
                internal_class("SkerryLink")(
                    sender=peer.name,
                    receiver=name,
                    application=peer.name,
                    carrier=LINK,
                    senderNumber=peer.node,
                    receiverNumber=node,
                    datagrams=_since(now.received_count, then.received_count),
                    lost=_since(now.lost_count, then.lost_count),
                    bytes=max(now.received_bytes - then.received_bytes, 0),
                )
            )
            made.append(
                internal_class("SkerryLink")(
                    sender=name,
                    receiver=peer.name,
                    application=name,
                    carrier=LINK,
                    senderNumber=node,
                    receiverNumber=peer.node,
                    datagrams=_since(now.sent_count, then.sent_count),
                    retransmissions=_since(now.resent_count, then.resent_count),
                    bytes=max(now.sent_bytes - then.sent_bytes, 0),
                    roundTrips=1 if round_trip_ns else 0,
                    roundTripTime=round_trip_ns / _NS if round_trip_ns else None,
                    lag=max(one.lag_ns for one in peer.channels) / _NS,
                )
            )
        return made


def _counts(channels: Iterable[PeerStatistics]) -> _Counts:
    rows = tuple(channels)
    return _Counts(
        received_count=sum(one.received_packet_count for one in rows),
        received_bytes=sum(one.received_bytes for one in rows),
        lost_count=sum(one.lost_best_effort_count for one in rows),
        sent_count=sum(one.sent_packet_count for one in rows),
        sent_bytes=sum(one.sent_bytes for one in rows),
        resent_count=sum(one.retransmission_count for one in rows),
    )


def _since(now: int, then: int) -> int:
    # A light node that has returned counts from 0 again.
    return min(max(now - then, 0), _U32)
