"""The receiving half of a connection, for one sender: order, repair, and what is lost.

Numbers on the wire have 32 bits and wrap. In here they do not: each is taken as the one nearest to
the highest seen so far, so that comparing and counting are what they seem.

A datagram is unpacked before its number counts as received: bytes that are not what they should be
leave a gap, and may still come in good order. Datagrams ahead of a gap wait. The gap is closed by a
retransmission, or is given up, and then an event stands in its place.

What is received of a stream whose beginning is not known waits until its sender has answered where
the stream begins for this receiver; see `start`.
"""

from __future__ import annotations

import enum
from random import Random
from typing import Final

from librt.strings import read_i32_be

from skerry.errors import DecodeError
from skerry.limits import DISTRIBUTOR_GAP_COUNT_MAX
from skerry.protocol.distributor.config import DistributorConfig, LossPolicy
from skerry.protocol.distributor.events import LossReason, SenderInfo, StartUnknown, UpdatesLost
from skerry.protocol.distributor.messages import (
    END,
    HEADER_BYTES,
    RELAYED,
    START,
    UPDATE,
    UPDATE_HEADER_BYTES,
    WHOLE,
    Position,
)
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.gaps import Gaps, runs
from skerry.protocol.distributor.receiving.link_quality import LinkCounts
from skerry.protocol.distributor.receiving.plain_unpacking import (
    IS_PACKED_KEPT,
    alike,
    unpack_for_this_build,
)
from skerry.protocol.distributor.receiving.stream_start import Start
from skerry.protocol.distributor.receiving.unpacking import scan
from skerry.protocol.distributor.receiving.updates import AlikeUpdates, Packed
from skerry.protocol.distributor.segments import Reassembly, first_piece
from skerry.protocol.distributor.subjects import Subjects
from skerry.tracing import DropReason

__all__ = ["Receiver", "ReorderBuffer", "StreamOrigin"]

_MS: Final = 1_000_000
_U32: Final = 0xFFFFFFFF
_LAP: Final = 0x1_0000_0000
_FIRST_SEQ: Final = 1
"""The number of the first datagram of every sender."""
_ASK_PARTS: Final = 4
"""A sender is asked for the beginning of its stream so many times in a request timeout."""
_unpack: Final = unpack_for_this_build()

_Content = tuple[int, bytes, list[tuple[str, bytes]]]
"""A datagram that waits: its flags, itself, and its updates if it is not a piece."""


class StreamOrigin(enum.Enum):
    """What a receiver knows of the beginning of a stream whose first datagram it has not seen, and
    whose sender cannot be asked."""

    UNKNOWN = "unknown"
    """The sender may have sent before this connection listened: the stream begins with the first
    datagram that is received, and `StartUnknown` is reported."""
    UNHEARD = "unheard"
    """Nothing was received from the sender in several heartbeats of listening, so its first
    datagram was sent in that time, unless it had no publisher."""
    STARTED = "started"
    """The sender started after this connection began to listen: its whole stream is requested."""


class ReorderBuffer:
    """What the streams of a connection may keep waiting, all together."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.size = 0
        """Bytes that wait now."""

    def has_room_for(self, size: int) -> bool:
        """Whether so many bytes more may wait."""
        return self.size + size <= self._bytes_max


class Receiver:
    """The stream of one sender."""

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
        self.origin = origin
        self.since_ns = since_ns
        self._is_asked = is_asked
        self._ask_ns = max(1, config.request_timeout_ms * _MS // _ASK_PARTS)
        self._ask_delay_ns_max = config.request_delay_ms_max * _MS
        self._rng = rng
        self.start: Start | None = None
        """The search for the first number; while there is one, nothing is delivered."""
        self.sender = sender
        self._subjects = subjects
        self._deliveries = deliveries
        self._text_length_bytes = text_length_bytes
        self._update_bytes_max = config.update_bytes_max
        self._room = room
        self._gap_count_max = gap_count_max
        self._stops_at_loss = config.loss_policy is LossPolicy.STOP
        self.gaps = Gaps(
            delay_ns_max=config.request_delay_ms_max * _MS,
            timeout_ns=config.request_timeout_ms * _MS,
            retry_count_max=config.request_retry_count_max,
            rng=rng,
        )
        self._first_seq = 0
        """Where what is delivered began."""
        self._next_seq = 0
        self._highest_seq = -1
        self._is_known = False
        """Whether `_next_seq` says anything: some number of this sender was seen."""
        self._waiting: dict[int, _Content] = {}
        self._gone: dict[int, LossReason] = {}
        self._far_seq: int | None = None
        self._reassembly: Reassembly | None = None
        self.is_synchronised = False
        self.is_stopped = False
        self.waiting_bytes = 0
        self.lost_count = 0
        self._passed_count = 0
        """Datagrams that were delivered or given up before `_first_seq`."""
        self._request_count = 0
        self._told = LinkCounts()
        self.pieces_fault_count = 0
        self.run_update_count = 0
        """Updates that were taken by the last `receive_run`."""

    # -- what is seen of it

    @property
    def next_seq(self) -> int | None:
        """The number that is delivered next; None while that is not known."""
        return self._next_seq if self.is_synchronised else None

    @property
    def missing_count(self) -> int:
        """Datagrams that are being asked for."""
        return len(self.gaps)

    @property
    def waiting_count(self) -> int:
        """Datagrams that wait for one of those."""
        return len(self._waiting)

    @property
    def due_ns(self) -> int | None:
        """When there is something to ask the sender."""
        gaps_ns = self.gaps.due_ns
        if self.start is None:
            return gaps_ns
        return self.start.due_ns if gaps_ns is None else min(gaps_ns, self.start.due_ns)

    @property
    def is_repairing(self) -> bool:
        """Whether the sender is asked for anything."""
        return self.start is not None or len(self.gaps) > 0

    def take_counts(self) -> LinkCounts:
        """What happened since the last call."""
        passed_count = self._passed_count
        if self.is_synchronised:
            passed_count += self._next_seq - self._first_seq
        before = self._told
        self._told = now = LinkCounts(
            passed_count=passed_count,
            lost_count=self.lost_count,
            recovered_count=self.gaps.recovered_count,
            request_count=self._request_count,
            answer_count=self.gaps.answer_count,
            answer_ns=self.gaps.answer_ns,
        )
        return now.since(before)

    # -- what comes

    def receive(self, datagram: bytes, now_ns: int) -> DropReason | None:
        """Take a data datagram with a whole header; why it is of no use, or None."""
        if self.receive_run(datagram, len(datagram)):
            return None
        flags = datagram[3]
        wire_seq = int.from_bytes(datagram[20:24], "big")
        # Almost always it is the next one, so that is asked before all else.
        is_next = wire_seq == self._next_seq & _U32 and flags & WHOLE == WHOLE
        if is_next and self.is_synchronised and not self._waiting and self.start is None:
            return self._receive_next(datagram, flags, self._next_seq, now_ns)
        seq = self._unwrapped(wire_seq)
        if not self.is_synchronised and not self._synchronise(datagram, seq, now_ns):
            return None
        # An answer may be old, as somebody else may have asked for it.
        if datagram[2] == UPDATE and self._is_lapped(seq):
            seq += _LAP
        if seq < self._next_seq or seq in self._waiting:
            return DropReason.DUPLICATE
        is_far = seq - self._highest_seq > self._gap_count_max
        if is_far and not self._is_believed(seq):
            return DropReason.JUMP
        content = self._content(datagram, flags)
        if content is None:
            return DropReason.UPDATES
        if is_far and not self._jump_to(seq, now_ns):
            return DropReason.JUMP
        if not self._has_room_for(seq, len(datagram), now_ns):
            return DropReason.OVERFLOW
        self._accept(seq, content, now_ns)
        return None

    def receive_run(self, data: bytes, size: int) -> int:
        """Take datagrams that came at once, each of so many bytes but for the last, as long as
        each is the next one, of this sender, and as they always are.

        Up to where that was so. Somebody has looked at the header of the first one.
        """
        seq, flags = self._next_seq, data[3]
        self.run_update_count = 0
        if (
            seq <= self._highest_seq
            or not self.is_synchronised
            or self.is_stopped
            or self._reassembly is not None
            or flags & WHOLE != WHOLE
        ):
            return 0
        header = data[:HEADER_BYTES]
        parcel = self._deliveries.open(self.sender, flags & RELAYED != 0)
        batch, numbers = parcel.batch, parcel.numbers
        before_count = batch.count
        first, end = 0, len(data)
        while first < end:
            stop = min(first + size, end)
            if stop - first < UPDATE_HEADER_BYTES or data[first : first + HEADER_BYTES] != header:
                break
            wire_seq: int = read_i32_be(data, first + HEADER_BYTES)
            part = self._part(data, first, stop) if (wire_seq ^ seq) & _U32 == 0 else None
            if part is None:
                break
            if numbers is not None:
                numbers.append((batch.count, seq))
            batch.pack(part)
            seq += 1
            first = stop
        if first:
            self._deliveries.close(parcel)
            self._next_seq = seq
            self._highest_seq = seq - 1
            self.run_update_count = batch.count - before_count
        return first

    def last_seq_told(self, last_seq: int, now_ns: int) -> None:
        """The sender says what it sent last: what is missing up to there is asked for."""
        last = self._unwrapped(last_seq)
        if self._is_lapped(last + 1):
            last += _LAP
        has_begun = self.is_synchronised or (
            self.origin is StreamOrigin.STARTED and self._begin_with_first(last)
        )
        if not has_begun:
            # It is idle now, so the next one begins an update, and counts from here on.
            if not self._is_known or last + 1 >= self._next_seq:
                self._begin_after(last, now_ns)
            return
        if last - self._highest_seq > self._gap_count_max:
            if self._is_believed(last):
                self._jump_to(last + 1, now_ns)
        elif last > self._highest_seq and self._has_room_for(last + 1, 0, now_ns):
            self.gaps.open(self._highest_seq + 1, last + 1, now_ns)
            self._highest_seq = last

    def request_heard(self, first_seq: int, last_seq: int, now_ns: int) -> None:
        """Another receiver asks this sender for datagrams."""
        if len(self.gaps):
            first, last = self._unwrapped(first_seq), self._unwrapped(last_seq)
            self.gaps.heard(first, last + 1, now_ns)

    def nak_received(self, seqs: tuple[int, ...]) -> None:
        """The sender does not have these any more."""
        if seqs:
            gone = [seq for seq in map(self._unwrapped, seqs) if seq in self.gaps]
        else:
            # The Java program sends an empty list for the one number that was asked for. With
            # more under way it could be about any of them.
            asked = self.gaps.asked_once()
            gone = asked if asked and asked[-1] - asked[0] + 1 == len(asked) else []
        self._give_up(gone, LossReason.NAK)

    def take_requests(self, now_ns: int) -> list[tuple[int, int]]:
        """First and last number on the wire of what is to be asked for now."""
        ranges, given_up = self.gaps.take_due(now_ns)
        self._give_up(given_up, LossReason.RETRIES)
        self._request_count += len(ranges)
        return [(first & _U32, (stop - 1) & _U32) for first, stop in ranges]

    def take_position_request(self, now_ns: int) -> tuple[int, int] | None:
        """Number and span of the position request that is to be sent now, if one is."""
        if self.start is None or now_ns < self.start.due_ns:
            return None
        if self.start.is_over(now_ns):
            self._settle_unknown(now_ns)
            return None
        request = self.start.take_request(now_ns)
        return None if request is None else (request[0] & _U32, request[1])

    def position_received(self, position: Position, now_ns: int) -> None:
        """The sender answers a position request of this receiver, or of another one."""
        if self.start is not None:
            seq, first_seq = self._unwrapped(position.seq), self._unwrapped(position.first_seq)
            first = self.start.answered(position, seq, first_seq, now_ns)
            if first is not None:
                self._settle(first, now_ns)

    # -- beginning and end

    def resume(self, next_seq: int) -> None:
        """Go on where this sender was left when it was removed."""
        self._begin(next_seq)

    def desynchronise(self) -> None:
        """There are no subscriptions any more: begin again with later datagrams."""
        self.origin = StreamOrigin.UNKNOWN
        self.since_ns = None
        self.start = None
        self.gaps.close_all()
        self._waiting.clear()
        self._gone.clear()
        self._room.size -= self.waiting_bytes
        self.waiting_bytes = 0
        self._reassembly = None
        if self.is_synchronised:
            self._passed_count += self._next_seq - self._first_seq
        self._next_seq = max(self._next_seq, self._highest_seq + 1)
        self.is_synchronised = self.is_stopped = False

    def end(self, now_ns: int) -> None:
        """The sender is gone: deliver what waits, and say what is missing."""
        self._settle_unknown(now_ns)
        if not self._is_known and self.since_ns is not None:
            # It was announced, and no number of it was received.
            self._report_unknown(_FIRST_SEQ, _FIRST_SEQ)
        if self.is_synchronised and not self.is_stopped:
            for seq in self.gaps.close_all():
                self._gone[seq] = LossReason.REMOVED
            self._drain()
            if self._reassembly is not None and not self.is_stopped:
                self._spoil(self._next_seq, LossReason.REMOVED)
        self.gaps.close_all()
        self._waiting.clear()
        self._room.size -= self.waiting_bytes
        self.waiting_bytes = 0

    # -- inside

    def _unwrapped(self, seq: int) -> int:
        distance = (seq - self._highest_seq) & _U32
        return self._highest_seq + (distance - _LAP if distance >> 31 else distance)

    def _is_lapped(self, seq: int) -> bool:
        """Whether a number is too far behind to be late: then it is more than half a lap ahead.

        So it is after some hours without a network, or without anybody who listens.
        """
        return self._is_known and self._next_seq - seq > self._gap_count_max

    def _synchronise(self, datagram: bytes, seq: int, now_ns: int) -> bool:
        """Begin the stream with this datagram if possible, or with the first one of its sender."""
        if self._is_asked and self.since_ns is not None:
            return datagram[2] == UPDATE and self._search(seq, now_ns, is_data=True)
        if self.origin is not StreamOrigin.UNKNOWN and self._begin_with_first(seq):
            return True
        # A retransmission is an answer to somebody else, of a time before this receiver's.
        if datagram[2] != UPDATE or not datagram[3] & START:
            return False
        if self._is_lapped(seq):
            seq += _LAP
        if self._is_known and seq < self._next_seq:
            return False
        self._begin_unknown(seq)
        return True

    def _begin_with_first(self, seq: int) -> bool:
        """Begin with the first datagram of a sender that is now at `seq`, unless it is too old to
        be requested."""
        if self._is_known or not 0 <= seq <= self._gap_count_max:
            return False
        self._begin(_FIRST_SEQ)
        return True

    def _begin_after(self, last_seq: int, now_ns: int) -> None:
        """Begin with the number after the last one that was sent, by a heartbeat."""
        if self._is_asked and self.since_ns is not None:
            self._search(last_seq, now_ns, is_data=False)
        else:
            self._begin_unknown(last_seq + 1)

    def _begin_unknown(self, next_seq: int) -> None:
        """Begin here, though it is not known whether datagrams before this one are missing."""
        first_seq = self._lowest_seq(next_seq)
        self._begin(next_seq)
        if first_seq < next_seq and self.since_ns is not None:
            self._report_unknown(first_seq, next_seq)

    def _lowest_seq(self, seq: int) -> int:
        """The lowest number that a stream which is at `seq` may begin with."""
        if self._is_known:
            return self._next_seq
        # A number that is not positive is more than half a lap ahead.
        return _FIRST_SEQ if seq >= _FIRST_SEQ else seq - self._gap_count_max

    def _search(self, seq: int, now_ns: int, *, is_data: bool) -> bool:
        """Find out with which number the stream begins; False if this one is too old for that.

        `seq` was received, or is the last number that a heartbeat names.
        """
        if self._is_lapped(seq + 1):
            seq += _LAP
        stop_seq = seq if is_data else seq + 1
        lowest_seq = self._lowest_seq(stop_seq)
        if stop_seq < lowest_seq:
            return False
        low_seq = max(lowest_seq, stop_seq - self._gap_count_max)
        self._begin(low_seq)
        self._highest_seq = stop_seq - 1
        if low_seq < stop_seq:
            assert self.since_ns is not None
            # Data waits for the answer. A heartbeat is received by all at once, and can wait.
            delay_ns_max = 0 if is_data else self._ask_delay_ns_max
            self.start = Start(
                seq=seq,
                low_seq=low_seq,
                lowest_seq=lowest_seq,
                is_data=is_data,
                since_ns=self.since_ns,
                now_ns=now_ns,
                retry_ns=self._ask_ns,
                delay_ns=self._rng.randrange(delay_ns_max) if delay_ns_max else 0,
            )
        return True

    def _settle_unknown(self, now_ns: int) -> None:
        """The sender did not answer: end the search, if there is one."""
        start = self.start
        if start is None:
            return
        self._report_unknown(start.low_seq, start.stop_seq)
        self._settle(start.stop_seq, now_ns)

    def _settle(self, first_seq: int, now_ns: int) -> None:
        """The stream begins with this number: end the search, and request what is missing."""
        start, self.start = self.start, None
        assert start is not None
        first_seq = max(first_seq, start.lowest_seq)
        first, stop = max(first_seq, start.low_seq), start.stop_seq
        self._first_seq = self._next_seq = first
        if first_seq < first:
            self._lose(first_seq, first, LossReason.JUMP)
        for seq in [seq for seq in self._waiting if seq < first]:
            self._release(self._waiting.pop(seq))
        missing = [seq for seq in range(first, stop) if seq not in self._waiting]
        for gap_first, gap_stop in runs(missing):
            self.gaps.open(gap_first, gap_stop, now_ns)
        self._drain()

    def _report_unknown(self, first_seq: int, stop_seq: int) -> None:
        self._deliveries.add(
            StartUnknown(sender=self.sender, first_seq=first_seq & _U32, stop_seq=stop_seq & _U32)
        )

    def _release(self, content: _Content) -> None:
        """This one does not wait any more."""
        self.waiting_bytes -= len(content[1])
        self._room.size -= len(content[1])

    def _begin(self, next_seq: int) -> None:
        self._first_seq = self._next_seq = next_seq
        self._highest_seq = next_seq - 1
        self._is_known = self.is_synchronised = True

    def _receive_next(
        self, datagram: bytes, flags: int, seq: int, now_ns: int
    ) -> DropReason | None:
        """The usual case: nothing is missing, and the updates go straight to the application."""
        updates: list[tuple[str, bytes]] = []
        subjects = self._subjects
        if not _unpack(datagram, self._text_length_bytes, subjects.memo, subjects, updates):
            return DropReason.UPDATES
        self.is_stopped = False
        if self._reassembly is not None:
            # The event about it has to stand before these updates.
            self._spoil(seq)
        self._hand_over(seq, flags, updates)
        self._next_seq = seq + 1
        if seq > self._highest_seq:
            self._highest_seq = seq
        else:
            self.gaps.came(seq, now_ns)
            self._gone.pop(seq, None)
            self._drain()
        return None

    def _part(self, data: bytes, first: int, stop: int) -> Packed | AlikeUpdates | None:
        """The updates of a datagram, if all of it is as usual."""
        width, memo = self._text_length_bytes, self._subjects.memo
        if not IS_PACKED_KEPT:
            return alike(data, first, stop, width, memo)
        subjects: list[str] = []
        if not scan(data, first, stop, width, memo, subjects):
            return None
        count: int = read_i32_be(data, first + UPDATE_HEADER_BYTES - 4)
        return Packed(data, first + UPDATE_HEADER_BYTES, width, subjects, count)

    def _content(self, datagram: bytes, flags: int) -> _Content | None:
        updates: list[tuple[str, bytes]] = []
        if flags & WHOLE != WHOLE:
            return (flags, datagram, updates) if len(datagram) >= UPDATE_HEADER_BYTES else None
        subjects = self._subjects
        if not _unpack(datagram, self._text_length_bytes, subjects.memo, subjects, updates):
            return None
        return flags, datagram, updates

    def _is_believed(self, seq: int) -> bool:
        """Whether a number far ahead is meant: two in a row are, a single one may be anybody's."""
        far_seq, self._far_seq = self._far_seq, seq
        return far_seq is not None and 0 <= seq - far_seq <= self._gap_count_max

    def _jump_to(self, seq: int, now_ns: int) -> bool:
        """Give up all before `seq`, without asking for it; False if the stream stops instead."""
        self._settle_unknown(now_ns)
        if self._stops_at_loss:
            # Too many to know each of them, so it stays as if nothing had come: then whatever
            # comes after all still finds its place.
            if not self.is_stopped:
                self.is_stopped = True
                self._lose(self._next_seq, seq, LossReason.JUMP)
            return False
        for missing in self.gaps.close_all():
            self._gone[missing] = LossReason.JUMP
        self._drain()
        assert self._next_seq == self._highest_seq + 1
        first, self._next_seq = self._next_seq, seq
        self._highest_seq = seq - 1
        self._lose(first, seq, LossReason.JUMP)
        return True

    def _has_room_for(self, seq: int, size: int, now_ns: int) -> bool:
        """Make room among those that wait or are missing, by giving up the first gap."""
        # Each turn passes at least the first gap, and no turn passes `seq`: while anything waits or
        # is missing, the next number is missing, or it would have been delivered.
        while seq != self._next_seq and self._is_too_much(seq, size):
            if self.start is not None:
                self._settle_unknown(now_ns)
                if seq < self._next_seq:
                    return False
                continue
            if self._stops_at_loss:
                return False
            # `seq` may be a part of the first gap, or given up already.
            self._gone.pop(seq, None)
            stop_seq = min(seq, min(self._waiting, default=self._highest_seq + 1))
            for missing in range(self._next_seq, stop_seq):
                self.gaps.close(missing)
                self._gone.setdefault(missing, LossReason.OVERFLOW)
            self._drain()
        return True

    def _is_too_much(self, seq: int, size: int) -> bool:
        # What brings nothing that waits gives nothing up for room, either.
        if size and self._waiting and not self._room.has_room_for(size):
            return True
        missing_count = len(self.gaps) + len(self._gone)
        new_count = max(0, seq - 1 - self._highest_seq)
        return missing_count > 0 and missing_count + new_count > self._gap_count_max

    def _accept(self, seq: int, content: _Content, now_ns: int) -> None:
        if seq > self._highest_seq + 1:
            self.gaps.open(self._highest_seq + 1, seq, now_ns)
        self._highest_seq = max(self._highest_seq, seq)
        self.gaps.came(seq, now_ns)
        # Given up, and here before its turn was over: then it is used.
        self._gone.pop(seq, None)
        self._waiting[seq] = content
        self.waiting_bytes += len(content[1])
        self._room.size += len(content[1])
        if seq == self._next_seq:
            self.is_stopped = False
            self._drain()

    def _give_up(self, seqs: list[int], reason: LossReason) -> None:
        for seq in seqs:
            self.gaps.close(seq)
            self._gone[seq] = reason
        if seqs:
            self._drain()

    def _drain(self) -> None:
        """Deliver what is next in line, and tell of what is gone in its place."""
        while not self.is_stopped and self.start is None:
            seq = self._next_seq
            content = self._waiting.pop(seq, None)
            if content is not None:
                self._release(content)
                self._deliver(seq, content)
                self._next_seq = seq + 1
            elif seq in self._gone:
                self._pass_gone()
            else:
                break

    def _pass_gone(self) -> None:
        first = stop = self._next_seq
        reason = self._gone[first]
        while self._gone.get(stop) is reason:
            stop += 1
        if self._stops_at_loss and reason is not LossReason.REMOVED:
            self.is_stopped = True
        else:
            self._next_seq = stop
            for seq in range(first, stop):
                del self._gone[seq]
        self._lose(first, stop, reason)

    def _lose(self, first: int, stop: int, reason: LossReason) -> None:
        if not self.is_stopped:
            self._reassembly = None
        self.lost_count += stop - first
        self._deliveries.add(
            UpdatesLost(
                sender=self.sender,
                first_seq=first & _U32,
                stop_seq=stop & _U32,
                reason=reason,
                is_stopped=self.is_stopped,
            )
        )

    # -- pieces of large updates

    def _deliver(self, seq: int, content: _Content) -> None:
        flags, datagram, updates = content
        if flags & WHOLE == WHOLE:
            if self._reassembly is not None:
                self._spoil(seq)
            self._hand_over(seq, flags, updates)
        elif flags & START:
            if self._reassembly is not None:
                self._spoil(seq)
            self._begin_large(seq, datagram)
        elif self._reassembly is None:
            # Its beginning was lost, and told as lost, or was spoiled.
            pass
        elif not self._reassembly.add(datagram[UPDATE_HEADER_BYTES:]):
            self._spoil(seq + 1)
        elif flags & END:
            self._finish_large(seq, flags)

    def _begin_large(self, seq: int, datagram: bytes) -> None:
        try:
            raw, total, data = first_piece(datagram, text_length_bytes=self._text_length_bytes)
        except DecodeError:
            self._reassembly = Reassembly("", 0, seq)
            self._spoil(seq + 1)
            return
        subject = self._subjects.memo.get(raw)
        if subject is None:
            subject = self._subjects.resolve(raw)
        self._reassembly = Reassembly(subject, total, seq)
        if total > self._update_bytes_max or not self._reassembly.add(data):
            self._spoil(seq + 1)

    def _finish_large(self, seq: int, flags: int) -> None:
        reassembly = self._reassembly
        assert reassembly is not None
        data = reassembly.whole()
        if data is None:
            self._spoil(seq + 1)
            return
        self._reassembly = None
        if reassembly.subject:
            self._hand_over(seq, flags, [(reassembly.subject, data)])

    def _hand_over(self, seq: int, flags: int, updates: list[tuple[str, bytes]]) -> None:
        parcel = self._deliveries.open(self.sender, bool(flags & RELAYED))
        if parcel.numbers is not None:
            parcel.numbers.append((parcel.batch.count, seq))
        parcel.batch.extend(updates)
        self._deliveries.close(parcel)

    def _spoil(self, stop_seq: int, reason: LossReason = LossReason.MALFORMED) -> None:
        """The pieces up to here do not make up an update."""
        reassembly = self._reassembly
        assert reassembly is not None
        assert not self.is_stopped
        self.pieces_fault_count += 1
        self._lose(reassembly.first_seq, stop_seq, reason)
