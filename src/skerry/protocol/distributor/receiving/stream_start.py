"""The number with which a stream begins for a receiver that joined.

The numbers that a sender published since the subscription have to be delivered or reported, and
those from before are not requested. `StreamStart` decides by the first message of the sender. If
the sender is able to answer, a `StartSearch` asks it. The clocks of two computers do not agree, so
only durations are compared: the receiver knows how long after its subscription a datagram arrived,
and the sender knows which datagrams it published in that time before this one.

1. If the first message received is data, the receiver asks what was published in that span before.
2. If it is a heartbeat, which names the last number, the receiver asks how long ago that was
   published. If it was after the subscription, the receiver continues with step 1 for that number,
   unless no lower number is possible.

A duration that one computer measured is used by the other, so it is extended by the possible clock
drift.
"""

from __future__ import annotations

import enum
from random import Random
from typing import Final

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.messages import START, UPDATE, Position

ASK_COUNT_MAX: Final = 16
"""Requests after which a sender is not expected to answer: at 30 % loss in each direction, one in
fifty thousand searches ends without an answer."""
FIRST_SEQ: Final = 1
"""The number of the first datagram of every sender."""
LAP: Final = 0x1_0000_0000
"""Numbers on the wire have 32 bits; the receiver counts on after they wrap."""
_MS: Final = 1_000_000
_US: Final = 1000
_ASK_PARTS: Final = 4
"""A sender is asked this many times in a request timeout."""
_DRIFT: Final = 1024
"""Clocks of two computers drift apart by less than one part in this many."""
_SPAN_US_MAX: Final = 1 << 62
_QUICK_COUNT: Final = 4
"""The first requests are repeated sooner: after an eighth of the usual time, a quarter, a half.
Received datagrams wait for the answer, and a sender that is leaving does not stay for long."""


class StreamOrigin(enum.Enum):
    """What a receiver knows about the start of a stream whose first datagram it did not receive,
    if the sender does not answer position requests."""

    UNKNOWN = "unknown"
    """The sender may have sent before this connection listened: the stream begins with the first
    datagram that is received, and `StartUnknown` is reported."""
    SILENT = "silent"
    """Nothing was received from the sender in several heartbeats of listening, so its first
    datagram was sent in that time, unless it had no publisher."""
    STARTED = "started"
    """The sender started after this connection began to listen: its whole stream is requested."""


class Beginning:
    """The decision where a stream begins."""

    def __init__(self, next_seq: int, highest_seq: int, unknown_seq: int | None = None) -> None:
        self.next_seq = next_seq
        """The first number of the stream, as far as it is known."""
        self.highest_seq = highest_seq
        """The highest number that the sender is known to have sent, at least `next_seq - 1`."""
        self.unknown_seq = unknown_seq
        """Datagrams from this one up to `next_seq` may be missing; None if none are."""


class StreamStart:
    """Decides where the stream of one sender begins. Numbers do not wrap here; see `Receiver`."""

    def __init__(
        self,
        *,
        origin: StreamOrigin,
        since_ns: int | None,
        is_asked: bool,
        config: DistributorConfig,
        gap_count_max: int,
        rng: Random,
    ) -> None:
        """`since_ns` is the time of the subscription, and `is_asked` whether the sender answers
        position requests.
        """
        self.origin = origin
        self.since_ns = since_ns
        self.search: StartSearch | None = None
        """The search for the first number, while the sender is asked."""
        self._is_asked = is_asked
        self._retry_ns = max(1, config.request_timeout_ms * _MS // _ASK_PARTS)
        self._delay_ns_max = config.request_delay_ms_max * _MS
        self._gap_count_max = gap_count_max
        self._rng = rng

    def reset(self) -> None:
        """Forget the subscription."""
        self.origin = StreamOrigin.UNKNOWN
        self.since_ns = None
        self.search = None

    def at_data(
        self, datagram: bytes, seq: int, known_seq: int | None, now_ns: int
    ) -> Beginning | None:
        """Decide at datagram `seq`, the first that is received; None to ignore the datagram.

        `known_seq` is the next number of a stream that was received before, else None.
        """
        is_retransmission = datagram[2] != UPDATE
        if self._is_asked and self.since_ns is not None:
            # A retransmission answers a request of another receiver, about an earlier time.
            return None if is_retransmission else self._ask(seq, known_seq, now_ns, is_data=True)
        if self.origin is not StreamOrigin.UNKNOWN:
            whole = self._whole(seq, known_seq)
            if whole is not None:
                return whole
        if is_retransmission or not datagram[3] & START:
            return None
        seq = self._lapped(seq, known_seq)
        if known_seq is not None and seq < known_seq:
            return None
        return self._unknown(seq, known_seq)

    def at_heartbeat(self, last_seq: int, known_seq: int | None, now_ns: int) -> Beginning | None:
        """Decide at a heartbeat, which names the last number; None to ignore the heartbeat."""
        if self.origin is StreamOrigin.STARTED:
            whole = self._whole(last_seq, known_seq)
            if whole is not None:
                return whole
        # The sender is idle now, so the next datagram begins an update.
        if known_seq is not None and last_seq + 1 < known_seq:
            return None
        if self._is_asked and self.since_ns is not None:
            return self._ask(last_seq, known_seq, now_ns, is_data=False)
        return self._unknown(last_seq + 1, known_seq)

    def _whole(self, seq: int, known_seq: int | None) -> Beginning | None:
        """Begin with the first datagram of a sender that is now at `seq`; None if that is too old
        to be requested."""
        if known_seq is not None or not 0 <= seq <= self._gap_count_max:
            return None
        return Beginning(FIRST_SEQ, FIRST_SEQ - 1)

    def _unknown(self, next_seq: int, known_seq: int | None) -> Beginning:
        """Begin here, though it is not known whether datagrams before this one are missing."""
        first_seq = self._lowest_seq(next_seq, known_seq)
        is_reported = first_seq < next_seq and self.since_ns is not None
        return Beginning(next_seq, next_seq - 1, first_seq if is_reported else None)

    def _ask(
        self, seq: int, known_seq: int | None, now_ns: int, *, is_data: bool
    ) -> Beginning | None:
        """Search the first number of the stream; None if `seq` is too old for that.

        `seq` was received, or is the last number that a heartbeat names.
        """
        assert self.since_ns is not None
        seq = self._lapped(seq + 1, known_seq) - 1
        stop_seq = seq if is_data else seq + 1
        lowest_seq = self._lowest_seq(stop_seq, known_seq)
        if stop_seq < lowest_seq:
            return None
        low_seq = max(lowest_seq, stop_seq - self._gap_count_max)
        if low_seq < stop_seq:
            # Data waits for the answer. A heartbeat is received by all at once, and can wait.
            delay_ns_max = 0 if is_data else self._delay_ns_max
            self.search = StartSearch(
                seq=seq,
                low_seq=low_seq,
                lowest_seq=lowest_seq,
                is_data=is_data,
                since_ns=self.since_ns,
                now_ns=now_ns,
                retry_ns=self._retry_ns,
                delay_ns=self._rng.randrange(delay_ns_max) if delay_ns_max else 0,
            )
        return Beginning(low_seq, stop_seq - 1)

    def _lowest_seq(self, seq: int, known_seq: int | None) -> int:
        """Return the lowest number that a stream which is at `seq` may begin with."""
        if known_seq is not None:
            return known_seq
        # A number that is not positive is more than half a lap ahead.
        return FIRST_SEQ if seq >= FIRST_SEQ else seq - self._gap_count_max

    def _lapped(self, seq: int, known_seq: int | None) -> int:
        """Return the number a lap ahead if this one is too far behind; see `Receiver`."""
        is_lapped = known_seq is not None and known_seq - seq > self._gap_count_max
        return seq + LAP if is_lapped else seq


class StartSearch:
    """The position requests of one receiver to one sender, and their answers."""

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
        """When to send the next request."""

    def take_request(self, now_ns: int) -> tuple[int, int] | None:
        """Return number and span of the request to be sent now; None if none is due."""
        if now_ns < self.due_ns:
            return None
        self._ask_count += 1
        self.due_ns = now_ns + (self._retry_ns >> max(0, _QUICK_COUNT - self._ask_count))
        return self._seq, self._span_us

    def postpone(self, now_ns: int) -> None:
        """Send the request later, because too many requests are being sent now."""
        self.due_ns = now_ns + self._retry_ns

    def is_over(self, now_ns: int) -> bool:
        """Return whether the sender has not answered and is not asked again."""
        return self._ask_count >= ASK_COUNT_MAX and now_ns >= self.due_ns

    def answered(self, position: Position, seq: int, first_seq: int, now_ns: int) -> int | None:
        """Return the first number of the stream by this answer.

        None if the answer is to another request, or if one more request is needed. `seq` and
        `first_seq` are the numbers of the answer, not wrapped.
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
    """Return a duration in whole microseconds, rounded up and extended by the clock drift."""
    return min(max(0, span_ns + span_ns // _DRIFT + _US - 1) // _US, _SPAN_US_MAX)
