"""The receiver of the stream of one sender: order, repair and loss.

Numbers on the wire have 32 bits and wrap. In the receiver they do not: each is taken as the one
nearest to the highest number so far, so they can be compared and counted.

A datagram is unpacked before its number counts as received: a malformed one leaves a gap, which a
retransmission may still fill. Datagrams after a gap wait. The gap is closed by a retransmission, or
it is given up, and then an event is delivered in its place.

`receiver_states` has the states of a receiver, `stream_start` the decision where a stream begins,
and `stream_delivery` what follows once the order is restored.
"""

from __future__ import annotations

from random import Random
from typing import Final

from skerry.limits import DISTRIBUTOR_GAP_COUNT_MAX
from skerry.protocol.distributor.config import DistributorConfig, LossPolicy
from skerry.protocol.distributor.events import LossReason, SenderInfo
from skerry.protocol.distributor.messages import (
    UPDATE,
    WHOLE,
    Position,
)
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.gaps import Gaps, ReorderBuffer, WaitingDatagrams, runs
from skerry.protocol.distributor.receiving.link_quality import LinkCounts
from skerry.protocol.distributor.receiving.receiver_states import (
    RECEIVER_TRANSITIONS,
    ReceiverEvent,
    ReceiverState,
)
from skerry.protocol.distributor.receiving.stream_delivery import DatagramContent, StreamDelivery
from skerry.protocol.distributor.receiving.stream_start import (
    FIRST_SEQ,
    LAP,
    Beginning,
    StreamOrigin,
    StreamStart,
)
from skerry.protocol.distributor.subjects import Subjects
from skerry.tracing import DropReason

_MS: Final = 1_000_000
_U32: Final = 0xFFFFFFFF
# Constants, because compiled code finds them faster than the members of an enum.
_UNSYNCHRONISED: Final = ReceiverState.UNSYNCHRONISED
_SEARCHING: Final = ReceiverState.SEARCHING
_DELIVERING: Final = ReceiverState.DELIVERING
_STOPPED: Final = ReceiverState.STOPPED


class Receiver:
    def __init__(
        self,
        *,
        sender: SenderInfo,
        config: DistributorConfig,
        text_length_bytes: int,
        subjects: Subjects,
        deliveries: Deliveries,
        room: ReorderBuffer,
        rng: Random,
        gap_count_max: int = DISTRIBUTOR_GAP_COUNT_MAX,
        origin: StreamOrigin = StreamOrigin.UNKNOWN,
        since_ns: int | None = None,
        is_asked: bool = False,
    ) -> None:
        """`gap_count_max` is how many numbers may be missing at once, fewer only in tests.

        `since_ns` is the time of the subscription, and `is_asked` whether the sender answers where
        its stream begins for a receiver that joined then.
        """
        self._state: ReceiverState = RECEIVER_TRANSITIONS.start
        self.start = StreamStart(
            origin=origin,
            since_ns=since_ns,
            is_asked=is_asked,
            config=config,
            gap_count_max=gap_count_max,
            rng=rng,
        )
        self.delivery = StreamDelivery(
            sender,
            subjects,
            deliveries,
            text_length_bytes=text_length_bytes,
            update_bytes_max=config.update_bytes_max,
        )
        self.waiting = WaitingDatagrams(room)
        self._gap_count_max = gap_count_max
        self._stops_at_loss = config.loss_policy is LossPolicy.STOP
        self.gaps = Gaps(
            delay_ns_max=config.request_delay_ms_max * _MS,
            timeout_ns=config.request_timeout_ms * _MS,
            retry_count_max=config.request_retry_count_max,
            rng=rng,
        )
        self._first_seq = 0
        """The number with which delivery began."""
        self._next_seq = 0
        self._highest_seq = -1
        self._is_known = False
        """Whether a number of this sender was received, so that `_next_seq` is meaningful."""
        self._gone: dict[int, LossReason] = {}
        """Numbers that were given up and are not reported yet."""
        self._far_seq: int | None = None
        """The last number that was too far ahead to be accepted."""
        self._passed_count = 0
        """Datagrams that were delivered or given up before `_first_seq`."""
        self._request_count = 0
        self._taken_counts = LinkCounts()

    # -- state and counters

    @property
    def sender(self) -> SenderInfo:
        """The sender, as far as it has announced itself."""
        return self.delivery.sender

    @property
    def is_synchronised(self) -> bool:
        """Whether it is known, or being asked, where the stream begins."""
        return self._state is not _UNSYNCHRONISED

    @property
    def is_stopped(self) -> bool:
        """Whether a loss has stopped the stream."""
        return self._state is _STOPPED

    @property
    def next_seq(self) -> int | None:
        """The number that is delivered next; None if unknown."""
        return self._next_seq if self.is_synchronised else None

    @property
    def due_ns(self) -> int | None:
        """When the next request to the sender is due; None if there is none."""
        gaps_ns = self.gaps.due_ns
        if self._state is not _SEARCHING or self.start.search is None:
            return gaps_ns
        search_ns = self.start.search.due_ns
        return search_ns if gaps_ns is None else min(gaps_ns, search_ns)

    @property
    def is_repairing(self) -> bool:
        """Whether requests to the sender are outstanding."""
        return self._state is _SEARCHING or len(self.gaps) > 0

    def take_counts(self) -> LinkCounts:
        """Return the counts since the last call."""
        passed_count = self._passed_count
        if self.is_synchronised:
            passed_count += self._next_seq - self._first_seq
        before = self._taken_counts
        self._taken_counts = now = LinkCounts(
            passed_count=passed_count,
            lost_count=self.delivery.lost_count,
            recovered_count=self.gaps.recovered_count,
            request_count=self._request_count,
            answer_count=self.gaps.answer_count,
            answer_ns=self.gaps.answer_ns,
        )
        return now.since(before)

    # -- input

    def receive(self, datagram: bytes, now_ns: int) -> DropReason | None:
        """Process a data datagram with a whole header; return why it is dropped, or None."""
        if self.receive_run(datagram, len(datagram)):
            return None
        flags = datagram[3]
        wire_seq = int.from_bytes(datagram[20:24], "big")
        # It is almost always the next one, so that is checked first.
        is_next = wire_seq == self._next_seq & _U32 and flags & WHOLE == WHOLE
        is_in_order = self._state is _DELIVERING or self._state is _STOPPED
        if is_next and is_in_order and not len(self.waiting):
            return self._receive_next(datagram, flags, self._next_seq, now_ns)
        seq = self._unwrapped(wire_seq)
        if self._state is _UNSYNCHRONISED and not self._begin(
            self.start.at_data(datagram, seq, self._known_seq(), now_ns)
        ):
            return None
        # A retransmission may be old, because another receiver may have requested it.
        if datagram[2] == UPDATE and self._is_lapped(seq):
            seq += LAP
        if seq < self._next_seq or seq in self.waiting.contents:
            return DropReason.DUPLICATE
        is_far = seq - self._highest_seq > self._gap_count_max
        if is_far and not self._is_believed(seq):
            return DropReason.JUMP
        content = self.delivery.content(datagram, flags)
        if content is None:
            return DropReason.UPDATES
        if is_far and not self._jump_to(seq, now_ns):
            return DropReason.JUMP
        if not self._has_room_for(seq, len(datagram), now_ns):
            return DropReason.OVERFLOW
        self._accept(seq, content, now_ns)
        return None

    def receive_run(self, data: bytes, size: int) -> int:
        """Process datagrams that arrived together, each of `size` bytes except for the last.

        Stop at the first one that is not the next of this sender, or not of the usual form, and
        return its offset. The caller has checked the header of the first one.
        """
        seq = self._next_seq
        if seq <= self._highest_seq or self._state is not _DELIVERING:
            return 0
        stop = self.delivery.deliver_run(data, size, seq)
        if stop:
            self._next_seq = seq + (stop + size - 1) // size
            self._highest_seq = self._next_seq - 1
        return stop

    def heartbeat_received(self, last_seq: int, now_ns: int) -> None:
        """Process a heartbeat: request what is missing up to the last number that was sent."""
        last = self._unwrapped(last_seq)
        if self._is_lapped(last + 1):
            last += LAP
        if self._state is _UNSYNCHRONISED and not self._begin(
            self.start.at_heartbeat(last, self._known_seq(), now_ns)
        ):
            return
        if last - self._highest_seq > self._gap_count_max:
            if self._is_believed(last):
                self._jump_to(last + 1, now_ns)
        elif last > self._highest_seq and self._has_room_for(last + 1, 0, now_ns):
            self.gaps.open(self._highest_seq + 1, last + 1, now_ns)
            self._highest_seq = last

    def request_seen(self, first_seq: int, last_seq: int, now_ns: int) -> None:
        """Process a request of another receiver to this sender."""
        if len(self.gaps):
            first, last = self._unwrapped(first_seq), self._unwrapped(last_seq)
            self.gaps.requested_by_another(first, last + 1, now_ns)

    def nak_received(self, seqs: tuple[int, ...]) -> None:
        """Give up datagrams that the sender no longer has."""
        if seqs:
            gone = [seq for seq in map(self._unwrapped, seqs) if seq in self.gaps]
        else:
            # The Java program sends an empty list for the one number that was requested. If more
            # requests are outstanding, the list could be about any of them.
            asked = self.gaps.asked_once()
            gone = asked if asked and asked[-1] - asked[0] + 1 == len(asked) else []
        self._give_up(gone, LossReason.NAK)

    def position_received(self, position: Position, now_ns: int) -> None:
        """Process the answer to a position request of this receiver, or of another one."""
        search = self.start.search
        if search is not None:
            seq, first_seq = self._unwrapped(position.seq), self._unwrapped(position.first_seq)
            first = search.answered(position, seq, first_seq, now_ns)
            if first is not None:
                self._settle(first, now_ns)
        elif self._state is not _UNSYNCHRONISED:
            # It names a number that was sent, which may be the only sign of the last ones.
            self.heartbeat_received(position.seq, now_ns)

    # -- requests

    def take_requests(self, now_ns: int) -> list[tuple[int, int]]:
        """Return the ranges to be requested now: first and last number on the wire."""
        ranges, given_up = self.gaps.take_due(now_ns)
        self._give_up(given_up, LossReason.RETRIES)
        self._request_count += len(ranges)
        return [(first & _U32, (stop - 1) & _U32) for first, stop in ranges]

    def take_position_request(self, now_ns: int) -> tuple[int, int] | None:
        """Return number and span of the position request to be sent now; None if none is due."""
        search = self.start.search
        if search is None or now_ns < search.due_ns:
            return None
        if search.is_over(now_ns):
            self._settle_unknown(now_ns)
            return None
        request = search.take_request(now_ns)
        return None if request is None else (request[0] & _U32, request[1])

    # -- start and end

    def resume(self, next_seq: int) -> None:
        """Continue the stream of a sender that was removed and has returned."""
        self._begin(Beginning(next_seq, next_seq - 1))

    def desynchronise(self) -> None:
        """Forget the stream, because there are no subscriptions; it begins again later."""
        self.start.reset()
        self.gaps.close_all()
        self.waiting.clear()
        self._gone.clear()
        self.delivery.reassembly = None
        if self.is_synchronised:
            self._passed_count += self._next_seq - self._first_seq
        self._next_seq = max(self._next_seq, self._highest_seq + 1)
        self._change(ReceiverEvent.UNSUBSCRIBED)

    def end(self, now_ns: int) -> None:
        """Deliver what waits and report what is missing, because the sender is removed."""
        self._settle_unknown(now_ns)
        if not self._is_known and self.start.since_ns is not None:
            # It was announced, and none of its numbers was received.
            self.delivery.report_unknown(FIRST_SEQ, FIRST_SEQ)
        if self._state is _DELIVERING:
            for seq in self.gaps.close_all():
                self._gone[seq] = LossReason.REMOVED
            self._drain()
            if self.delivery.reassembly is not None and not self.is_stopped:
                self.delivery.spoil(self._next_seq, LossReason.REMOVED)
        self.gaps.close_all()
        self.waiting.clear()

    def _change(self, event: ReceiverEvent) -> None:
        self._state = RECEIVER_TRANSITIONS.next_state(self._state, event)

    def _known_seq(self) -> int | None:
        """Return the next number of a stream that was received before; None if it was not."""
        return self._next_seq if self._is_known else None

    def _begin(self, beginning: Beginning | None) -> bool:
        """Begin the stream; False if it does not begin yet."""
        if beginning is None:
            return False
        self._first_seq = self._next_seq = beginning.next_seq
        self._highest_seq = beginning.highest_seq
        self._is_known = True
        if self.start.search is None:
            self._change(ReceiverEvent.START_KNOWN)
        else:
            self._change(ReceiverEvent.SEARCH_BEGUN)
        if beginning.unknown_seq is not None:
            self.delivery.report_unknown(beginning.unknown_seq, beginning.next_seq)
        return True

    def _settle_unknown(self, now_ns: int) -> None:
        """End the search, if there is one, without an answer of the sender."""
        search = self.start.search
        if search is not None:
            self.delivery.report_unknown(search.low_seq, search.stop_seq)
            self._settle(search.stop_seq, now_ns)

    def _settle(self, first_seq: int, now_ns: int) -> None:
        """End the search: the stream begins with this number. Request what is missing."""
        search, self.start.search = self.start.search, None
        assert search is not None
        self._change(ReceiverEvent.START_FOUND)
        first_seq = max(first_seq, search.lowest_seq)
        first, stop = max(first_seq, search.low_seq), search.stop_seq
        self._first_seq = self._next_seq = first
        if first_seq < first:
            self.delivery.lose(first_seq, first, LossReason.JUMP)
        self.waiting.drop_before(first)
        missing = [seq for seq in range(first, stop) if seq not in self.waiting.contents]
        for gap_first, gap_stop in runs(missing):
            self.gaps.open(gap_first, gap_stop, now_ns)
        self._drain()

    # -- numbers

    def _unwrapped(self, seq: int) -> int:
        """Return a number of the wire without wrapping: the nearest to the highest so far."""
        distance = (seq - self._highest_seq) & _U32
        return self._highest_seq + (distance - LAP if distance >> 31 else distance)

    def _is_lapped(self, seq: int) -> bool:
        """Return whether a number is too far behind to be late: then it is more than half a lap
        ahead, as after some hours without a network or without a subscription.
        """
        return self._is_known and self._next_seq - seq > self._gap_count_max

    def _is_believed(self, seq: int) -> bool:
        """Return whether a number far ahead is accepted: the second in a row is, because a single
        one may be forged."""
        far_seq, self._far_seq = self._far_seq, seq
        return far_seq is not None and 0 <= seq - far_seq <= self._gap_count_max

    def _jump_to(self, seq: int, now_ns: int) -> bool:
        """Give up all before `seq` without requesting it; False if the stream stops instead."""
        self._settle_unknown(now_ns)
        if self._stops_at_loss:
            # Too many are missing to record each. The numbers stay as they are, so a missing
            # datagram that is received later is still delivered.
            if not self.is_stopped:
                self._change(ReceiverEvent.LOSS)
                self.delivery.lose(self._next_seq, seq, LossReason.JUMP, is_stopped=True)
            return False
        for missing in self.gaps.close_all():
            self._gone[missing] = LossReason.JUMP
        self._drain()
        assert self._next_seq == self._highest_seq + 1
        first, self._next_seq = self._next_seq, seq
        self._highest_seq = seq - 1
        self.delivery.lose(first, seq, LossReason.JUMP)
        return True

    # -- order

    def _receive_next(
        self, datagram: bytes, flags: int, seq: int, now_ns: int
    ) -> DropReason | None:
        """Deliver the next datagram at once: none before it is missing, and none waits."""
        content = self.delivery.content(datagram, flags)
        if content is None:
            return DropReason.UPDATES
        if self.is_stopped:
            self._change(ReceiverEvent.LOSS_REPAIRED)
        self.delivery.deliver(seq, content)
        self._next_seq = seq + 1
        if seq > self._highest_seq:
            self._highest_seq = seq
        else:
            self.gaps.received(seq, now_ns)
            self._gone.pop(seq, None)
            self._drain()
        return None

    def _has_room_for(self, seq: int, size: int, now_ns: int) -> bool:
        """Make room in the buffer and among the gaps by giving up the first gap."""
        # Each round passes at least the first gap, and no round passes `seq`: while any datagram
        # waits or is missing, the next one is missing, or it would have been delivered.
        while seq != self._next_seq and self._is_too_much(seq, size):
            if self.start.search is not None:
                self._settle_unknown(now_ns)
                if seq < self._next_seq:
                    return False
                continue
            if self._stops_at_loss:
                return False
            # `seq` may be a part of the first gap, or given up already.
            self._gone.pop(seq, None)
            stop_seq = min(seq, min(self.waiting.contents, default=self._highest_seq + 1))
            for missing in range(self._next_seq, stop_seq):
                self.gaps.close(missing)
                self._gone.setdefault(missing, LossReason.OVERFLOW)
            self._drain()
        return True

    def _is_too_much(self, seq: int, size: int) -> bool:
        # A heartbeat adds nothing to the buffer, so it gives nothing up for room.
        if size and self.waiting.is_full(size):
            return True
        missing_count = len(self.gaps) + len(self._gone)
        new_count = max(0, seq - 1 - self._highest_seq)
        return missing_count > 0 and missing_count + new_count > self._gap_count_max

    def _accept(self, seq: int, content: DatagramContent, now_ns: int) -> None:
        if seq > self._highest_seq + 1:
            self.gaps.open(self._highest_seq + 1, seq, now_ns)
        self._highest_seq = max(self._highest_seq, seq)
        self.gaps.received(seq, now_ns)
        # Given up, but received before the loss was reported: it is delivered.
        self._gone.pop(seq, None)
        self.waiting.add(seq, content)
        if seq == self._next_seq:
            if self.is_stopped:
                self._change(ReceiverEvent.LOSS_REPAIRED)
            self._drain()

    def _give_up(self, seqs: list[int], reason: LossReason) -> None:
        for seq in seqs:
            self.gaps.close(seq)
            self._gone[seq] = reason
        if seqs:
            self._drain()

    def _drain(self) -> None:
        """Deliver the datagrams that are next, and report those given up in their place."""
        while self._state is _DELIVERING:
            seq = self._next_seq
            content = self.waiting.pop(seq)
            if content is not None:
                self.delivery.deliver(seq, content)
                self._next_seq = seq + 1
            elif seq in self._gone:
                self._pass_gone()
            else:
                break

    def _pass_gone(self) -> None:
        """Report the datagrams that were given up and are next, or stop at them."""
        first = stop = self._next_seq
        reason = self._gone[first]
        while self._gone.get(stop) is reason:
            stop += 1
        is_stopped = self._stops_at_loss and reason is not LossReason.REMOVED
        if is_stopped:
            self._change(ReceiverEvent.LOSS)
        else:
            self._next_seq = stop
            for seq in range(first, stop):
                del self._gone[seq]
        self.delivery.lose(first, stop, reason, is_stopped=is_stopped)
