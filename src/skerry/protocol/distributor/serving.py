"""Answers to requests: each datagram once, however many ask for it, and not all in one burst.

A request waits for the server holdback, in which further ones for the same numbers change nothing.
Then what is kept goes out in rising order, in portions that a receiver's buffer takes, and numbers
that are gone are told as gone. For one more holdback the same numbers are not answered again: those
requests were on their way when the answer was sent.
"""

from __future__ import annotations

from itertools import islice

from skerry.limits import (
    DISTRIBUTOR_NAK_COUNT_MAX,
    DISTRIBUTOR_RESEND_BYTES_MAX,
    DISTRIBUTOR_RESEND_INTERVAL_NS,
)
from skerry.protocol.distributor.history import History

__all__ = ["Server"]


class Server:
    """What of a sender's history has to be sent again, and when."""

    def __init__(self, history: History, *, holdback_ns: int, bytes_max: int) -> None:
        """No more than `bytes_max` wait; what is asked for beyond is not answered now."""
        self._history = history
        self._holdback_ns = holdback_ns
        self._bytes_max = bytes_max
        # The bytes themselves are held: the history may let go of them in the meantime.
        self._waiting: dict[int, bytes] = {}
        self._waiting_bytes = 0
        self._gone: dict[int, None] = {}
        self._answered: dict[int, int] = {}
        self._is_sorted = True
        self.due_ns: int | None = None
        """When there is something to send."""

    def __len__(self) -> int:
        """How many datagrams wait to be sent again."""
        return len(self._waiting)

    def request(self, first_seq: int, stop_seq: int, now_ns: int) -> None:
        """Somebody asks for these. What was never sent is not answered."""
        stop_seq = min(stop_seq, self._history.stop_seq)
        self._forget_answered(now_ns)
        found = False
        for seq in range(max(first_seq, self._history.first_seq), stop_seq):
            if seq in self._waiting or seq in self._answered:
                continue
            datagram = self._history.find(seq)
            assert datagram is not None
            # The history goes on while this waits, so all that is asked for could be any number
            # of histories. Who asked will ask again.
            if self._waiting_bytes + len(datagram) > self._bytes_max:
                break
            self._waiting[seq] = datagram
            self._waiting_bytes += len(datagram)
            self._is_sorted = False
            found = True
        for seq in range(first_seq, min(stop_seq, self._history.first_seq)):
            if len(self._gone) >= DISTRIBUTOR_NAK_COUNT_MAX:
                break
            # What waits is still sent, though the history let go of it.
            if seq not in self._answered and seq not in self._waiting:
                self._gone[seq] = None
                found = True
        if found and self.due_ns is None:
            self.due_ns = now_ns + self._holdback_ns

    def take_due(self, now_ns: int) -> tuple[list[bytes], list[int]]:
        """The datagrams that are to be sent again now, and the numbers that are gone."""
        if self.due_ns is None or now_ns < self.due_ns:
            return [], []
        gone, self._gone = sorted(self._gone), {}
        datagrams = self._take_portion(now_ns)
        self._answered.update(dict.fromkeys(gone, now_ns))
        self.due_ns = now_ns + DISTRIBUTOR_RESEND_INTERVAL_NS if self._waiting else None
        return datagrams, gone

    def _take_portion(self, now_ns: int) -> list[bytes]:
        if not self._is_sorted:
            self._waiting = dict(sorted(self._waiting.items()))
            self._is_sorted = True
        datagrams: list[bytes] = []
        size = 0
        for seq, datagram in self._waiting.items():
            if size >= DISTRIBUTOR_RESEND_BYTES_MAX:
                break
            datagrams.append(datagram)
            size += len(datagram)
            self._answered[seq] = now_ns
        for seq in list(islice(self._waiting, len(datagrams))):
            del self._waiting[seq]
        self._waiting_bytes -= size
        return datagrams

    def _forget_answered(self, now_ns: int) -> None:
        """Numbers are kept in the order in which they were answered, so the old ones are first."""
        old = []
        for seq, answered_ns in self._answered.items():
            if now_ns - answered_ns < self._holdback_ns:
                break
            old.append(seq)
        for seq in old:
            del self._answered[seq]
