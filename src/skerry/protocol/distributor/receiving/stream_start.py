"""The search for the number with which a stream begins for a receiver that joined.

The numbers that a sender published since the subscription have to be delivered or reported, and
those from before are not requested. The clocks of two computers do not agree, so only durations are
compared: the receiver knows how long after its subscription a datagram arrived, and the sender
which datagrams it published in that time before this one.

1. The first message received is data: the receiver asks what was published in that span before it.
2. It is a heartbeat, which names the last number: the receiver asks how long ago that was
   published. If it was after the subscription, it goes on with step 1 for that number, unless no
   lower number is possible.

A duration that was measured by one computer is used by the other, so it is extended by what clocks
drift. Senders that do not answer (`Receiver.is_asked`) are not asked.
"""

from __future__ import annotations

from typing import Final

from skerry.protocol.distributor.messages import Position

__all__ = ["ASK_COUNT_MAX", "Start"]

ASK_COUNT_MAX: Final = 16
"""Requests after which a sender is not expected to answer: at 30 % loss in each direction, one in
fifty thousand searches ends without an answer."""
_US: Final = 1000
_DRIFT: Final = 1024
"""Clocks of two computers drift apart by less than one part in so many."""
_SPAN_US_MAX: Final = 1 << 62
_QUICK_COUNT: Final = 4
"""The first requests are repeated sooner: after an eighth of the usual time, a quarter, a half.
What was received waits for the answer, and a sender that is leaving does not stay for long."""


class Start:
    """One search. Numbers do not wrap here; see `Receiver`."""

    def __init__(
        self,
        *,
        seq: int,
        low_seq: int,
        lowest_seq: int,
        is_data: bool,
        since_ns: int,
        now_ns: int,
        retry_ns: int,
        delay_ns: int,
    ) -> None:
        """`seq` is the first datagram that was received, or the last one before a heartbeat that
        was received. `lowest_seq` is the lowest number that the stream may begin with, and
        `low_seq` the lowest one that can be requested. `since_ns` is the time of the subscription.
        The first request is sent after `delay_ns`; it is repeated after `retry_ns`.
        """
        self.lowest_seq = lowest_seq
        self._seq = seq
        self.low_seq = low_seq
        self.stop_seq = seq if is_data else seq + 1
        """Numbers from here on belong to the stream, whatever the sender answers."""
        self._since_ns = since_ns
        self._retry_ns = retry_ns
        self._span_us = _span_us(now_ns - since_ns) if is_data else 0
        self._is_age_known = is_data
        self._ask_count = 0
        self.due_ns = now_ns + delay_ns
        """When to ask."""

    def take_request(self, now_ns: int) -> tuple[int, int] | None:
        """Number and span of the request that is to be sent now, if one is."""
        if now_ns < self.due_ns:
            return None
        self._ask_count += 1
        self.due_ns = now_ns + (self._retry_ns >> max(0, _QUICK_COUNT - self._ask_count))
        return self._seq, self._span_us

    def postpone(self, now_ns: int) -> None:
        """Ask later: too many requests are being sent now."""
        self.due_ns = now_ns + self._retry_ns

    def is_over(self, now_ns: int) -> bool:
        """Whether the sender has not answered and is not asked again."""
        return self._ask_count >= ASK_COUNT_MAX and now_ns >= self.due_ns

    def answered(self, position: Position, seq: int, first_seq: int, now_ns: int) -> int | None:
        """The first number of the stream by this answer; None if it is to another request, or one
        more request is needed. `seq` and `first_seq` are the numbers of the answer, not wrapped.
        """
        if seq != self._seq or position.span_us != self._span_us:
            return None
        if self._is_age_known:
            return min(first_seq, self.stop_seq)
        elapsed_ns = position.elapsed_us * _US
        arrived_ns = now_ns - elapsed_ns + elapsed_ns // _DRIFT
        if arrived_ns < self._since_ns:
            return self.stop_seq
        if self._seq <= self.low_seq:
            return self._seq
        self._is_age_known = True
        self._span_us = _span_us(arrived_ns - self._since_ns)
        self._ask_count = 0
        self.due_ns = now_ns
        return None


def _span_us(span_ns: int) -> int:
    """A duration in whole microseconds, rounded up, with what clocks drift in it."""
    return min(max(0, span_ns + span_ns // _DRIFT + _US - 1) // _US, _SPAN_US_MAX)
