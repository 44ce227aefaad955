"""Datagrams that were sent, kept for those who lost them: up to so many bytes, and so long."""

from __future__ import annotations

from collections import deque

__all__ = ["History"]


class History:
    """The last datagrams of a sender, by their number. The oldest go first."""

    def __init__(self, *, bytes_max: int, age_ns_max: int, next_seq: int = 1) -> None:
        """`age_ns_max` 0 keeps them until there is no room."""
        self._bytes_max = bytes_max
        self._age_ns_max = age_ns_max
        # Numbers follow one another without a gap, so a place in the queue is a number.
        self._datagrams: deque[tuple[bytes, int]] = deque()
        self._first_seq = next_seq
        self.size = 0
        """Bytes that are kept."""

    def __len__(self) -> int:
        return len(self._datagrams)

    @property
    def first_seq(self) -> int:
        """The number of the oldest one kept; the next to come when there is none."""
        return self._first_seq

    @property
    def stop_seq(self) -> int:
        """The number after the newest one."""
        return self._first_seq + len(self._datagrams)

    def add(self, seq: int, datagram: bytes, now_ns: int) -> None:
        """Keep a datagram. Its number follows that of the last one."""
        assert seq == self.stop_seq
        self._datagrams.append((datagram, now_ns))
        self.size += len(datagram)
        while self.size > self._bytes_max:
            self._drop_oldest()

    def find(self, seq: int) -> bytes | None:
        """The datagram of this number, if it is still there."""
        index = seq - self._first_seq
        return self._datagrams[index][0] if 0 <= index < len(self._datagrams) else None

    def clean(self, now_ns: int) -> None:
        """Let go of those that are too old."""
        if self._age_ns_max:
            while self._datagrams and now_ns - self._datagrams[0][1] >= self._age_ns_max:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        datagram, _ = self._datagrams.popleft()
        self._first_seq += 1
        self.size -= len(datagram)
