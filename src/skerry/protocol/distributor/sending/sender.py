"""The sending half of a connection: numbered datagrams, announcements, and retransmissions.

All publishers of a connection share one sender: one identity and one sequence of datagrams.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Final

from skerry.errors import LimitExceeded, LocalProtocolError, WouldBlock
from skerry.limits import DISTRIBUTOR_BATCH_BYTES, DISTRIBUTOR_MEMO_BYTES_MAX
from skerry.protocol.deadlines import earliest
from skerry.protocol.distributor.config import (
    SEGMENT_BYTES_JAVA,
    SEGMENT_BYTES_USUAL,
    DistributorConfig,
)
from skerry.protocol.distributor.events import TooLargeForJava
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.distributor.messages import (
    RETRANSMISSION,
    UPDATE_HEADER_BYTES,
    WHOLE,
)
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.gaps import HURRY
from skerry.protocol.distributor.segments import cut
from skerry.protocol.distributor.sending.announcements import Announcements
from skerry.protocol.distributor.sending.control_messages import ControlMessages
from skerry.protocol.distributor.sending.flow import Bandwidth, SendTurns, UpdateRate
from skerry.protocol.distributor.sending.history import SendHistory
from skerry.protocol.distributor.sending.packing import Packer, numbers
from skerry.protocol.distributor.sending.resending import Resender
from skerry.protocol.patterns import check_subject

_MS: Final = 1_000_000
_US: Final = 1000
_U32: Final = 0xFFFFFFFF
_HEAD_ENTRY_BYTES: Final = 200
_PACE_SLACK_NS: Final = _MS
"""Pieces that are due this soon are sent at once, so that a fast sender is not woken for each."""
_PACE_LATE_NS: Final = 20 * _MS
"""How much a driver that is late may send in one burst."""
_JAVA_PIECE_COUNT_MAX: Final = 2


class Sender(Packer):
    """Sends updates in numbered datagrams, and serves requests of receivers that lost some.

    Datagrams to be sent are added to `ready`, which the connection empties.
    """

    def __init__(
        self,
        *,
        identity: SenderIdentity,
        group: bytes,
        port: int,
        config: DistributorConfig,
        rng: Random,
        now_ns: int,
        overhead_bytes: int = 0,
        first_seq: int = 1,
        segment_bytes: int = 0,
        deliveries: Deliveries | None = None,
    ) -> None:
        """`overhead_bytes` is what a seal adds to each datagram. `segment_bytes` is the size of
        datagrams if the configuration sets none; reports are added to `deliveries`.
        """
        super().__init__(-1)
        self._deliveries = deliveries
        self._has_java = False
        self._config = config
        self._rng = rng
        self.messages = ControlMessages(identity, config, group=group, port=port)
        self._announcements = Announcements(
            self.messages, config, next_seq=first_seq, now_ns=now_ns
        )
        self._overhead_bytes = overhead_bytes
        self.segment_bytes = config.segment_bytes or segment_bytes or SEGMENT_BYTES_USUAL
        """Size of the largest data datagram, with its seal."""
        self._datagram_bytes_max = self.segment_bytes - overhead_bytes
        self._body_bytes_max = self._datagram_bytes_max - UPDATE_HEADER_BYTES
        self._backlog: deque[bytes] = deque()
        """Pieces of a large update that wait for bandwidth; numbered, and in the history."""
        self._pace_ns = now_ns
        """When the first of them may be sent."""
        self._is_leaving = False
        """Whether to send a goodbye once the backlog is sent."""
        self._heads_size = 0
        self._delay_ns = config.holdback_delay_ms * _MS
        self._threshold_per_s = config.holdback_threshold_per_s
        self._fake_loss_permille = config.fake_send_loss_permille
        if not config.bandwidth_bit_max and not self._fake_loss_permille:
            self.roll_bytes_max = DISTRIBUTOR_BATCH_BYTES
        self._rate = UpdateRate(interval_ns=config.flow_interval_ms * _MS, now_ns=now_ns)
        self._bandwidth = Bandwidth(
            bit_max_per_s=config.bandwidth_bit_max,
            interval_ns=config.flow_interval_ms * _MS,
            now_ns=now_ns,
        )
        self._history = SendHistory(
            bytes_max=config.cache_bytes_max,
            age_ns_max=config.cache_age_s * 1000 * _MS,
            next_seq=first_seq,
        )
        self.parts = self._history.parts
        self._resender = Resender(
            self._history,
            holdback_ns=config.server_holdback_ms * _MS,
            bytes_max=config.cache_bytes_max,
            again_ns=self._again_ns(config.request_timeout_ms),
            repair_ns=config.request_timeout_ms * (config.request_retry_count_max + 1) * _MS,
            # Half of the limit is left to new data, however much is requested.
            bit_max_per_s=config.bandwidth_bit_max // 2,
        )
        self._turns = SendTurns()
        self.next_seq = self._first_seq = first_seq
        self._opened_ns = now_ns
        self._flush_ns: int | None = None
        self._send_ns: int | None = None
        self._serves_until_ns_max = now_ns
        self._clean_ns: int | None = None
        self._clean_interval_ns = config.cache_clean_interval_ms * _MS
        self.ready: list[bytes] = []
        """Datagrams to be sent, see `take_ready`."""
        self.publisher_count = 0
        self.serves_until_ns = now_ns
        """How long a sender answers requests after its goodbye."""
        self.sent_update_count = 0
        self.sent_datagram_count = 0
        self.sent_byte_count = 0
        self.resent_datagram_count = 0
        self.resent_byte_count = 0
        self.control_sent_count = 0
        self.naks_sent_count = 0
        self.fake_loss_count = 0
        self._take_identity(identity)

    # -- publishers

    def open_publisher(self, now_ns: int) -> None:
        """Add a publisher. With the first one, the sender is announced to the group."""
        self.publisher_count += 1
        if self.publisher_count == 1:
            self.room = self._datagram_bytes_max
            self._is_leaving = False
            self._resender.again_ns = self._again_ns(self._config.request_timeout_ms)
            self._announce(now_ns)

    def close_publisher(self, now_ns: int) -> None:
        """Remove a publisher. After the last one, the sender says goodbye."""
        assert self.publisher_count > 0
        self.publisher_count -= 1
        if self.publisher_count == 0:
            self.flush(now_ns)
            self.room = -1
            self._announcements.stop()
            self._is_leaving = True
            if not self._backlog:
                self._leave(now_ns)

    def become(self, identity: SenderIdentity, now_ns: int) -> None:
        """Change the identity. Only possible while no data was sent under the present one."""
        assert self.last_seq == 0
        self._take_identity(identity)
        if self.publisher_count:
            self._announce(now_ns)

    @property
    def identity(self) -> SenderIdentity:
        return self.messages.identity

    @property
    def last_seq(self) -> int:
        """The number of the last datagram sent, as on the wire; 0 before the first."""
        return (self.next_seq - 1 - len(self._backlog)) & _U32

    @property
    def has_backlog(self) -> bool:
        """Whether pieces of a large update wait for bandwidth; `advance` sends them."""
        return len(self._backlog) > 0

    @property
    def over_ns(self) -> int | None:
        """When a sender without publishers has served all requests; None if unknown."""
        return None if self._backlog else self.serves_until_ns

    def java_detected(self) -> None:
        """Send datagrams as large as Java programs can read, because there is one in the group."""
        self._has_java = True
        if self._config.segment_bytes or self.segment_bytes == SEGMENT_BYTES_JAVA:
            return
        self.segment_bytes = SEGMENT_BYTES_JAVA
        self._datagram_bytes_max = self.segment_bytes - self._overhead_bytes
        self._body_bytes_max = self._datagram_bytes_max - UPDATE_HEADER_BYTES
        if self.room >= 0:
            self.room = self._datagram_bytes_max

    @property
    def cache_count(self) -> int:
        """Datagrams that are kept for retransmission."""
        return len(self._history)

    @property
    def cache_bytes(self) -> int:
        """Bytes of the datagrams that are kept."""
        return self._history.size

    def ready_ns(self, now_ns: int) -> int:
        """Return when a publisher may continue: now, unless the bandwidth is used up."""
        return self._bandwidth.ready_ns(now_ns)

    # -- publishing

    def make_head(self, subject: str) -> bytes:
        known = self.heads.get(subject)
        if known is not None:
            return known
        check_subject(subject)
        if not self._config.unicode_subjects and not subject.isascii():
            error = LocalProtocolError(f"the subject {subject!r} is not ASCII")
            error.hint = "Java programs would read another subject; unicode_subjects allows it"
            raise error
        head = self.messages.wire.subject_head(subject.encode())
        if len(head) + 4 >= self._body_bytes_max:
            raise LimitExceeded(
                what="the size of a subject",
                value=len(subject.encode()),
                limit=self._body_bytes_max - self.messages.wire.text_length_bytes - 7,
            )
        self._heads_size += len(head) + len(subject) + _HEAD_ENTRY_BYTES
        if self._heads_size > DISTRIBUTOR_MEMO_BYTES_MAX:
            self.heads.clear()
            self._heads_size = 0
        self.heads[subject] = head
        return head

    def may_publish(self, now_ns: int) -> bool:
        if not self.publisher_count:
            raise LocalProtocolError("there is no publisher; open one before publishing")
        return self._bandwidth.ready_ns(now_ns) <= now_ns

    def make_room(self, size: int, now_ns: int) -> bool:
        if not self.may_publish(now_ns):
            wait_ms = (self._bandwidth.ready_ns(now_ns) - now_ns) / _MS
            raise WouldBlock(f"the bandwidth limit is reached; publish again in {wait_ms:.0f} ms")
        self.room = self._datagram_bytes_max
        if size > self._body_bytes_max:
            return False
        if len(self.body) + size > self.room:
            self.flush(now_ns)
        return True

    def publish_large(self, head: bytes, data: bytes, now_ns: int) -> None:
        if len(data) > self._config.update_bytes_max:
            raise LimitExceeded(
                what="the size of an update", value=len(data), limit=self._config.update_bytes_max
            )
        self.flush(now_ns)
        self._rate.add(1, now_ns)
        self.sent_update_count += 1
        pieces = cut(head, data, room=self._body_bytes_max)
        if self._has_java and len(pieces) > _JAVA_PIECE_COUNT_MAX:
            self._report_large(head, len(data))
        first_seq = self.next_seq
        datagrams = [
            self.messages.data_header(flags) + numbers(first_seq + index, 1) + body
            for index, (flags, body) in enumerate(pieces)
        ]
        self._history.add_large(first_seq, datagrams, now_ns)
        for datagram in datagrams:
            self._send_kept(datagram, now_ns, is_paced=True)
        self._release(now_ns)

    def hold_or_flush(self, now_ns: int) -> None:
        until_ns = self._opened_ns + self._delay_ns
        is_busy = self._delay_ns and self._rate.per_s(now_ns) > self._threshold_per_s
        if not is_busy or now_ns >= until_ns:
            self.flush(now_ns)
        elif not self.hold_until_ns:
            self.hold_until_ns = until_ns
            self._flush_ns = now_ns + self._delay_ns

    def flush(self, now_ns: int) -> None:
        """Send the open datagram, if it has updates."""
        if self._send_ns is None:
            # The driver may wait for more datagrams, but not longer than for the first one.
            self._send_ns = self._flush_ns
        self._flush_ns = None
        count = self.count
        if count:
            self.send(self.take(), count, now_ns)

    def send(self, datagram: bytes, count: int, now_ns: int) -> None:
        self._rate.add(count, now_ns)
        self.sent_update_count += count
        self._send(datagram, now_ns)

    def roll(self) -> None:
        count = self.count
        self.send(self.take(), count, self._opened_ns)

    def take_ready(self) -> list[bytes]:
        """Return the datagrams to be sent since the last call."""
        ready, self.ready = self.ready, []
        self.ready_bytes = 0
        self._send_ns = None
        return ready

    def request(self, first_seq: int, last_seq: int, now_ns: int, requester: bytes = b"") -> None:
        """Process a repair request of a receiver; the numbers are those on the wire."""
        first = self._unwrapped(first_seq)
        last = self._unwrapped(last_seq)
        if first <= last and first < self.next_seq:
            self._resender.request(first, last + 1, now_ns, requester, self.sent_byte_count)
            self._stay(now_ns)

    def position(self, seq: int, span_us: int, now_ns: int) -> None:
        """Answer a position request: which datagrams were published in the span before `seq`?"""
        asked = self._unwrapped(seq)
        if not self._first_seq - 1 <= asked < self.next_seq or not self._turns.take(now_ns):
            return
        # A held datagram that was full has the time of the one before it.
        span_ns = span_us * _US + self._delay_ns
        elapsed_ns = now_ns - self._history.time_ns(asked) - self._delay_ns
        first_seq = self._history.first_since(asked, span_ns)
        elapsed_us = max(0, elapsed_ns) // _US
        self._send_control([self.messages.position(asked, span_us, first_seq, elapsed_us)])
        self._stay(now_ns)

    # -- time

    def advance(self, now_ns: int) -> None:
        """Send what is due."""
        if self._send_ns is not None and now_ns >= self._send_ns:
            # The driver takes what is ready after this.
            self._send_ns = None
        if self._flush_ns is not None and now_ns >= self._flush_ns:
            self.flush(now_ns)
        announced_ns = self._announcements.deadline_ns()
        if announced_ns is not None and now_ns >= announced_ns:
            self._announce_due(now_ns)
        if self._backlog and now_ns >= self._pace_ns:
            self._release(now_ns)
        if self._resender.due_ns is not None and now_ns >= self._resender.due_ns:
            self._serve(now_ns)
        if self._clean_ns is not None and now_ns >= self._clean_ns:
            self._history.clean(now_ns)
            is_empty = not len(self._history)
            self._clean_ns = None if is_empty else now_ns + self._clean_interval_ns

    def deadline_ns(self) -> int | None:
        """Return when `advance` has something to do."""
        # Called after every datagram, so without a list.
        due_ns = earliest(self._send_ns, self._flush_ns)
        due_ns = earliest(due_ns, self._announcements.deadline_ns())
        if self._backlog:
            due_ns = earliest(due_ns, self._pace_ns)
        due_ns = earliest(due_ns, self._resender.due_ns)
        return earliest(due_ns, self._clean_ns)

    # -- inside

    def _take_identity(self, identity: SenderIdentity) -> None:
        self.messages.identity = identity
        self.set_header(self.messages.data_header(WHOLE))
        self._history.header = self.header

    def _send(self, datagram: bytes, now_ns: int) -> None:
        if self.keeps_parts:
            self.keeps_parts = False
            self._history.add_parts(self.next_seq, len(datagram), now_ns)
        else:
            self._history.add(self.next_seq, datagram, now_ns)
        self._send_kept(datagram, now_ns)

    def _send_kept(self, datagram: bytes, now_ns: int, *, is_paced: bool = False) -> None:
        """Send a datagram that is in the history; with `is_paced` as the bandwidth allows."""
        self.next_seq += 1
        self._opened_ns = now_ns
        if self._clean_ns is None:
            self._clean_ns = now_ns + self._clean_interval_ns
        if self._announcements.tail_wait_ns != self._announcements.tail_first_ns:
            self._announcements.data_sent(now_ns)
        self.sent_datagram_count += 1
        self.sent_byte_count += len(datagram)
        if self._bandwidth.is_limited:
            self._spend(len(datagram), now_ns)
            if is_paced or self._backlog:
                self._backlog.append(datagram)
                return
        self._put_ready(datagram)

    def _put_ready(self, datagram: bytes) -> None:
        permille = self._fake_loss_permille
        if permille and self._rng.randrange(1000) < permille:
            self.fake_loss_count += 1
        else:
            self.ready.append(datagram)
            self.ready_bytes += len(datagram)

    def _spend(self, size: int, now_ns: int) -> None:
        self._bandwidth.spend(size + self._overhead_bytes, now_ns)
        if self._bandwidth.ready_ns(now_ns) > now_ns:
            # The next update then takes the slow path, where it waits.
            self.room = -1

    def _release(self, now_ns: int) -> None:
        """Send as much of the backlog as the bandwidth limit allows."""
        self._pace_ns = max(self._pace_ns, now_ns - _PACE_LATE_NS)
        while self._backlog and self._pace_ns <= now_ns + _PACE_SLACK_NS:
            datagram = self._backlog.popleft()
            self._put_ready(datagram)
            self._opened_ns = now_ns
            self._pace_ns += self._bandwidth.time_ns(len(datagram) + self._overhead_bytes)
        if self._is_leaving and not self._backlog:
            self._leave(now_ns)

    def _report_large(self, head: bytes, size: int) -> None:
        """Report an update that Java programs cannot reassemble: they read two pieces of it."""
        if self._deliveries is not None:
            self._deliveries.add(
                TooLargeForJava(
                    subject=head[1 + self.messages.wire.text_length_bytes : -1].decode(),
                    size=size,
                    limit=_JAVA_PIECE_COUNT_MAX * self._body_bytes_max - len(head) - 4,
                )
            )

    def _again_ns(self, timeout_ms: int) -> int:
        """Return the time in which a retransmitted datagram is not sent again: a little less than
        `timeout_ms`, after which receivers repeat a request."""
        wait_ms = self._config.server_holdback_ms * 2 + self._config.request_delay_ms_max
        return max(timeout_ms - wait_ms, timeout_ms // 2) * _MS

    def _leave(self, now_ns: int) -> None:
        """Send the goodbye after the last data, and stay to serve requests."""
        self._is_leaving = False
        timeout_ns = self._config.request_timeout_ms * _MS
        self.serves_until_ns = now_ns + timeout_ns
        self._serves_until_ns_max = now_ns + timeout_ns * (self._config.request_retry_count_max + 1)
        # Receivers repeat requests more often after the goodbye.
        self._resender.again_ns = self._again_ns(self._config.request_timeout_ms // HURRY)
        self._send_control(self._announcements.say_goodbye(self.last_seq, now_ns))

    def _stay(self, now_ns: int) -> None:
        """After a request, stay longer than the goodbye allowed, up to a bound."""
        if not self.publisher_count and not self._is_leaving:
            until_ns = now_ns + self._config.request_timeout_ms * _MS
            self.serves_until_ns = max(
                self.serves_until_ns, min(until_ns, self._serves_until_ns_max)
            )

    def _announce(self, now_ns: int) -> None:
        self._send_control(
            self._announcements.begin(next_seq=self.next_seq, last_seq=self.last_seq, now_ns=now_ns)
        )

    def _announce_due(self, now_ns: int) -> None:
        self._send_control(
            self._announcements.advance(
                next_seq=self.next_seq,
                last_seq=self.last_seq,
                opened_ns=self._opened_ns,
                now_ns=now_ns,
            )
        )

    def _serve(self, now_ns: int) -> None:
        datagrams, gone = self._resender.take_due(now_ns)
        if self._resender.due_ns is not None:
            self._stay(now_ns)
        number_count = (self._body_bytes_max - 8) // 4
        for first in range(0, len(gone), number_count):
            self.naks_sent_count += 1
            self._send_control([self.messages.nak(gone[first : first + number_count])])
        for datagram in datagrams:
            self.resent_datagram_count += 1
            self.resent_byte_count += len(datagram)
            if self._bandwidth.is_limited:
                self._spend(len(datagram), now_ns)
            self.ready.append(datagram[:2] + bytes((RETRANSMISSION,)) + datagram[3:])

    def _send_control(self, datagrams: list[bytes]) -> None:
        self.control_sent_count += len(datagrams)
        self.ready += datagrams

    def _unwrapped(self, seq: int) -> int:
        """Return the number without wrapping: the one nearest to the next."""
        distance = (seq - self.next_seq) & _U32
        return self.next_seq + (distance - (1 << 32) if distance >> 31 else distance)
