"""The senders of a group as a receiver knows them: who is there, since when, and who is gone.

A sender is known from its first datagram on, by the identity in the header. It is told to the
application once it has announced itself. One that is silent for too long, or says goodbye, is
removed; should it come back, its stream goes on where it was left, so nothing is delivered twice
and nothing is missing without being told.
"""

from __future__ import annotations

from typing import Final

from skerry.limits import DISTRIBUTOR_INTERVAL_MS_MAX, DISTRIBUTOR_SENDER_COUNT_MAX
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.events import RemovalReason
from skerry.protocol.distributor.receiving.gaps import HURRY
from skerry.protocol.distributor.receiving.receiver import Receiver
from skerry.protocol.distributor.receiving.stream_start import StreamOrigin

__all__ = ["HEARTBEATS_UNHEARD", "Departed", "RemoteSender"]

_MS: Final = 1_000_000
HEARTBEATS_UNHEARD: Final = 3
"""An existing sender is almost always heard within so many of its heartbeats."""


class RemoteSender:
    """One sender: its stream, and when it was heard of."""

    def __init__(
        self, receiver: Receiver, config: DistributorConfig, now_ns: int, listened_ns: int = 0
    ) -> None:
        """`listened_ns` is how long the connection had listened when it met this sender."""
        self.receiver = receiver
        self._listened_ns = listened_ns
        self.heard_ns = now_ns
        """When data or a heartbeat came last."""
        self.is_announced = False
        self._heartbeat_lost_count_max = config.heartbeat_lost_count_max
        self._configuration_lost_count_max = config.configuration_lost_count_max
        self._announced_ns = now_ns
        self._silence_ns = self._period_ns(
            config.heartbeat_interval_ms, config.heartbeat_lost_count_max
        )
        self._unannounced_ns = 0
        self.is_leaving = False
        """Whether it said goodbye."""
        self._leaving_ns = 0
        self._goodbye_seq = 0
        self._timeout_ns = config.request_timeout_ms * _MS
        self._repair_ns = self._timeout_ns * (config.request_retry_count_max + 1)
        """The longest time after its goodbye that a sender answers requests."""
        self._left_ns = 0

    def announced(
        self, *, heartbeat_interval_ms: int, configuration_interval_ms: int, now_ns: int
    ) -> None:
        """It told how often it will be heard."""
        heard_often_ns = HEARTBEATS_UNHEARD * heartbeat_interval_ms * _MS
        if (
            self.receiver.start.origin is StreamOrigin.UNHEARD
            and self._listened_ns < heard_often_ns
        ):
            # It may have been silent for longer than this connection listened.
            self.receiver.start.origin = StreamOrigin.UNKNOWN
        self.is_announced = True
        self.heard_ns = max(self.heard_ns, now_ns)
        self._announced_ns = now_ns
        self._silence_ns = self._period_ns(heartbeat_interval_ms, self._heartbeat_lost_count_max)
        self._unannounced_ns = self._period_ns(
            configuration_interval_ms, self._configuration_lost_count_max
        )

    def leaves(self, *, last_seq: int, now_ns: int) -> None:
        """Note its goodbye. It is removed after a request timeout, or when nothing is missing."""
        if not self.is_leaving:
            self.is_leaving = True
            self._left_ns = now_ns
            self._leaving_ns = now_ns + self._timeout_ns
        self._goodbye_seq = last_seq
        self.receiver.gaps.hurry(now_ns)

    def stays_after(self, seq: int) -> None:
        """Data came: if it is newer than the goodbye, that does not count any more."""
        if 0 < (seq - self._goodbye_seq) & 0xFFFFFFFF < 1 << 31:
            self.is_leaving = False
            self.receiver.gaps.calm_down()

    def removal(self, now_ns: int) -> RemovalReason | None:
        """Why it is to be removed now, if it is."""
        if self.is_leaving and now_ns >= self._leaving_ns:
            if not self._is_repairing(now_ns):
                return RemovalReason.GOODBYE
            self._leaving_ns = now_ns + self._timeout_ns // HURRY
        if now_ns - self.heard_ns >= self._silence_ns:
            return RemovalReason.SILENT
        if self._unannounced_ns and now_ns - self._announced_ns >= self._unannounced_ns:
            return RemovalReason.UNANNOUNCED
        return None

    def due_ns(self) -> int:
        """When to look at it again."""
        due_ns = self.heard_ns + self._silence_ns
        if self._unannounced_ns:
            due_ns = min(due_ns, self._announced_ns + self._unannounced_ns)
        if self.is_leaving:
            due_ns = min(due_ns, self._leaving_ns)
        request_ns = self.receiver.due_ns
        return due_ns if request_ns is None else min(due_ns, request_ns)

    def _is_repairing(self, now_ns: int) -> bool:
        """Whether the sender still answers, and something is missing that it may have."""
        # It stays for a timeout after each request, and each answer updates `heard_ns`.
        is_there = now_ns - self.heard_ns < 2 * self._timeout_ns
        is_repairing = self.receiver.is_repairing
        return is_repairing and is_there and now_ns - self._left_ns < self._repair_ns

    @staticmethod
    def _period_ns(interval_ms: int, lost_count_max: int) -> int:
        # The interval is what a stranger says: nothing, or a thousand years, are not believed.
        believed_ms = min(max(interval_ms, 1), DISTRIBUTOR_INTERVAL_MS_MAX)
        return believed_ms * (lost_count_max + 1) * _MS


class Departed:
    """Where the streams of removed senders stopped; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._next_seqs: dict[bytes, int | None] = {}
        self.forgot_ns: int | None = None
        """When a sender was last forgotten. One that started before may have been known."""

    def __len__(self) -> int:
        return len(self._next_seqs)

    def __contains__(self, key: bytes) -> bool:
        return key in self._next_seqs

    def add(self, key: bytes, next_seq: int | None, now_ns: int) -> None:
        """A sender was removed; None if its stream had no beginning yet."""
        self._next_seqs[key] = next_seq
        while len(self._next_seqs) > DISTRIBUTOR_SENDER_COUNT_MAX:
            del self._next_seqs[next(iter(self._next_seqs))]
            self.forgot_ns = now_ns

    def clear(self) -> None:
        """There are no subscriptions any more: no stream continues, but senders stay known."""
        self._next_seqs = dict.fromkeys(self._next_seqs)

    def take(self, key: bytes) -> int | None:
        """The number with which the stream of this sender continues; None if it is unknown."""
        return self._next_seqs.pop(key, None)
