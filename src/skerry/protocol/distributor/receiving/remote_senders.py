"""The presence of one sender of a group, and where the streams of removed senders ended.

A sender is known from its first datagram on, by the identity in the header. It is reported to the
application once it has announced itself. A sender that is silent for too long, or says goodbye, is
removed. If it returns, its stream continues where it ended, so no update is delivered twice and
every loss is reported.
"""

from __future__ import annotations

from typing import Final

from skerry.limits import DISTRIBUTOR_INTERVAL_MS_MAX, DISTRIBUTOR_SENDER_COUNT_MAX
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.events import RemovalReason
from skerry.protocol.distributor.receiving.gaps import HURRY
from skerry.protocol.distributor.receiving.receiver import Receiver
from skerry.protocol.distributor.receiving.stream_start import StreamOrigin

_MS: Final = 1_000_000
SILENT_HEARTBEAT_COUNT: Final = 3
"""A datagram of an existing sender is almost always received in this many heartbeats."""


class RemoteSender:
    """One sender: its receiver, and when its last messages were received."""

    def __init__(
        self, receiver: Receiver, config: DistributorConfig, now_ns: int, listened_ns: int = 0
    ) -> None:
        """`listened_ns` is how long the connection had listened before this sender."""
        self.receiver = receiver
        self._listened_ns = listened_ns
        self.received_ns = now_ns
        """When data or a heartbeat was received last."""
        self.is_announced = False
        self._heartbeat_lost_count_max = config.heartbeat_lost_count_max
        self._configuration_lost_count_max = config.configuration_lost_count_max
        self._announced_ns = now_ns
        self._silence_ns = self._period_ns(
            config.heartbeat_interval_ms, config.heartbeat_lost_count_max
        )
        self._unannounced_ns = 0
        self.is_leaving = False
        self._leaving_ns = 0
        self._goodbye_seq = 0
        self._timeout_ns = config.request_timeout_ms * _MS
        self._repair_ns = self._timeout_ns * (config.request_retry_count_max + 1)
        """The longest time after its goodbye that a sender answers requests."""
        self._left_ns = 0

    def announcement_received(
        self, *, heartbeat_interval_ms: int, configuration_interval_ms: int, now_ns: int
    ) -> None:
        """Process an announcement, which names the intervals of the sender."""
        silent_ns = SILENT_HEARTBEAT_COUNT * heartbeat_interval_ms * _MS
        if self.receiver.start.origin is StreamOrigin.SILENT and self._listened_ns < silent_ns:
            # The sender may have been silent for longer than this connection listened.
            self.receiver.start.origin = StreamOrigin.UNKNOWN
        self.is_announced = True
        self.received_ns = max(self.received_ns, now_ns)
        self._announced_ns = now_ns
        self._silence_ns = self._period_ns(heartbeat_interval_ms, self._heartbeat_lost_count_max)
        self._unannounced_ns = self._period_ns(
            configuration_interval_ms, self._configuration_lost_count_max
        )

    def goodbye_received(self, *, last_seq: int, now_ns: int) -> None:
        """Process a goodbye: the sender is removed after a timeout, once nothing is missing."""
        if not self.is_leaving:
            self.is_leaving = True
            self._left_ns = now_ns
            self._leaving_ns = now_ns + self._timeout_ns
        self._goodbye_seq = last_seq
        self.receiver.gaps.hurry(now_ns)

    def data_received(self, seq: int) -> None:
        """Cancel the goodbye if this data is newer."""
        if 0 < (seq - self._goodbye_seq) & 0xFFFFFFFF < 1 << 31:
            self.is_leaving = False
            self.receiver.gaps.end_hurry()

    def removal(self, now_ns: int) -> RemovalReason | None:
        """Return why the sender has to be removed now; None if it stays."""
        if self.is_leaving and now_ns >= self._leaving_ns:
            if not self._is_repairing(now_ns):
                return RemovalReason.GOODBYE
            self._leaving_ns = now_ns + self._timeout_ns // HURRY
        if now_ns - self.received_ns >= self._silence_ns:
            return RemovalReason.SILENT
        if self._unannounced_ns and now_ns - self._announced_ns >= self._unannounced_ns:
            return RemovalReason.UNANNOUNCED
        return None

    def due_ns(self) -> int:
        """Return when the sender may have to be removed, or a request is due."""
        due_ns = self.received_ns + self._silence_ns
        if self._unannounced_ns:
            due_ns = min(due_ns, self._announced_ns + self._unannounced_ns)
        if self.is_leaving:
            due_ns = min(due_ns, self._leaving_ns)
        request_ns = self.receiver.due_ns
        return due_ns if request_ns is None else min(due_ns, request_ns)

    def _is_repairing(self, now_ns: int) -> bool:
        """Return whether the sender still answers, and datagrams are missing that it may have."""
        # It stays for a timeout after each request, and each answer updates `received_ns`.
        is_there = now_ns - self.received_ns < 2 * self._timeout_ns
        is_repairing = self.receiver.is_repairing
        return is_repairing and is_there and now_ns - self._left_ns < self._repair_ns

    @staticmethod
    def _period_ns(interval_ms: int, lost_count_max: int) -> int:
        # The interval may be forged, so neither zero nor a thousand years is accepted.
        accepted_ms = min(max(interval_ms, 1), DISTRIBUTOR_INTERVAL_MS_MAX)
        return accepted_ms * (lost_count_max + 1) * _MS


class Departed:
    """The next numbers of removed senders; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._next_seqs: dict[bytes, int | None] = {}
        self.forgot_ns: int | None = None
        """When a sender was last forgotten. A sender that started before may be one of these."""

    def __len__(self) -> int:
        return len(self._next_seqs)

    def __contains__(self, key: bytes) -> bool:
        return key in self._next_seqs

    def add(self, key: bytes, next_seq: int | None, now_ns: int) -> None:
        """Note a removed sender; `next_seq` is None if its stream had not begun."""
        self._next_seqs[key] = next_seq
        while len(self._next_seqs) > DISTRIBUTOR_SENDER_COUNT_MAX:
            del self._next_seqs[next(iter(self._next_seqs))]
            self.forgot_ns = now_ns

    def clear(self) -> None:
        """Forget the numbers, because there are no subscriptions; the senders stay known."""
        self._next_seqs = dict.fromkeys(self._next_seqs)

    def take(self, key: bytes) -> int | None:
        """Return the number with which the stream of a sender continues; None if unknown."""
        return self._next_seqs.pop(key, None)
