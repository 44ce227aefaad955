"""Sent datagrams, kept for retransmission up to a number of bytes and an age.

A hot module. Of datagrams with large updates only the parts are kept, heads and data as they were
published: a copy of each datagram would be written to memory outside the CPU cache, which costs
more than the rest of sending. The few datagrams that are requested are assembled again.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from skerry.protocol.distributor.messages import HEADER_BYTES

_U32: Final = 0xFFFFFFFF

_SPENT_COUNT_MIN: Final = 256
_LONG_AGO_NS: Final = -(1 << 62)


class SendHistory:
    """The last datagrams of a sender, by their number. The oldest are dropped first."""

    def __init__(self, *, bytes_max: int, age_ns_max: int, next_seq: int = 1) -> None:
        """With `age_ns_max` 0 they are kept until there is no room."""
        self.bytes_max = bytes_max
        """Bytes that are kept, in addition to the last large update."""
        self._age_ns_max = age_ns_max
        # Numbers are consecutive, so an index in the list is a number. The first entries are empty
        # where datagrams were dropped; many of them are removed at once.
        self._datagrams: list[bytes] = []
        """Datagrams; empty bytes where only the parts are kept."""
        self._sizes: list[int] = []
        self._part_stops: list[int] = []
        """The end of the parts of each datagram, counted from the first part of all."""
        self.parts: list[bytes] = []
        """Heads and data of updates in order; those of the open datagram are at the end. Always the
        same list object."""
        self._parts_gone_count = 0
        """Parts that were removed from the beginning of the list."""
        self._first_part = 0
        """The start of the parts of the oldest datagram, counted as above."""
        self.header = bytes(HEADER_BYTES)
        """The first bytes of a datagram that is assembled again."""
        self._times_ns: list[int] = []
        self._begun_ns = 0
        """When the first datagram was added."""
        self._dropped_ns = _LONG_AGO_NS
        """When the last datagram whose entry was removed had been added."""
        self._begin_seq = next_seq
        self._spent_count = 0
        self.first_seq = next_seq
        """The number of the oldest datagram that is kept; the next number if there is none."""
        self._limit_bytes = bytes_max
        """Bytes that may be kept now: the pieces of the last large update are kept in addition."""
        self._large_stop_seq = next_seq
        self.size = 0

    def __len__(self) -> int:
        return len(self._datagrams) - self._spent_count

    @property
    def stop_seq(self) -> int:
        """The number after the newest datagram."""
        return self.first_seq + len(self._datagrams) - self._spent_count

    def add(self, seq: int, datagram: bytes, now_ns: int) -> None:
        """Keep a datagram, whose number follows the last one."""
        self._add(seq, datagram, len(datagram), now_ns)

    def add_parts(self, seq: int, size: int, now_ns: int) -> None:
        """Keep a datagram of this size by its parts, which were added to `parts`."""
        self._add(seq, b"", size, now_ns)

    def add_large(self, seq: int, datagrams: list[bytes], now_ns: int) -> None:
        """Keep the pieces of one update. All of them are kept until `bytes_max` more were added,
        because a receiver cannot use some without the others.
        """
        if self.bytes_max:
            self._limit_bytes = self.bytes_max + sum(map(len, datagrams))
        self._large_stop_seq = seq + len(datagrams)
        for index, datagram in enumerate(datagrams):
            self.add(seq + index, datagram, now_ns)

    def find(self, seq: int) -> bytes | None:
        """Return the datagram of this number; None if it is not kept."""
        index = seq - self.first_seq
        if not 0 <= index < len(self):
            return None
        entry = self._spent_count + index
        return self._datagrams[entry] or self._joined(seq, entry)

    def time_ns(self, seq: int) -> int:
        """Return when a datagram was added; the latest possible time if it was dropped, and long
        ago for the number before the first one."""
        index = seq - self.first_seq
        return self._last_gone_ns() if index < 0 else self._times_ns[self._spent_count + index]

    def first_since(self, seq: int, span_ns: int) -> int:
        """Return the first datagram that was added at most `span_ns` before datagram `seq`.

        If some of these were dropped, it is the first of all if none is older, and else the last
        one that was dropped: a receiver that requests it receives a NAK.
        """
        since_ns = self.time_ns(seq) - span_ns
        is_gone = seq < self.first_seq
        if is_gone or (self.first_seq > self._begin_seq and self._last_gone_ns() >= since_ns):
            if self._begun_ns >= since_ns:
                return self._begin_seq
            return max(self._begin_seq, seq - 1) if is_gone else self.first_seq - 1
        spent = self._spent_count
        stop = spent + seq - self.first_seq
        return self.first_seq + bisect_left(self._times_ns, since_ns, spent, stop) - spent

    def clean(self, now_ns: int) -> None:
        """Drop the datagrams that are too old."""
        if self._age_ns_max:
            while len(self) and now_ns - self._times_ns[self._spent_count] >= self._age_ns_max:
                self._drop_oldest()

    def _add(self, seq: int, datagram: bytes, size: int, now_ns: int) -> None:
        assert seq == self.stop_seq
        if seq == self._begin_seq:
            self._begun_ns = now_ns
        self._datagrams.append(datagram)
        self._sizes.append(size)
        self._part_stops.append(self._parts_gone_count + len(self.parts))
        self._times_ns.append(now_ns)
        self.size += size
        while self.size > self._limit_bytes:
            self._drop_oldest()

    def _last_gone_ns(self) -> int:
        """Return when the last dropped datagram had been added; long ago if there is none."""
        spent = self._spent_count
        return self._times_ns[spent - 1] if spent else self._dropped_ns

    def _joined(self, seq: int, entry: int) -> bytes:
        """Return a datagram as it was sent, assembled from its parts."""
        start = self._first_part if entry == self._spent_count else self._part_stops[entry - 1]
        first = start - self._parts_gone_count
        stop = self._part_stops[entry] - self._parts_gone_count
        pieces = [self.header, (seq & _U32).to_bytes(4, "big")]
        pieces.append(((stop - first) // 2).to_bytes(4, "big"))
        for index in range(first, stop, 2):
            data = self.parts[index + 1]
            pieces += (self.parts[index], len(data).to_bytes(4, "big"), data)
        return b"".join(pieces)

    def _drop_oldest(self) -> None:
        spent = self._spent_count
        stop = self._part_stops[spent]
        index = self._first_part - self._parts_gone_count
        while index < stop - self._parts_gone_count:
            self.parts[index] = b""
            index += 1
        self._first_part = stop
        self.first_seq += 1
        if self.first_seq == self._large_stop_seq:
            self._limit_bytes = self.bytes_max
        self.size -= self._sizes[spent]
        self._datagrams[spent] = b""
        spent += 1
        if spent >= _SPENT_COUNT_MIN and 2 * spent >= len(self._datagrams):
            self._dropped_ns = self._times_ns[spent - 1]
            del self._datagrams[:spent]
            del self._times_ns[:spent]
            del self._sizes[:spent]
            del self._part_stops[:spent]
            del self.parts[: self._first_part - self._parts_gone_count]
            self._parts_gone_count = self._first_part
            spent = 0
        self._spent_count = spent
