"""Missing datagrams of one sender: when to request them, when to give up, and what waits for them.

Every receiver of a group detects the same loss at the same time. So each waits for a random time
before its request, and a request of another receiver for the same numbers counts as its own. A
request is repeated if the answer is not received in time, and the numbers are given up after a
number of requests. Numbers here do not wrap; see `Receiver`.
"""

from __future__ import annotations

from random import Random
from typing import Final

from skerry.protocol.distributor.receiving.stream_delivery import DatagramContent

DISTRIBUTOR_REQUEST_COUNT_MAX: Final = 100
"""Repair requests of one stream at a time, one for each gap. Further gaps are requested a moment
later, so that repair does not use the bandwidth of data."""

HURRY: Final = 8
"""Requests to a sender that is leaving are repeated this many times as often."""


class Gaps:
    def __init__(
        self, *, delay_ns_max: int, timeout_ns: int, retry_count_max: int, rng: Random
    ) -> None:
        self._delay_ns_max = delay_ns_max
        self._timeout_ns = timeout_ns
        self._retry_count_max = retry_count_max
        self._usual = timeout_ns, retry_count_max
        self._rng = rng
        self._missing: dict[int, _Ask] = {}
        self.recovered_count = 0
        """Numbers that were received after a request of this or of another receiver."""
        self.answer_count = 0
        """Those that were requested once. For others it is unknown which request was answered."""
        self.answer_ns = 0
        """The sum of the response times of these."""
        self.due_ns: int | None = None
        """When to call `take_due`; not later than the first request is due."""
        self.is_hurried = False
        """Whether the sender is about to leave."""

    def __len__(self) -> int:
        return len(self._missing)

    def __contains__(self, seq: int) -> bool:
        return seq in self._missing

    def open(self, first_seq: int, stop_seq: int, now_ns: int) -> None:
        """Add a range of missing numbers."""
        ask = _Ask(now_ns + self._delay_ns(), 0, now_ns)
        self._missing.update(dict.fromkeys(range(first_seq, stop_seq), ask))
        self._due_at(ask.due_ns)

    def hurry(self, now_ns: int) -> None:
        """Repeat requests sooner and more often, because the sender is about to leave."""
        if self.is_hurried:
            return
        self.is_hurried = True
        self._timeout_ns = max(1, self._timeout_ns // HURRY)
        self._retry_count_max = self._retry_count_max * HURRY + HURRY - 1
        latest_ns = now_ns + self._timeout_ns
        for seq, ask in self._missing.items():
            if ask.due_ns > latest_ns:
                self._missing[seq] = _Ask(latest_ns, ask.count, ask.asked_ns)
        if self._missing:
            self._due_at(latest_ns)

    def end_hurry(self) -> None:
        """Undo `hurry`, because the sender stays after all."""
        if self.is_hurried:
            self.is_hurried = False
            self._timeout_ns, self._retry_count_max = self._usual

    def close(self, seq: int) -> None:
        """Remove a number, whether it was missing or not."""
        self._missing.pop(seq, None)

    def received(self, seq: int, now_ns: int) -> None:
        """Remove a number that was received, whether it was missing or not, and count it."""
        ask = self._missing.pop(seq, None)
        if ask is not None and ask.count:
            self.recovered_count += 1
            if ask.count == 1:
                self.answer_count += 1
                self.answer_ns += now_ns - ask.asked_ns

    def close_all(self) -> list[int]:
        """Remove all numbers and return them in ascending order."""
        seqs = sorted(self._missing)
        self._missing.clear()
        self.due_ns = None
        return seqs

    def requested_by_another(self, first_seq: int, stop_seq: int, now_ns: int) -> None:
        """Process a request of another receiver for these numbers."""
        # A request shortly before ours makes ours superfluous. A request while an answer is
        # outstanding has no effect: otherwise other receivers could delay ours for ever.
        soon_ns = now_ns + self._delay_ns_max
        again: dict[int, _Ask] = {}
        for seq in self._within(first_seq, stop_seq):
            ask = self._missing[seq]
            if ask.due_ns <= soon_ns:
                self._missing[seq] = self._again(ask, again, now_ns)
        for ask in again.values():
            self._due_at(ask.due_ns)

    def asked_once(self) -> list[int]:
        """Return the numbers that were requested by this or another receiver, ascending."""
        return sorted(seq for seq, ask in self._missing.items() if ask.count)

    def take_due(self, now_ns: int) -> tuple[list[tuple[int, int]], list[int]]:
        """Return the ranges to request now, and the numbers that are given up and removed."""
        if self.due_ns is None or now_ns < self.due_ns:
            return [], []
        due = sorted(seq for seq, ask in self._missing.items() if ask.due_ns <= now_ns)
        given_up = [seq for seq in due if self._missing[seq].count > self._retry_count_max]
        for seq in given_up:
            del self._missing[seq]
        ranges = runs([seq for seq in due if seq in self._missing])
        again: dict[int, _Ask] = {}
        for first_seq, stop_seq in ranges[:DISTRIBUTOR_REQUEST_COUNT_MAX]:
            for seq in range(first_seq, stop_seq):
                self._missing[seq] = self._again(self._missing[seq], again, now_ns)
        # Too many gaps for one moment: the rest is requested after these.
        for first_seq, stop_seq in ranges[DISTRIBUTOR_REQUEST_COUNT_MAX:]:
            for seq in range(first_seq, stop_seq):
                ask = self._missing[seq]
                due_ns = now_ns + max(1, self._delay_ns_max)
                self._missing[seq] = _Ask(due_ns, ask.count, ask.asked_ns)
        self.due_ns = min((ask.due_ns for ask in self._missing.values()), default=None)
        return ranges[:DISTRIBUTOR_REQUEST_COUNT_MAX], given_up

    def _again(self, ask: _Ask, again: dict[int, _Ask], now_ns: int) -> _Ask:
        """Return the next request of numbers that were just requested; equal ones share it."""
        count = ask.count + 1
        if count not in again:
            due_ns = now_ns + self._timeout_ns + self._delay_ns()
            again[count] = _Ask(due_ns, count, now_ns)
        return again[count]

    def _within(self, first_seq: int, stop_seq: int) -> list[int]:
        # A request may name billions of numbers, and few may be missing: walk the smaller set.
        if stop_seq - first_seq > len(self._missing):
            return [seq for seq in self._missing if first_seq <= seq < stop_seq]
        return [seq for seq in range(first_seq, stop_seq) if seq in self._missing]

    def _delay_ns(self) -> int:
        return self._rng.randrange(self._delay_ns_max) if self._delay_ns_max else 0

    def _due_at(self, due_ns: int) -> None:
        if self.due_ns is None or due_ns < self.due_ns:
            self.due_ns = due_ns


def runs(seqs: list[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as ranges of consecutive ones."""
    found: list[tuple[int, int]] = []
    for seq in seqs:
        if found and found[-1][1] == seq:
            found[-1] = (found[-1][0], seq + 1)
        else:
            found.append((seq, seq + 1))
    return found


class _Ask:
    """When numbers are requested next, how often they were, and when last."""

    __slots__ = ("asked_ns", "count", "due_ns")

    def __init__(self, due_ns: int, count: int, asked_ns: int) -> None:
        self.due_ns = due_ns
        self.count = count
        self.asked_ns = asked_ns


class ReorderBuffer:
    """The bytes that wait, of all streams of a connection together."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.size = 0
        """Bytes that wait now."""

    def has_room_for(self, size: int) -> bool:
        """Return whether this many more bytes may wait."""
        return self.size + size <= self._bytes_max


class WaitingDatagrams:
    """The datagrams of one stream that wait, by their number."""

    def __init__(self, room: ReorderBuffer) -> None:
        self._room = room
        self.contents: dict[int, DatagramContent] = {}
        self.size = 0
        """Bytes of these datagrams."""

    def __len__(self) -> int:
        return len(self.contents)

    def is_full(self, size: int) -> bool:
        """Return whether there is no room for `size` more bytes; the first one always has room."""
        return len(self.contents) > 0 and not self._room.has_room_for(size)

    def add(self, seq: int, content: DatagramContent) -> None:
        self.contents[seq] = content
        self.size += len(content[1])
        self._room.size += len(content[1])

    def pop(self, seq: int) -> DatagramContent | None:
        """Take out a datagram; None if it does not wait."""
        content = self.contents.pop(seq, None)
        if content is not None:
            self.size -= len(content[1])
            self._room.size -= len(content[1])
        return content

    def drop_before(self, seq: int) -> None:
        """Discard the datagrams before this number."""
        for old_seq in [waiting for waiting in self.contents if waiting < seq]:
            self.pop(old_seq)

    def clear(self) -> None:
        self.contents.clear()
        self._room.size -= self.size
        self.size = 0
