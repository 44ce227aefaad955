"""The sending half of a connection: datagrams with numbers, signs of life, and answers.

All publishers of a connection share one sender: one identity and one sequence of datagrams.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Final

from skerry.errors import LimitExceeded, LocalProtocolError, WouldBlock
from skerry.limits import DISTRIBUTOR_BATCH_BYTES, DISTRIBUTOR_MEMO_BYTES_MAX
from skerry.protocol.distributor.config import (
    SEGMENT_BYTES_JAVA,
    SEGMENT_BYTES_USUAL,
    DistributorConfig,
)
from skerry.protocol.distributor.events import SenderInfo, TooLargeForJava
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.distributor.messages import (
    CONFIGURATION,
    GOODBYE,
    HEARTBEAT,
    NAK,
    POSITION,
    POSITION_REQUEST,
    RELAYED,
    REQUEST,
    RETRANSMISSION,
    UPDATE,
    UPDATE_HEADER_BYTES,
    WHOLE,
    Configuration,
    DatagramHeader,
    HeartbeatMessage,
    Nak,
    Position,
    PositionRequest,
    RepairRequest,
)
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.gaps import HURRY
from skerry.protocol.distributor.segments import cut
from skerry.protocol.distributor.sending.flow import Bandwidth, SendTurns, UpdateRate
from skerry.protocol.distributor.sending.history import SendHistory
from skerry.protocol.distributor.sending.packing import Packer, numbers
from skerry.protocol.distributor.sending.resending import Resender
from skerry.protocol.distributor.wire import wire_of
from skerry.protocol.patterns import check_subject

__all__ = ["Sender", "sooner"]

_MS: Final = 1_000_000
_US: Final = 1000
_U32: Final = 0xFFFFFFFF
_HEAD_ENTRY_BYTES: Final = 200
_EARLY_NS: Final = (100 * _MS, 300 * _MS, 1000 * _MS)
"""When the announcement of a sender is repeated, so that a receiver that lost it does not have to
wait for the usual interval."""
_GOODBYE_COUNT: Final = 8
"""How often a goodbye is sent, over one request timeout. Nothing else lets receivers detect that
the last datagram was lost."""
_PACE_SLACK_NS: Final = _MS
"""Pieces that are due this soon are sent at once, so that a fast sender is not woken for each."""
_PACE_LATE_NS: Final = 20 * _MS
"""How much a driver that is late may send in one burst."""
_JAVA_PIECE_COUNT_MAX: Final = 2


class Sender(Packer):
    """Turns updates into numbered datagrams, and serves those who lost some.

    It puts what is to be sent into `ready`, which the connection empties.
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
        self._group = group
        self._port = port
        self._rng = rng
        self._wire = wire_of(config.dialect)
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
        self._server = Resender(
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
        self._tick_seq = first_seq
        # The heartbeats after data: the first wait for one, the present wait, and when it ends.
        is_early = config.tail_heartbeat_ms < config.heartbeat_interval_ms
        self._tail_first_ns = config.tail_heartbeat_ms * _MS if is_early else 0
        self._tail_wait_ns = 0
        self._tail_ns: int | None = None
        self._flush_ns: int | None = None
        self._send_ns: int | None = None
        self._heartbeat_ns: int | None = None
        self._configuration_ns: int | None = None
        self._announced_ns = now_ns
        self._announced_seq = first_seq
        self._goodbye_ns: int | None = None
        self._goodbye_count = 0
        self._serves_until_ns_max = now_ns
        self._clean_ns: int | None = None
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
        """One publisher more. The first one makes the sender known to the group."""
        self.publisher_count += 1
        if self.publisher_count == 1:
            self.room = self._datagram_bytes_max
            self._goodbye_ns = None
            self._is_leaving = False
            self._server.again_ns = self._again_ns(self._config.request_timeout_ms)
            self._announce(now_ns)

    def close_publisher(self, now_ns: int) -> None:
        """One publisher less. The last one says goodbye, for the sender."""
        assert self.publisher_count > 0
        self.publisher_count -= 1
        if self.publisher_count == 0:
            self.flush(now_ns)
            self.room = -1
            self._heartbeat_ns = self._configuration_ns = self._tail_ns = None
            self._tail_wait_ns = 0
            self._is_leaving = True
            if not self._backlog:
                self._leave(now_ns)

    def become(self, identity: SenderIdentity, now_ns: int) -> None:
        """Take another identity. Only possible while no data was sent under this one."""
        assert self.last_seq == 0
        self._take_identity(identity)
        if self.publisher_count:
            self._announce(now_ns)

    @property
    def last_seq(self) -> int:
        """The number of the datagram sent last, as it stands on the wire; 0 before any."""
        return (self.next_seq - 1 - len(self._backlog)) & _U32

    @property
    def has_backlog(self) -> bool:
        """Whether pieces of a large update wait for bandwidth; `advance` sends them."""
        return len(self._backlog) > 0

    @property
    def over_ns(self) -> int | None:
        """When a sender without publishers has served all requests; None while that is unknown."""
        return None if self._backlog else self.serves_until_ns

    def java_heard(self) -> None:
        """There is a Java program in the group: send pieces as large as it can read."""
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
        """Datagrams that are kept to be sent again."""
        return len(self._history)

    @property
    def cache_bytes(self) -> int:
        """Their bytes."""
        return self._history.size

    def ready_ns(self, now_ns: int) -> int:
        """When a publisher may go on: now, unless the bandwidth is used up."""
        return self._bandwidth.ready_ns(now_ns)

    # -- publishing

    def make_head(self, subject: str) -> bytes:
        known = self.heads.get(subject)
        if known is not None:
            return known
        check_subject(subject)
        if not self._config.unicode_subjects and not subject.isascii():
            error = LocalProtocolError(f"the subject {subject!r} is not ASCII")
            error.hint = "Java programs would read another one; unicode_subjects allows it"
            raise error
        head = self._wire.subject_head(subject.encode())
        if len(head) + 4 >= self._body_bytes_max:
            raise LimitExceeded(
                what="the size of a subject",
                value=len(subject.encode()),
                limit=self._body_bytes_max - self._wire.text_length_bytes - 7,
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
            raise WouldBlock(f"the bandwidth is used up for another {wait_ms:.0f} ms")
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
            self._header(UPDATE, flags) + numbers(first_seq + index, 1) + body
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
        """Send what is in the open datagram."""
        if self._send_ns is None:
            # Whoever sends may wait for more datagrams, but not longer than its first one did.
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
        """What is to be sent since the last call."""
        ready, self.ready = self.ready, []
        self.ready_bytes = 0
        self._send_ns = None
        return ready

    def request(self, first_seq: int, last_seq: int, now_ns: int, requester: bytes = b"") -> None:
        """A receiver asks for these datagrams, by the numbers on the wire."""
        first = self._unwrapped(first_seq)
        last = self._unwrapped(last_seq)
        if first <= last and first < self.next_seq:
            self._server.request(first, last + 1, now_ns, requester, self.sent_byte_count)
            self._stay(now_ns)

    def request_to(self, other: SenderInfo, first_seq: int, last_seq: int) -> bytes:
        """A request of ours to another sender, as a datagram."""
        request = RepairRequest(
            header=self._header_value(REQUEST),
            address=self.identity.address,
            target_id=other.sender_id,
            target_start=other.start & _U32,
            first_seq=first_seq,
            last_seq=last_seq,
            host=self._config.host,
            application=self._config.application,
        )
        return self._wire.encode(request)

    def position(self, seq: int, span_us: int, now_ns: int) -> None:
        """A receiver that joined asks which datagrams were published in the span before `seq`."""
        asked = self._unwrapped(seq)
        if not self._first_seq - 1 <= asked < self.next_seq or not self._turns.take(now_ns):
            return
        # A held datagram that was full has the time of the one before it.
        span_ns = span_us * _US + self._delay_ns
        elapsed_ns = now_ns - self._history.time_ns(asked) - self._delay_ns
        self._send_control(
            Position(
                header=self._header_value(POSITION),
                seq=asked,
                span_us=span_us,
                first_seq=self._history.first_since(asked, span_ns),
                elapsed_us=max(0, elapsed_ns) // _US,
            )
        )
        self._stay(now_ns)

    def position_request_to(self, other: SenderInfo, seq: int, span_us: int) -> bytes:
        """A position request of ours to another sender, as a datagram."""
        request = PositionRequest(
            header=self._header_value(POSITION_REQUEST),
            target_id=other.sender_id,
            target_start=other.start & _U32,
            seq=seq,
            span_us=span_us,
        )
        return self._wire.encode(request)

    # -- time

    def advance(self, now_ns: int) -> None:
        """Send what is due."""
        if self._send_ns is not None and now_ns >= self._send_ns:
            # Whoever drives takes what is ready after this.
            self._send_ns = None
        if self._flush_ns is not None and now_ns >= self._flush_ns:
            self.flush(now_ns)
        if self._heartbeat_ns is not None and now_ns >= self._heartbeat_ns:
            self._tick(now_ns)
        if self._tail_ns is not None and now_ns >= self._tail_ns:
            self._tail(now_ns)
        if self._configuration_ns is not None and now_ns >= self._configuration_ns:
            self._announce_again(now_ns)
        if self._backlog and now_ns >= self._pace_ns:
            self._release(now_ns)
        if self._goodbye_ns is not None and now_ns >= self._goodbye_ns:
            self._say_goodbye(now_ns)
        if self._server.due_ns is not None and now_ns >= self._server.due_ns:
            self._serve(now_ns)
        if self._clean_ns is not None and now_ns >= self._clean_ns:
            self._history.clean(now_ns)
            is_empty = not len(self._history)
            self._clean_ns = None if is_empty else now_ns + self._clean_interval_ns

    def deadline_ns(self) -> int | None:
        """When `advance` has something to do."""
        # Asked after every datagram, so step by step.
        due_ns = sooner(self._send_ns, self._flush_ns)
        due_ns = sooner(due_ns, self._heartbeat_ns)
        due_ns = sooner(due_ns, self._tail_ns)
        due_ns = sooner(due_ns, self._configuration_ns)
        due_ns = sooner(due_ns, self._goodbye_ns)
        if self._backlog:
            due_ns = sooner(due_ns, self._pace_ns)
        due_ns = sooner(due_ns, self._server.due_ns)
        return sooner(due_ns, self._clean_ns)

    # -- inside

    @property
    def _clean_interval_ns(self) -> int:
        return self._config.cache_clean_interval_ms * _MS

    def _take_identity(self, identity: SenderIdentity) -> None:
        self.identity = identity
        self._relayed = RELAYED if self._config.is_gateway else 0
        self.set_header(self._header(UPDATE, WHOLE))
        self._history.header = self.header

    def _header_value(self, kind: int, flags: int = WHOLE) -> DatagramHeader:
        return DatagramHeader(
            kind=kind,
            flags=flags,
            address=self.identity.address,
            sender_id=self.identity.sender_id,
            start=self.identity.start(self._config.dialect),
            application_id=self.identity.application_id,
        )

    def _header(self, kind: int, flags: int) -> bytes:
        return self._wire.header(self._header_value(kind, flags | self._relayed))

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
        if self._tail_wait_ns != self._tail_first_ns:
            self._await_tail()
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
        """Send what the bandwidth limit allows of the backlog."""
        self._pace_ns = max(self._pace_ns, now_ns - _PACE_LATE_NS)
        while self._backlog and self._pace_ns <= now_ns + _PACE_SLACK_NS:
            datagram = self._backlog.popleft()
            self._put_ready(datagram)
            self._opened_ns = now_ns
            self._pace_ns += self._bandwidth.time_ns(len(datagram) + self._overhead_bytes)
        if self._is_leaving and not self._backlog:
            self._leave(now_ns)

    def _report_large(self, head: bytes, size: int) -> None:
        """Java programs reassemble only the first two pieces of an update."""
        if self._deliveries is not None:
            self._deliveries.add(
                TooLargeForJava(
                    subject=head[1 + self._wire.text_length_bytes : -1].decode(),
                    size=size,
                    limit=_JAVA_PIECE_COUNT_MAX * self._body_bytes_max - len(head) - 4,
                )
            )

    def _again_ns(self, timeout_ms: int) -> int:
        """The time in which a retransmitted datagram is not sent again: a little less than
        `timeout_ms`, after which receivers repeat a request."""
        wait_ms = self._config.server_holdback_ms * 2 + self._config.request_delay_ms_max
        return max(timeout_ms - wait_ms, timeout_ms // 2) * _MS

    def _leave(self, now_ns: int) -> None:
        """All was sent: send the goodbye, and stay for requests."""
        self._is_leaving = False
        timeout_ns = self._config.request_timeout_ms * _MS
        self.serves_until_ns = now_ns + timeout_ns
        self._serves_until_ns_max = now_ns + timeout_ns * (self._config.request_retry_count_max + 1)
        # Receivers repeat requests more often after the goodbye.
        self._server.again_ns = self._again_ns(self._config.request_timeout_ms // HURRY)
        self._goodbye_count = 0
        self._say_goodbye(now_ns)

    def _say_goodbye(self, now_ns: int) -> None:
        self._send_heartbeat(GOODBYE)
        self._goodbye_count += 1
        wait_ns = self._config.request_timeout_ms * _MS // _GOODBYE_COUNT
        self._goodbye_ns = now_ns + wait_ns if self._goodbye_count < _GOODBYE_COUNT else None

    def _stay(self, now_ns: int) -> None:
        """A request was received: after its goodbye the sender stays longer, up to a bound."""
        if not self.publisher_count and not self._is_leaving:
            until_ns = now_ns + self._config.request_timeout_ms * _MS
            self.serves_until_ns = max(
                self.serves_until_ns, min(until_ns, self._serves_until_ns_max)
            )

    def _announce(self, now_ns: int) -> None:
        self._send_configuration()
        # With it a receiver knows which number comes next, and so misses the first one, too.
        self._send_heartbeat(HEARTBEAT)
        self._tick_seq = self.next_seq
        self._heartbeat_ns = now_ns + self._config.heartbeat_interval_ms * _MS
        self._announced_ns = now_ns
        self._announced_seq = self.next_seq
        self._configuration_ns = self._next_announcement_ns(now_ns)

    def _announce_again(self, now_ns: int) -> None:
        self._send_configuration()
        is_early = now_ns - self._announced_ns <= _EARLY_NS[-1]
        if is_early and self._announced_seq == self.next_seq:
            # No data yet: a receiver that lost the first datagram learns the next number.
            self._send_heartbeat(HEARTBEAT)
        self._configuration_ns = self._next_announcement_ns(now_ns)

    def _next_announcement_ns(self, now_ns: int) -> int:
        """When to announce the sender again: early at first, then each interval."""
        interval_ns = self._config.configuration_interval_ms * _MS
        for early_ns in _EARLY_NS:
            due_ns = self._announced_ns + early_ns
            if early_ns < interval_ns and due_ns > now_ns:
                return due_ns
        return now_ns + interval_ns

    def _tick(self, now_ns: int) -> None:
        if self._tick_seq == self.next_seq:
            self._send_heartbeat(HEARTBEAT)
        self._tick_seq = self.next_seq
        self._heartbeat_ns = now_ns + self._config.heartbeat_interval_ms * _MS

    def _await_tail(self) -> None:
        """Data was sent: tell where it ended, if nothing follows."""
        self._tail_wait_ns = self._tail_first_ns
        self._tail_ns = self._opened_ns + self._tail_wait_ns

    def _tail(self, now_ns: int) -> None:
        if now_ns < self._opened_ns + self._tail_wait_ns:
            self._await_tail()
            return
        self._send_heartbeat(HEARTBEAT)
        # This one may be lost as well, so there are more, until the usual ones come as often.
        self._tail_wait_ns *= 2
        is_early = self._tail_wait_ns < self._config.heartbeat_interval_ms * _MS
        self._tail_ns = now_ns + self._tail_wait_ns if is_early else None

    def _send_heartbeat(self, kind: int) -> None:
        is_java = self._wire.text_length_bytes == 4
        self._send_control(
            HeartbeatMessage(
                header=self._header_value(kind),
                group=self._group,
                port=self._port,
                sender_id=self.identity.sender_id,
                start_ms=self.identity.start_ms if is_java else None,
                last_seq=self.last_seq,
            )
        )

    def _send_configuration(self) -> None:
        is_java = self._wire.text_length_bytes == 4
        start_ms = self.identity.start_ms
        self._send_control(
            Configuration(
                header=self._header_value(CONFIGURATION),
                group=self._group,
                port=self._port,
                sender_id=self.identity.sender_id,
                start=start_ms if is_java else start_ms // 1000,
                heartbeat_interval_ms=self._config.heartbeat_interval_ms,
                configuration_interval_ms=self._config.configuration_interval_ms,
                host=self.identity.address,
                application=self._config.application,
            )
        )

    def _serve(self, now_ns: int) -> None:
        datagrams, gone = self._server.take_due(now_ns)
        if self._server.due_ns is not None:
            self._stay(now_ns)
        number_count = (self._body_bytes_max - 8) // 4
        for first in range(0, len(gone), number_count):
            self.naks_sent_count += 1
            self._send_control(
                Nak(
                    header=self._header_value(NAK),
                    group=self._group,
                    port=self._port,
                    sender_id=self.identity.sender_id,
                    seqs=tuple(gone[first : first + number_count]),
                )
            )
        for datagram in datagrams:
            self.resent_datagram_count += 1
            self.resent_byte_count += len(datagram)
            if self._bandwidth.is_limited:
                self._spend(len(datagram), now_ns)
            self.ready.append(datagram[:2] + bytes((RETRANSMISSION,)) + datagram[3:])

    def _send_control(self, message: HeartbeatMessage | Configuration | Nak | Position) -> None:
        self.control_sent_count += 1
        self.ready.append(self._wire.encode(message))

    def _unwrapped(self, seq: int) -> int:
        """The number without wrapping: the one nearest to what is sent next."""
        distance = (seq - self.next_seq) & _U32
        return self.next_seq + (distance - (1 << 32) if distance >> 31 else distance)


def sooner(one_ns: int | None, other_ns: int | None) -> int | None:
    """The first of two deadlines; None if there is none."""
    if one_ns is None:
        return other_ns
    return one_ns if other_ns is None or one_ns <= other_ns else other_ns
