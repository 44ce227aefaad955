"""When a sender announces itself, sends heartbeats, and says goodbye.

A heartbeat names the last number, so receivers detect that the last datagrams were lost. Each
interval without data has one. After data there are more, at first after a short wait that doubles,
because the datagram that nothing follows would otherwise be missed for a whole interval.
"""

from __future__ import annotations

from typing import Final

from skerry.protocol.deadlines import earliest
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.messages import GOODBYE, HEARTBEAT
from skerry.protocol.distributor.sending.control_messages import ControlMessages

_MS: Final = 1_000_000
_EARLY_NS: Final = (100 * _MS, 300 * _MS, 1000 * _MS)
"""When the announcement of a sender is repeated, so that a receiver that lost it does not have to
wait for the usual interval."""
_GOODBYE_COUNT: Final = 8
"""How often a goodbye is sent, over one request timeout. Nothing else lets receivers detect that
the last datagram was lost."""


class Announcements:
    """The schedule of the announcements, heartbeats and goodbyes of one sender.

    Methods that send return the datagrams. `next_seq` and `last_seq` are the numbers of the sender.
    """

    def __init__(
        self, messages: ControlMessages, config: DistributorConfig, *, next_seq: int, now_ns: int
    ) -> None:
        self._messages = messages
        self._heartbeat_interval_ns = config.heartbeat_interval_ms * _MS
        self._configuration_interval_ns = config.configuration_interval_ms * _MS
        self._goodbye_wait_ns = config.request_timeout_ms * _MS // _GOODBYE_COUNT
        is_early = config.tail_heartbeat_ms < config.heartbeat_interval_ms
        self.tail_first_ns = config.tail_heartbeat_ms * _MS if is_early else 0
        """The first wait for a heartbeat after data; 0 if there are none."""
        self.tail_wait_ns = 0
        """The present wait for a heartbeat after data."""
        self._tail_ns: int | None = None
        self._heartbeat_ns: int | None = None
        self._heartbeat_seq = next_seq
        self._configuration_ns: int | None = None
        self._announced_ns = now_ns
        self._announced_seq = next_seq
        self._goodbye_ns: int | None = None
        self._goodbye_count = 0

    def begin(self, *, next_seq: int, last_seq: int, now_ns: int) -> list[bytes]:
        """Announce the sender, and repeat that from now on."""
        self._goodbye_ns = None
        self._heartbeat_seq = self._announced_seq = next_seq
        self._heartbeat_ns = now_ns + self._heartbeat_interval_ns
        self._announced_ns = now_ns
        self._configuration_ns = self._next_announcement_ns(now_ns)
        # By the heartbeat a receiver knows the next number, so it misses the first datagram, too.
        return [self._messages.configuration(), self._heartbeat(last_seq)]

    def stop(self) -> None:
        """Send no more announcements and heartbeats."""
        self._heartbeat_ns = self._configuration_ns = self._tail_ns = None
        self.tail_wait_ns = 0

    def say_goodbye(self, last_seq: int, now_ns: int) -> list[bytes]:
        """Send the first of the goodbyes."""
        self._goodbye_count = 0
        return self._goodbye(last_seq, now_ns)

    def data_sent(self, opened_ns: int) -> None:
        """Send a heartbeat soon, if no more data follows the datagram of this time.

        Only needed while `tail_wait_ns` is not `tail_first_ns`.
        """
        self.tail_wait_ns = self.tail_first_ns
        self._tail_ns = opened_ns + self.tail_wait_ns

    def advance(self, *, next_seq: int, last_seq: int, opened_ns: int, now_ns: int) -> list[bytes]:
        """Send what is due; `opened_ns` is the time of the last data."""
        sent: list[bytes] = []
        if self._heartbeat_ns is not None and now_ns >= self._heartbeat_ns:
            if self._heartbeat_seq == next_seq:
                sent.append(self._heartbeat(last_seq))
            self._heartbeat_seq = next_seq
            self._heartbeat_ns = now_ns + self._heartbeat_interval_ns
        if self._tail_ns is not None and now_ns >= self._tail_ns:
            sent += self._tail(last_seq, opened_ns, now_ns)
        if self._configuration_ns is not None and now_ns >= self._configuration_ns:
            sent.append(self._messages.configuration())
            is_early = now_ns - self._announced_ns <= _EARLY_NS[-1]
            if is_early and self._announced_seq == next_seq:
                # No data yet: a receiver that lost the first datagram learns the next number.
                sent.append(self._heartbeat(last_seq))
            self._configuration_ns = self._next_announcement_ns(now_ns)
        if self._goodbye_ns is not None and now_ns >= self._goodbye_ns:
            sent += self._goodbye(last_seq, now_ns)
        return sent

    def deadline_ns(self) -> int | None:
        """Return when `advance` has something to send."""
        due_ns = earliest(self._heartbeat_ns, self._tail_ns)
        due_ns = earliest(due_ns, self._configuration_ns)
        return earliest(due_ns, self._goodbye_ns)

    def _next_announcement_ns(self, now_ns: int) -> int:
        """Return when to announce the sender again: early at first, then each interval."""
        for early_ns in _EARLY_NS:
            due_ns = self._announced_ns + early_ns
            if early_ns < self._configuration_interval_ns and due_ns > now_ns:
                return due_ns
        return now_ns + self._configuration_interval_ns

    def _tail(self, last_seq: int, opened_ns: int, now_ns: int) -> list[bytes]:
        if now_ns < opened_ns + self.tail_wait_ns:
            self.data_sent(opened_ns)
            return []
        # This heartbeat may be lost as well, so more follow until the usual ones are as frequent.
        self.tail_wait_ns *= 2
        is_early = self.tail_wait_ns < self._heartbeat_interval_ns
        self._tail_ns = now_ns + self.tail_wait_ns if is_early else None
        return [self._heartbeat(last_seq)]

    def _goodbye(self, last_seq: int, now_ns: int) -> list[bytes]:
        self._goodbye_count += 1
        is_last = self._goodbye_count >= _GOODBYE_COUNT
        self._goodbye_ns = None if is_last else now_ns + self._goodbye_wait_ns
        return [self._messages.heartbeat(GOODBYE, last_seq)]

    def _heartbeat(self, last_seq: int) -> bytes:
        return self._messages.heartbeat(HEARTBEAT, last_seq)
