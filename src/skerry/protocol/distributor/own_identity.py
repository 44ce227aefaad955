"""The identity of this connection in its group: which messages are its own, or addressed to it.

The identity is changed, or a conflict reported, if another sender of the group uses it.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from skerry.protocol.distributor.config import Dialect
from skerry.protocol.distributor.events import IdentityTaken, SenderInfo
from skerry.protocol.distributor.identity import draw_start_ms, java_sum
from skerry.protocol.distributor.messages import DatagramHeader
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.sending.sender import Sender
from skerry.protocol.machine import Address


class OwnIdentity:
    """Compares messages with the identity of the connection's sender."""

    def __init__(
        self,
        sender: Sender,
        *,
        dialect: Dialect,
        group: Address,
        deliveries: Deliveries,
        rng: Random,
    ) -> None:
        self._sender = sender
        self._dialect = dialect
        self._group = group
        self._deliveries = deliveries
        self._rng = rng

    def is_target(self, target_id: int, target_start: int) -> bool:
        """Return whether a request is addressed to this connection."""
        mine = self._sender.identity
        return (target_id, target_start) == (mine.sender_id, mine.start(self._dialect))

    def is_own(self, header: DatagramHeader) -> bool:
        """Return whether this connection sent a datagram."""
        mine = self._sender.identity
        return (header.address, header.sender_id, header.start) == (
            mine.address,
            mine.sender_id,
            mine.start(self._dialect),
        )

    def avoid(self, taken_sums: set[int], now_ns: int) -> None:
        """Choose another identity before the first announcement, if the present one is taken.

        `taken_sums` are the sums by which Java programs distinguish the known senders.
        """
        mine = self._sender.identity
        if self._sender.last_seq == 0 and java_sum(mine.sender_id, mine.start_ms) in taken_sums:
            self._replace(taken_sums, now_ns)

    def compare(self, other: SenderInfo, now_ns: int) -> None:
        """Compare the identity with that of a new sender.

        If they conflict, the identity is replaced. After data was sent under it, that is not
        possible, and the conflict is reported.
        """
        mine = self._sender.identity
        other_sum = java_sum(other.sender_id, other.start)
        own_sum = java_sum(mine.sender_id, mine.start(self._dialect))
        if other_sum != own_sum or not self._sender.publisher_count:
            return
        if self._sender.last_seq == 0:
            self._replace({other_sum}, now_ns)
        else:
            host, port = self._group.host, self._group.port
            self._deliveries.add(IdentityTaken(group=host, port=port, sender=other))

    def _replace(self, taken_sums: set[int], now_ns: int) -> None:
        mine = self._sender.identity
        start_ms = draw_start_ms(
            sender_id=mine.sender_id,
            wall_ms=mine.start_ms,
            rng=self._rng,
            taken_sums=taken_sums,
        )
        self._sender.become(replace(mine, start_ms=start_ms), now_ns)
