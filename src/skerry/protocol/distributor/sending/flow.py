"""Measures of flow: the rate of updates, the bandwidth limit, and limits of retransmissions."""

from __future__ import annotations

from typing import Final

DISTRIBUTOR_POSITION_COUNT_MAX: Final = 100
"""Position requests that a connection sends, or answers, in one interval. Forged datagrams of new
senders cause them, and so do forged requests. Requests beyond are repeated later."""
DISTRIBUTOR_POSITION_INTERVAL_NS: Final = 200_000_000
"""That interval: 500 requests per second of about 40 bytes."""

_SECOND_NS = 1_000_000_000


class UpdateRate:
    """Updates a second, over a sliding window.

    Two windows of fixed length are counted, the present and the previous one, whose weight
    decreases as the present one progresses. So the rate does not drop to zero with each window, as
    a single count would.
    """

    def __init__(self, *, interval_ns: int, now_ns: int) -> None:
        assert interval_ns > 0
        self._interval_ns = interval_ns
        self._start_ns = now_ns
        self._count = 0
        self._before_count = 0

    def add(self, count: int, now_ns: int) -> None:
        """Count updates that were published."""
        self._roll(now_ns)
        self._count += count

    def per_s(self, now_ns: int) -> int:
        """Return the present rate."""
        self._roll(now_ns)
        left_ns = self._interval_ns - (now_ns - self._start_ns)
        # In two steps, because the product of all would not fit into a machine word.
        weighted = self._before_count * left_ns // self._interval_ns + self._count
        return weighted * _SECOND_NS // self._interval_ns

    def _roll(self, now_ns: int) -> None:
        passed = (now_ns - self._start_ns) // self._interval_ns
        if passed > 0:
            self._before_count = self._count if passed == 1 else 0
            self._count = 0
            self._start_ns += passed * self._interval_ns


class Bandwidth:
    """Bytes that may be sent in each interval. The excess is subtracted from the next ones."""

    def __init__(self, *, bit_max_per_s: int, interval_ns: int, now_ns: int) -> None:
        self._interval_ns = interval_ns
        self._allowed = bit_max_per_s * interval_ns // (8 * _SECOND_NS)
        self._end_ns = now_ns + interval_ns
        self._spent = 0
        self._bit_max_per_s = bit_max_per_s
        self.is_limited = bit_max_per_s > 0

    def spend(self, size: int, now_ns: int) -> None:
        """Count bytes that were sent."""
        if self.is_limited:
            self._roll(now_ns)
            self._spent += size

    def ready_ns(self, now_ns: int) -> int:
        """Return when more may be sent: now, or at the start of the interval that allows it."""
        if not self.is_limited:
            return now_ns
        self._roll(now_ns)
        if self._spent < self._allowed:
            return now_ns
        # This interval ends at `_end_ns`, and each one that passes reduces the excess.
        return self._end_ns + (self._spent // self._allowed - 1) * self._interval_ns

    def time_ns(self, size: int) -> int:
        """Return the time that `size` bytes take at the bandwidth limit."""
        return size * 8 * _SECOND_NS // self._bit_max_per_s if self.is_limited else 0

    def _roll(self, now_ns: int) -> None:
        if now_ns >= self._end_ns:
            passed = (now_ns - self._end_ns) // self._interval_ns + 1
            self._end_ns += passed * self._interval_ns
            # Unused bandwidth is not saved: a pause does not allow a burst later.
            self._spent = max(0, self._spent - passed * self._allowed)


class Allowance:
    """Bytes that may be retransmitted: some at first, then more with time and with new data."""

    def __init__(self, now_ns: int, *, share: int = 1) -> None:
        """`share` multiplies everything: it is the number of receivers that share the allowance."""
        self._share = share
        self._bytes = -1
        self._now_ns = now_ns
        self._sent_bytes = 0

    def refill(self, bytes_max: int, fill_ns: int, now_ns: int, sent_bytes: int) -> None:
        """Add what may be sent since the last call, up to `bytes_max`.

        That is `bytes_max` in each `fill_ns`, and as much as was sent of new data, of which there
        are `sent_bytes` in all.
        """
        bytes_max *= self._share
        if self._bytes < 0:
            self._bytes = bytes_max
        elapsed_ns = min(now_ns - self._now_ns, fill_ns)
        new_bytes = (sent_bytes - self._sent_bytes) * self._share
        more = bytes_max * elapsed_ns // fill_ns + new_bytes
        self._bytes = min(self._bytes + more, bytes_max)
        self._now_ns = now_ns
        self._sent_bytes = sent_bytes

    def has(self, size: int) -> bool:
        """Return whether `size` bytes may be retransmitted now."""
        return size <= self._bytes

    def spend(self, size: int) -> None:
        """Count bytes that are retransmitted."""
        self._bytes -= size


class SendTurns:
    """Position requests that may be sent, or answered, in each interval."""

    def __init__(self) -> None:
        self._end_ns = 0
        self._count = 0

    def take(self, now_ns: int) -> bool:
        """Use one of the turns of this interval; return False if there is none left."""
        if now_ns >= self._end_ns:
            self._end_ns = now_ns + DISTRIBUTOR_POSITION_INTERVAL_NS
            self._count = 0
        self._count += 1
        return self._count <= DISTRIBUTOR_POSITION_COUNT_MAX
