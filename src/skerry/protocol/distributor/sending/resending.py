"""Answers to repair requests: each datagram once for all receivers, and not all in one burst.

A request waits for the server holdback, in which others for the same numbers have no effect. Then
the datagrams in the history are sent again in ascending order, in portions that fit a receiver's
buffer and obey the bandwidth limit, and numbers that are no longer kept are named in a NAK. A
number that was answered is not answered again before a receiver could have missed the answer and
repeated its request.

A request of 50 bytes may ask for the whole history, so retransmissions are bounded also without a
bandwidth limit: for each receiver the whole history once, once more in the time in which a receiver
gives up, and as much as is sent of new data; for all together twice that, because a forged request
may name any receiver. Requests beyond are not answered; receivers repeat them.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from skerry.limits import DISTRIBUTOR_GAP_COUNT_MAX
from skerry.protocol.distributor.sending.flow import Allowance
from skerry.protocol.distributor.sending.history import SendHistory

DISTRIBUTOR_NAK_COUNT_MAX: Final = 16_384
"""Sequence numbers that one answer reports as lost. A request may name billions of them."""
DISTRIBUTOR_REQUESTER_COUNT_MAX: Final = 64
"""Receivers whose requests a sender counts. The one that has not requested anything for the longest
time is forgotten first."""
DISTRIBUTOR_RESEND_BYTES_MAX: Final = 65_536
"""Bytes that are sent again at once: a part of the default receive buffer of a socket. If it
overflowed, they would be lost again."""
DISTRIBUTOR_RESEND_INTERVAL_NS: Final = 1_000_000
"""Time between two such transmissions, which makes half a gigabit per second."""

_SECOND_NS: Final = 1_000_000_000
_PORTION_NS: Final = 10_000_000
"""Under a bandwidth limit a portion is what may be sent in this time, or one datagram."""
_REPAIR_NS: Final = 8 * _SECOND_NS
_SHARE: Final = 2
"""All receivers together may cause as much as this many of them."""


class Resender:
    def __init__(
        self,
        history: SendHistory,
        *,
        holdback_ns: int,
        bytes_max: int,
        again_ns: int = 0,
        bit_max_per_s: int = 0,
        repair_ns: int = _REPAIR_NS,
    ) -> None:
        """At most `bytes_max` are queued; requests beyond that are not answered now.

        `again_ns` is the time in which a number is not answered twice, at least the holdback.
        `bit_max_per_s` limits retransmissions; 0 is 64 KiB a millisecond. `repair_ns` is the time
        in which a receiver may request the whole history once more.
        """
        self._repair_ns = repair_ns
        self._requesters: dict[bytes, Allowance] = {}
        """The allowance of each receiver; the receiver of the last request is at the end."""
        self._all = Allowance(0, share=_SHARE)
        self._history = history
        self._holdback_ns = holdback_ns
        self.again_ns = max(again_ns, holdback_ns)
        self._bit_max_per_s = bit_max_per_s
        self._portion_bytes = DISTRIBUTOR_RESEND_BYTES_MAX
        if bit_max_per_s:
            portion_bytes = bit_max_per_s * _PORTION_NS // (8 * _SECOND_NS)
            self._portion_bytes = min(portion_bytes, DISTRIBUTOR_RESEND_BYTES_MAX)
        self._bytes_max = bytes_max
        # The bytes themselves are kept, because the history may drop them meanwhile.
        self._waiting: dict[int, bytes] = {}
        self._waiting_bytes = 0
        self._gone: dict[int, None] = {}
        self._gone_told: dict[int, int] = {}
        self._answered: dict[int, int] = {}
        self._is_sorted = True
        self._free_ns = 0
        """When the bandwidth limit allows another portion."""
        self.due_ns: int | None = None
        """When there is something to send."""

    def __len__(self) -> int:
        """Return the number of datagrams that wait to be sent again."""
        return len(self._waiting)

    def request(
        self,
        first_seq: int,
        stop_seq: int,
        now_ns: int,
        requester: bytes = b"",
        sent_bytes: int = 0,
    ) -> None:
        """Queue what a receiver requests. Numbers that were never sent are ignored.

        `sent_bytes` is how much new data was sent in all.
        """
        stop_seq = min(stop_seq, self._history.stop_seq)
        _forget(self._answered, now_ns - self.again_ns)
        _forget(self._gone_told, now_ns - self.again_ns)
        self._queue(first_seq, stop_seq, self._allowance(requester, now_ns, sent_bytes))
        # Numbers further back are not requested by a receiver that kept up with this sender.
        oldest_seq = self._history.first_seq
        for seq in range(
            max(first_seq, oldest_seq - DISTRIBUTOR_GAP_COUNT_MAX), min(stop_seq, oldest_seq)
        ):
            if len(self._gone) >= DISTRIBUTOR_NAK_COUNT_MAX:
                break
            # A datagram that waits is still sent, though the history has dropped it.
            if seq not in self._gone_told and seq not in self._waiting:
                self._gone[seq] = None
        if self.due_ns is None and (self._waiting or self._gone):
            self.due_ns = max(now_ns + self._holdback_ns, self._free_ns)

    def take_due(self, now_ns: int) -> tuple[list[bytes], list[int]]:
        """Return the datagrams to be sent again now, and the numbers that are no longer kept."""
        if self.due_ns is None or now_ns < self.due_ns:
            return [], []
        gone, self._gone = sorted(self._gone), {}
        datagrams, size = self._take_portion(now_ns)
        self._gone_told.update(dict.fromkeys(gone, now_ns))
        wait_ns = DISTRIBUTOR_RESEND_INTERVAL_NS
        if self._bit_max_per_s:
            wait_ns = max(wait_ns, size * 8 * _SECOND_NS // self._bit_max_per_s)
            self._free_ns = now_ns + wait_ns
        self.due_ns = now_ns + wait_ns if self._waiting else None
        return datagrams, gone

    def _queue(self, first_seq: int, stop_seq: int, allowance: Allowance) -> None:
        """Queue the datagrams in this range that are kept, as far as the allowance permits."""
        for seq in range(max(first_seq, self._history.first_seq), stop_seq):
            if seq in self._waiting or seq in self._answered:
                continue
            datagram = self._history.find(seq)
            assert datagram is not None
            size = len(datagram)
            # The history changes while these wait, so they could exceed it many times.
            if self._waiting_bytes + size > self._bytes_max:
                break
            if not allowance.has(size) or not self._all.has(size):
                break
            allowance.spend(size)
            self._all.spend(size)
            self._waiting[seq] = datagram
            self._waiting_bytes += size
            self._is_sorted = False

    def _allowance(self, requester: bytes, now_ns: int, sent_bytes: int) -> Allowance:
        """Return the allowance of a receiver, refilled up to now."""
        found = self._requesters.pop(requester, None) or Allowance(now_ns)
        self._requesters[requester] = found
        if len(self._requesters) > DISTRIBUTOR_REQUESTER_COUNT_MAX:
            del self._requesters[next(iter(self._requesters))]
        history_bytes = max(self._history.size, self._history.bytes_max)
        for allowance in (found, self._all):
            allowance.refill(history_bytes, self._repair_ns, now_ns, sent_bytes)
        return found

    def _take_portion(self, now_ns: int) -> tuple[list[bytes], int]:
        if not self._is_sorted:
            self._waiting = dict(sorted(self._waiting.items()))
            self._is_sorted = True
        datagrams: list[bytes] = []
        size = 0
        for seq, datagram in self._waiting.items():
            if size and size + len(datagram) > self._portion_bytes:
                break
            datagrams.append(datagram)
            size += len(datagram)
            self._answered[seq] = now_ns
        for seq in list(islice(self._waiting, len(datagrams))):
            del self._waiting[seq]
        self._waiting_bytes -= size
        return datagrams, size


def _forget(answered: dict[int, int], before_ns: int) -> None:
    """Remove old numbers, which are in the order in which they were answered."""
    old = []
    for seq, answered_ns in answered.items():
        if answered_ns > before_ns:
            break
        old.append(seq)
    for seq in old:
        del answered[seq]
