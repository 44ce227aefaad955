"""The quality of the link from a sender: retransmissions, losses and response times.

It is measured only where datagrams are missing, so a stream without loss has no cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skerry.codec.envelope import DISTRIBUTOR
from skerry.ids import hash64
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.protocol.distributor.events import SenderInfo

_U32: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCounts:
    passed_count: int = 0
    """Datagrams that were delivered or given up."""
    lost_count: int = 0
    """Datagrams that were given up."""
    recovered_count: int = 0
    """Datagrams that were received after a request of any receiver."""
    request_count: int = 0
    """Requests that this receiver sent."""
    answer_count: int = 0
    """Datagrams that were received after one request, so that the response time is known."""
    answer_ns: int = 0
    """The sum of the response times of these."""

    def since(self, before: LinkCounts) -> LinkCounts:
        """Return the difference to earlier counts."""
        return LinkCounts(
            passed_count=self.passed_count - before.passed_count,
            lost_count=self.lost_count - before.lost_count,
            recovered_count=self.recovered_count - before.recovered_count,
            request_count=self.request_count - before.request_count,
            answer_count=self.answer_count - before.answer_count,
            answer_ns=self.answer_ns - before.answer_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReport:
    """The counts of the link from a sender to this connection, over some time."""

    sender: SenderInfo
    counts: LinkCounts

    @property
    def round_trip_s(self) -> float | None:
        """The average response time; None if there was no response."""
        counts = self.counts
        return counts.answer_ns / counts.answer_count / 1e9 if counts.answer_count else None

    def message(self, receiver: str) -> Struct:
        """Return the link as an object, published by the receiver of this name."""
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
    """Return the identity of a sender as one number, equal before and after its announcement."""
    start = sender.start & _U32
    return hash64(f"{sender.address}/{sender.sender_id}/{start}/{sender.application_id}")
