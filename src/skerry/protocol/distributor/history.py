"""Datagrams that were sent, kept for those who lost them: up to so many bytes, and so long."""

from __future__ import annotations

from typing import Final

__all__ = ["History"]

_SPENT_COUNT_MIN: Final = 256


class History:
    """The last datagrams of a sender, by their number. The oldest go first."""

    def __init__(self, *, bytes_max: int, age_ns_max: int, next_seq: int = 1) -> None:
        """`age_ns_max` 0 keeps them until there is no room."""
        self._bytes_max = bytes_max
        self._age_ns_max = age_ns_max
        # Numbers follow one another without a gap, so a place in the list is a number. The first
        # places are empty where datagrams were let go; they are taken away many at a time.
        self._datagrams: list[bytes] = []
        self._times_ns: list[int] = []
        self._spent_count = 0
        self._first_seq = next_seq
        self._limit_bytes = bytes_max
        """Bytes that are kept now: the pieces of the last large update count extra."""
        self._large_stop_seq = next_seq
        self.size = 0
        """Bytes that are kept."""

    def __len__(self) -> int:
        return len(self._datagrams) - self._spent_count

    @property
    def first_seq(self) -> int:
        """The number of the oldest one kept; the next to come when there is none."""
        return self._first_seq

    @property
    def stop_seq(self) -> int:
        """The number after the newest one."""
        return self._first_seq + len(self._datagrams) - self._spent_count

    def add(self, seq: int, datagram: bytes, now_ns: int) -> None:
        """Keep a datagram. Its number follows that of the last one."""
        assert seq == self.stop_seq
        self._datagrams.append(datagram)
        self._times_ns.append(now_ns)
        self.size += len(datagram)
        while self.size > self._limit_bytes:
            self._drop_oldest()

    def add_large(self, seq: int, datagrams: list[bytes], now_ns: int) -> None:
        """Keep the pieces of one update. All of them are kept until `bytes_max` more were added:
        with a part of them gone, none of the others would be of use to a receiver.
        """
        if self._bytes_max:
            self._limit_bytes = self._bytes_max + sum(map(len, datagrams))
        self._large_stop_seq = seq + len(datagrams)
        for index, datagram in enumerate(datagrams):
            self.add(seq + index, datagram, now_ns)

    def find(self, seq: int) -> bytes | None:
        """The datagram of this number, if it is still there."""
        index = seq - self._first_seq
        return self._datagrams[self._spent_count + index] if 0 <= index < len(self) else None

    def clean(self, now_ns: int) -> None:
        """Let go of those that are too old."""
        if self._age_ns_max:
            while len(self) and now_ns - self._times_ns[self._spent_count] >= self._age_ns_max:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        spent = self._spent_count
        self._first_seq += 1
        if self._first_seq == self._large_stop_seq:
            self._limit_bytes = self._bytes_max
        self.size -= len(self._datagrams[spent])
        self._datagrams[spent] = b""
        spent += 1
        if spent >= _SPENT_COUNT_MIN and 2 * spent >= len(self._datagrams):
            del self._datagrams[:spent]
            del self._times_ns[:spent]
            spent = 0
        self._spent_count = spent
