"""How well datagrams of a sender come here: what was told again, what never came, how long it took.

All of it is counted where something is missing, so a stream without loss pays nothing for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skerry.codec.envelope import DISTRIBUTOR
from skerry.ids import hash64
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.protocol.distributor.events import SenderInfo

__all__ = ["Link", "LinkCounts", "sender_number"]

_U32: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCounts:
    """Counts of one stream."""

    passed_count: int = 0
    """Datagrams that were delivered or given up."""
    lost_count: int = 0
    """Those that were given up."""
    recovered_count: int = 0
    """Those that were asked for, by whomever, and came then."""
    request_count: int = 0
    """Requests that were sent from here."""
    answer_count: int = 0
    """Datagrams that came after they were asked for once, so that it is known how long it took."""
    answer_ns: int = 0
    """How long these took, all together."""

    def since(self, before: LinkCounts) -> LinkCounts:
        """What came after these counts."""
        return LinkCounts(
            passed_count=self.passed_count - before.passed_count,
            lost_count=self.lost_count - before.lost_count,
            recovered_count=self.recovered_count - before.recovered_count,
            request_count=self.request_count - before.request_count,
            answer_count=self.answer_count - before.answer_count,
            answer_ns=self.answer_ns - before.answer_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What happened between a sender and this connection, for some time."""

    sender: SenderInfo
    counts: LinkCounts

    @property
    def round_trip_s(self) -> float | None:
        """How long an answer took, on average; None if none was waited for."""
        counts = self.counts
        return counts.answer_ns / counts.answer_count / 1e9 if counts.answer_count else None

    def message(self, receiver: str) -> Struct:
        """The same as an object, told by who goes by this name."""
        sender, counts = self.sender, self.counts
        made: Struct = internal_class("SkerryLink")(
            sender=f"{sender.address}:{sender.sender_id}",
            receiver=receiver,
            application=sender.application,
            carrier=DISTRIBUTOR,
            senderNumber=sender_number(sender),
            datagrams=min(counts.passed_count, _U32),
            requests=min(counts.request_count, _U32),
            retransmissions=min(counts.recovered_count, _U32),
            lost=min(counts.lost_count, _U32),
            roundTrips=min(counts.answer_count, _U32),
            roundTripTime=self.round_trip_s,
        )
        return made


def sender_number(sender: SenderInfo) -> int:
    """The identity of a sender as one number, before and after it has announced itself."""
    start = sender.start & _U32
    return hash64(f"{sender.address}/{sender.sender_id}/{start}/{sender.application_id}")
