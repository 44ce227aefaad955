"""One stream: in order, without duplicates, repaired, and every loss reported in its place."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.limits import DISTRIBUTOR_GAP_COUNT_MAX, UPDATE_BYTES_DEFAULT
from skerry.protocol.distributor.config import DistributorConfig, LossPolicy
from skerry.protocol.distributor.events import Delivered, LossReason, SenderInfo, UpdatesLost
from skerry.protocol.distributor.messages import (
    END,
    MORE,
    RELAYED,
    RETRANSMISSION,
    START,
    UPDATE,
    WHOLE,
    DatagramHeader,
    Position,
    UpdateMessage,
)
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.gaps import ReorderBuffer
from skerry.protocol.distributor.receiving.link_quality import LinkCounts
from skerry.protocol.distributor.receiving.receiver import Receiver
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.wire import JAVA_WIRE
from skerry.tracing import DropReason

MS = 1_000_000
SENDER = SenderInfo(address="10.0.0.1", sender_id=1, start=2, application_id=3)


def datagram(
    seq: int, body: bytes | None = None, *, flags: int = WHOLE, kind: int = UPDATE, count: int = 1
) -> bytes:
    header = DatagramHeader(
        kind=kind, flags=flags, address=b"\x0a\0\0\1", sender_id=1, start=2, application_id=3
    )
    if body is None:
        body = JAVA_WIRE.subject_head(b"/%d" % (seq & 0xFFFFFFFF)) + bytes(4)
    return JAVA_WIRE.encode(UpdateMessage(header=header, seq=seq, count=count, body=body))


def first_of(total: int, data: bytes) -> bytes:
    return JAVA_WIRE.subject_head(b"/large") + total.to_bytes(4, "big") + data


class Rig:
    """A receiver, and its events."""

    def __init__(self, *, next_seq: int | None = 1, **config: Any) -> None:
        self.subjects = Subjects()
        self.subjects.add("/...", None)
        self.deliveries = Deliveries()
        self.now_ns = 0
        settings = DistributorConfig(**config)
        self.room = ReorderBuffer(settings.waiting_bytes_max)
        self.receiver = Receiver(
            sender=SENDER,
            config=settings,
            text_length_bytes=4,
            subjects=self.subjects,
            deliveries=self.deliveries,
            room=self.room,
            rng=Random(1),
        )
        if next_seq is not None:
            self.receiver.heartbeat_received((next_seq - 1) & 0xFFFFFFFF, 0)

    def give(self, *seqs: int, **how: Any) -> list[DropReason | None]:
        return [self.receiver.receive(datagram(seq, **how), self.now_ns) for seq in seqs]

    def seen(self) -> list[Any]:
        """Numbers of delivered updates, and ranges that were lost, in order."""
        found: list[Any] = []
        for event in self.deliveries.take():
            if isinstance(event, Delivered):
                found += [subject[1:] for subject, _ in event.updates]
            else:
                assert isinstance(event, UpdatesLost)
                found.append((event.first_seq, event.stop_seq, event.reason))
        return [int(what) if isinstance(what, str) and what.isdigit() else what for what in found]

    def requests(self, after_ms: int) -> list[tuple[int, int]]:
        self.now_ns += after_ms * MS
        return self.receiver.take_requests(self.now_ns)


def test_datagrams_in_order_are_delivered_at_once() -> None:
    rig = Rig()
    assert rig.give(1, 2, 3) == [None, None, None]
    assert rig.seen() == [1, 2, 3]
    assert rig.receiver.next_seq == 4


def test_a_run_ends_where_a_datagram_is_not_the_next_one_of_this_sender() -> None:
    for place in range(28):
        rig = Rig()
        rig.give(1)
        bodies = [JAVA_WIRE.subject_head(b"/1") + bytes(4)] * 3
        train = bytearray().join(datagram(seq, body) for seq, body in enumerate(bodies, 2))
        size = len(train) // 3
        assert rig.receiver.receive_run(bytes(train), size) == 3 * size
        assert rig.receiver.delivery.run_update_count == 3
        rig = Rig()
        rig.give(1)
        train[size + place] ^= 8
        assert rig.receiver.receive_run(bytes(train), size) == size, place
        assert rig.receiver.delivery.run_update_count == 1
        assert rig.receiver.next_seq == 3


def test_a_run_may_end_with_a_shorter_datagram_or_one_that_is_cut() -> None:
    same = JAVA_WIRE.subject_head(b"/1") + b"\0\0\0\1x"
    train = datagram(2, same) + datagram(3)
    rig = Rig()
    rig.give(1, 3)
    assert rig.receiver.receive_run(train, len(datagram(2, same))) == 0
    rig = Rig()
    rig.give(1)
    rig.subjects.resolve(b"/3")
    assert rig.receiver.receive_run(train, len(datagram(2, same))) == len(train)
    for left in range(len(datagram(3))):
        rig = Rig()
        rig.give(1)
        cut = train[: len(train) - len(datagram(3)) + left]
        assert rig.receiver.receive_run(cut, len(datagram(2, same))) == len(datagram(2, same))
    assert rig.seen() == [1, 1]


def test_a_datagram_that_was_here_before_is_dropped() -> None:
    rig = Rig()
    assert rig.give(1, 1, 3, 3) == [None, DropReason.DUPLICATE, None, DropReason.DUPLICATE]
    assert rig.seen() == [1]


def test_datagrams_ahead_wait_for_the_missing_one() -> None:
    rig = Rig()
    rig.give(1, 3, 4)
    assert rig.seen() == [1]
    assert (len(rig.receiver.gaps), len(rig.receiver.waiting)) == (1, 2)
    assert rig.requests(20) == [(2, 2)]
    rig.give(2, kind=RETRANSMISSION)
    assert rig.seen() == [2, 3, 4]
    assert (len(rig.receiver.gaps), rig.receiver.waiting.size) == (0, 0)
    assert rig.requests(1000) == []


def test_swapped_datagrams_are_put_in_order_without_asking() -> None:
    rig = Rig()
    rig.give(3, 2, 1, 5, 4)
    assert rig.seen() == [1, 2, 3, 4, 5]
    assert rig.requests(1000) == []


def test_an_old_number_does_not_lower_the_highest_seen() -> None:
    rig = Rig()
    rig.give(1, 3, 6)
    assert rig.requests(20) == [(2, 2), (4, 5)]
    rig.give(4, kind=RETRANSMISSION)
    rig.give(7)
    # Only missing datagrams are requested again, not waiting ones.
    assert rig.requests(1000) == [(2, 2), (5, 5)]


@pytest.mark.parametrize("first", [1, 100, 2**31 - 2, 2**32 - 2])
def test_a_stream_begins_with_the_first_datagram_and_numbers_wrap(first: int) -> None:
    rig = Rig(next_seq=None)
    rig.give(*[(first + n) & 0xFFFFFFFF for n in (0, 1, 3, 2, 5)])
    assert rig.seen() == [(first + n) & 0xFFFFFFFF for n in (0, 1, 2, 3)]
    last = (first + 4) & 0xFFFFFFFF
    assert rig.requests(20) == [(last, last)]


def test_a_stream_does_not_begin_in_the_middle_of_a_large_update_or_with_an_answer() -> None:
    rig = Rig(next_seq=None)
    rig.give(5, flags=MORE, body=b"xx")
    rig.give(6, flags=END, body=b"xx")
    rig.give(7, kind=RETRANSMISSION)
    assert not rig.receiver.is_synchronised
    assert rig.receiver.next_seq is None
    rig.give(8)
    assert rig.seen() == [8]
    assert rig.requests(1000) == []


def test_after_a_heartbeat_the_first_datagram_is_missed_too() -> None:
    rig = Rig(next_seq=1)
    rig.give(2)
    assert rig.requests(20) == [(1, 1)]


def test_a_heartbeat_shows_that_the_newest_are_missing() -> None:
    rig = Rig()
    rig.give(1)
    rig.receiver.heartbeat_received(3, 0)
    assert rig.requests(20) == [(2, 3)]
    rig.give(3, 2, kind=RETRANSMISSION)
    assert rig.seen() == [1, 2, 3]


def test_an_answer_to_another_receiver_shows_that_the_newest_are_missing() -> None:
    rig = Rig()
    rig.give(1)
    header = DatagramHeader(
        kind=9, flags=WHOLE, address=b"\x0a\0\0\1", sender_id=1, start=2, application_id=3
    )
    answer = Position(header=header, seq=3, span_us=0, first_seq=1, elapsed_us=0)
    rig.receiver.position_received(answer, 0)
    assert rig.requests(20) == [(2, 3)]
    rig.give(3, 2, kind=RETRANSMISSION)
    assert rig.seen() == [1, 2, 3]


def test_a_late_heartbeat_changes_nothing() -> None:
    rig = Rig()
    rig.give(1, 2, 3)
    rig.receiver.heartbeat_received(1, 0)
    assert rig.requests(1000) == []


def test_after_too_many_retries_the_gap_is_reported_and_skipped() -> None:
    rig = Rig(request_retry_count_max=3)
    rig.give(1, 4, 5, 7)
    asked = [rig.requests(1000) for _ in range(5)]
    assert asked == [[(2, 3), (6, 6)]] * 4 + [[]]
    retries = LossReason.RETRIES
    assert rig.seen() == [1, (2, 4, retries), 4, 5, (6, 7, retries), 7]
    assert rig.receiver.delivery.lost_count == 3


def test_datagrams_of_a_nak_are_reported_and_skipped_at_once() -> None:
    rig = Rig()
    rig.give(1, 5)
    rig.receiver.nak_received((2, 3))
    assert rig.seen() == [1, (2, 4, LossReason.NAK)]
    rig.give(4)
    assert rig.seen() == [4, 5]


def test_a_loss_after_a_gap_is_reported_in_order_unless_the_datagram_is_received_before() -> None:
    rig = Rig()
    rig.give(1, 3, 6)
    rig.receiver.nak_received((4, 5))
    assert rig.seen() == [1]
    rig.give(5, kind=RETRANSMISSION)
    rig.give(2, kind=RETRANSMISSION)
    assert rig.seen() == [2, 3, (4, 5, LossReason.NAK), 5, 6]


def test_a_nak_for_what_is_not_missing_changes_nothing() -> None:
    rig = Rig()
    rig.give(1, 3)
    rig.receiver.nak_received((1, 3, 99))
    assert rig.seen() == [1]
    assert len(rig.receiver.gaps) == 1


def test_an_empty_nak_means_the_one_range_that_was_requested() -> None:
    rig = Rig()
    rig.give(1, 4)
    rig.receiver.nak_received(())
    assert rig.seen() == [1]
    assert rig.requests(20) == [(2, 3)]
    rig.receiver.nak_received(())
    assert rig.seen() == [(2, 4, LossReason.NAK), 4]


def test_an_empty_nak_with_several_outstanding_ranges_is_ignored() -> None:
    rig = Rig()
    rig.give(1, 3, 5)
    assert rig.requests(20) == [(2, 2), (4, 4)]
    rig.receiver.nak_received(())
    assert len(rig.receiver.gaps) == 2


def test_a_request_of_another_receiver_saves_ours() -> None:
    rig = Rig()
    rig.give(1, 4)
    rig.receiver.request_seen(1, 3, 0)
    assert rig.requests(20) == []
    assert rig.requests(850) == [(2, 3)]


def test_a_full_buffer_gives_up_the_missing_datagram() -> None:
    size = len(datagram(1))
    rig = Rig(waiting_bytes_max=3 * size)
    rig.give(1, 3, 4, 5)
    assert rig.seen() == [1]
    rig.give(7)
    assert rig.seen() == [(2, 3, LossReason.OVERFLOW), 3, 4, 5]
    assert rig.receiver.waiting.size == size
    rig.give(6)
    assert rig.seen() == [6, 7]


def test_a_datagram_of_the_first_gap_is_not_given_up_when_the_buffer_is_full() -> None:
    size = len(datagram(1))
    rig = Rig(waiting_bytes_max=2 * size)
    rig.give(1, 5, 6)
    rig.give(3, kind=RETRANSMISSION)
    assert rig.seen() == [1, (2, 3, LossReason.OVERFLOW), 3]
    rig.give(4, kind=RETRANSMISSION)
    assert rig.seen() == [4, 5, 6]
    assert rig.room.size == 0


def test_a_datagram_that_was_given_up_is_used_when_the_buffer_is_full() -> None:
    size = len(datagram(1))
    rig = Rig(waiting_bytes_max=2 * size)
    rig.give(1, 4, 6)
    rig.receiver.nak_received((3,))
    # Full of what another sender's stream has waiting, so that giving up does not help.
    rig.room.size += 2 * size
    rig.give(3, kind=RETRANSMISSION)
    assert rig.seen() == [1, (2, 3, LossReason.OVERFLOW), 3, 4]
    assert len(rig.receiver.waiting) == 1


def test_the_buffer_is_shared_and_a_stream_without_waiting_datagrams_may_use_it() -> None:
    size = len(datagram(1))
    rig = Rig(waiting_bytes_max=2 * size)
    rig.room.size = 2 * size
    rig.give(1, 3)
    assert rig.seen() == [1]
    assert rig.room.size == 3 * size
    rig.give(5)
    assert rig.seen() == [(2, 3, LossReason.OVERFLOW), 3]
    assert rig.room.size == 3 * size
    rig.receiver.end(rig.now_ns)
    assert rig.room.size == 2 * size
    rig.give(8)
    rig.receiver.desynchronise()
    assert rig.room.size == 2 * size


def test_a_heartbeat_gives_up_nothing_when_other_streams_fill_the_buffer() -> None:
    size = len(datagram(1))
    rig = Rig(waiting_bytes_max=2 * size)
    rig.give(1, 3)
    rig.room.size += 2 * size
    rig.receiver.heartbeat_received(5, 0)
    assert rig.seen() == [1]
    assert rig.requests(20) == [(2, 2), (4, 5)]


def test_all_gaps_together_are_bounded() -> None:
    rig = Rig()
    half = DISTRIBUTOR_GAP_COUNT_MAX // 2
    rig.give(half + 1, 2 * half + 2)
    assert len(rig.receiver.gaps) == DISTRIBUTOR_GAP_COUNT_MAX
    assert rig.seen() == []
    rig.give(2 * half + 4)
    assert rig.seen() == [(1, half + 1, LossReason.OVERFLOW), half + 1]
    assert len(rig.receiver.gaps) == half + 1
    rig.receiver.heartbeat_received(3 * half + 4, 0)
    rig.receiver.heartbeat_received(3 * half + 5, 0)
    assert rig.seen() == [(half + 2, 2 * half + 2, LossReason.OVERFLOW), 2 * half + 2]
    assert len(rig.receiver.gaps) <= DISTRIBUTOR_GAP_COUNT_MAX


def test_a_stopped_stream_with_many_gaps_ignores_a_heartbeat() -> None:
    rig = Rig(loss_policy=LossPolicy.STOP)
    rig.give(2, DISTRIBUTOR_GAP_COUNT_MAX + 1)
    assert len(rig.receiver.gaps) == DISTRIBUTOR_GAP_COUNT_MAX - 1
    rig.receiver.heartbeat_received(DISTRIBUTOR_GAP_COUNT_MAX + 3, 0)
    assert len(rig.receiver.gaps) == DISTRIBUTOR_GAP_COUNT_MAX - 1


def test_a_jump_is_accepted_when_a_second_datagram_confirms_it() -> None:
    rig = Rig()
    rig.give(1, 3)
    far = 3 + DISTRIBUTOR_GAP_COUNT_MAX + 1
    assert rig.give(far) == [DropReason.JUMP]
    assert rig.seen() == [1]
    assert rig.give(far + 1) == [None]
    jump = LossReason.JUMP
    assert rig.seen() == [(2, 3, jump), 3, (4, far + 1, jump), far + 1]


def test_more_than_half_a_lap_ahead_is_a_jump_and_not_an_old_number() -> None:
    rig = Rig(next_seq=None)
    rig.receiver.resume(5)
    far = 5 + 2**31 + 7
    assert rig.give(far, far + 1) == [DropReason.JUMP, None]
    assert rig.seen() == [(5, far + 1, LossReason.JUMP), far + 1]
    rig.receiver.heartbeat_received(4, 0)
    rig.receiver.heartbeat_received(4, 0)
    assert rig.seen() == [(far + 2, 5, LossReason.JUMP)]
    assert rig.receiver.next_seq == 2**32 + 5


def test_an_answer_to_others_is_old_however_far_behind_it_is() -> None:
    rig = Rig(next_seq=DISTRIBUTOR_GAP_COUNT_MAX + 10)
    assert rig.give(1, 2, kind=RETRANSMISSION) == [DropReason.DUPLICATE] * 2
    # The oldest that a network may have kept for so long.
    assert rig.give(10, 11) == [DropReason.DUPLICATE] * 2
    assert rig.seen() == []


@pytest.mark.parametrize("is_told", [True, False])
def test_a_receiver_that_listens_again_after_half_a_lap_begins_with_the_next_datagram(
    is_told: bool,
) -> None:
    rig = Rig()
    rig.give(1)
    rig.receiver.desynchronise()
    far = 2**31 + 5
    if is_told:
        rig.receiver.heartbeat_received(far - 1, 0)
    rig.give(far, far + 1)
    assert rig.seen() == [1, far, far + 1]


def test_a_single_number_far_ahead_has_no_effect() -> None:
    rig = Rig()
    rig.give(1)
    assert rig.give(2**30) == [DropReason.JUMP]
    assert rig.give(2, 3) == [None, None]
    assert rig.seen() == [1, 2, 3]


def test_the_widest_gap_that_can_be_requested_is_requested() -> None:
    rig = Rig()
    assert rig.give(DISTRIBUTOR_GAP_COUNT_MAX) == [None]
    assert len(rig.receiver.gaps) == DISTRIBUTOR_GAP_COUNT_MAX - 1
    assert rig.requests(20) == [(1, DISTRIBUTOR_GAP_COUNT_MAX - 1)]


def test_a_heartbeat_far_ahead_is_accepted_the_second_time() -> None:
    rig = Rig()
    rig.give(1)
    far = 2 + DISTRIBUTOR_GAP_COUNT_MAX
    rig.receiver.heartbeat_received(far, 0)
    assert rig.seen() == [1]
    rig.receiver.heartbeat_received(far, 0)
    assert rig.seen() == [(2, far + 1, LossReason.JUMP)]
    rig.give(far + 1)
    assert rig.seen() == [far + 1]


# -- the policy to stop


def test_a_stream_that_stops_at_a_loss_reports_it_once_and_stops_delivering() -> None:
    rig = Rig(loss_policy=LossPolicy.STOP)
    rig.give(1, 3)
    rig.receiver.nak_received((2,))
    (first, lost) = rig.deliveries.take()
    assert isinstance(first, Delivered)
    assert isinstance(lost, UpdatesLost)
    assert lost.is_stopped
    assert (lost.first_seq, lost.stop_seq) == (2, 3)
    rig.give(4, 5)
    assert rig.seen() == []
    assert rig.receiver.is_stopped


def test_a_stopped_stream_continues_when_the_missing_part_is_received() -> None:
    rig = Rig(loss_policy=LossPolicy.STOP)
    rig.give(1, 3, 5)
    rig.receiver.nak_received((2,))
    rig.seen()
    rig.give(2, kind=RETRANSMISSION)
    assert rig.seen() == [2, 3]
    rig.give(4)
    assert rig.seen() == [4, 5]
    assert not rig.receiver.is_stopped


def test_a_stopped_stream_without_waiting_datagrams_continues_too() -> None:
    rig = Rig(loss_policy=LossPolicy.STOP)
    rig.give(1)
    rig.receiver.heartbeat_received(2, 0)
    rig.receiver.nak_received((2,))
    assert rig.seen() == [1, (2, 3, LossReason.NAK)]
    rig.give(2, kind=RETRANSMISSION)
    assert rig.seen() == [2]
    rig.give(3)
    assert rig.seen() == [3]


def test_a_stopped_stream_does_not_fill_the_memory() -> None:
    size = len(datagram(1))
    rig = Rig(loss_policy=LossPolicy.STOP, waiting_bytes_max=2 * size)
    rig.give(1, 3)
    rig.receiver.nak_received((2,))
    assert rig.give(4, 5) == [None, DropReason.OVERFLOW]
    assert rig.receiver.waiting.size == 2 * size
    rig.give(2)
    assert rig.seen() == [1, (2, 3, LossReason.NAK), 2, 3, 4]
    rig.give(6)
    assert rig.requests(1000) == [(5, 5)]


def test_a_jump_stops_such_a_stream_too() -> None:
    rig = Rig(loss_policy=LossPolicy.STOP)
    rig.give(1, 2**20, 2**20 + 1)
    assert rig.seen() == [1, (2, 2**20 + 1, LossReason.JUMP)]
    assert rig.receiver.is_stopped


def test_a_stream_stopped_by_a_jump_accepts_missing_datagrams_and_reports_the_rest_again() -> None:
    rig = Rig(loss_policy=LossPolicy.STOP)
    rig.give(1, 3)
    assert rig.give(2**20, 2**20 + 1, 2**20 + 2) == [DropReason.JUMP] * 3
    rig.receiver.heartbeat_received(2**20 + 2, 0)
    # Once, from the first one missing on.
    assert rig.seen() == [1, (2, 2**20 + 1, LossReason.JUMP)]
    rig.give(2, 4)
    assert rig.seen() == [2, 3, 4]
    assert rig.give(2**20 + 3) == [DropReason.JUMP]
    assert rig.seen() == [(5, 2**20 + 3, LossReason.JUMP)]
    # Also where nothing is missing but what the jump was over.
    rig.give(5)
    assert rig.seen() == [5]
    assert not rig.receiver.is_stopped


def test_a_large_update_is_complete_if_the_missing_piece_is_received_after_a_stop() -> None:
    rig = Rig(loss_policy=LossPolicy.STOP)
    rig.give(1, flags=START, body=first_of(6, b"ab"))
    rig.give(3, flags=END, body=b"ef")
    rig.receiver.nak_received((2,))
    assert rig.seen() == [(2, 3, LossReason.NAK)]
    rig.give(2, flags=MORE, body=b"cd")
    assert rig.seen() == ["large"]


def test_an_interrupted_large_update_after_a_stop_is_reported_as_malformed() -> None:
    rig = Rig(loss_policy=LossPolicy.STOP)
    rig.give(1, flags=START, body=first_of(6, b"ab"))
    rig.receiver.heartbeat_received(2, 0)
    rig.receiver.nak_received((2,))
    rig.give(2)
    assert rig.seen() == [(2, 3, LossReason.NAK), (1, 2, LossReason.MALFORMED), 2]
    assert not rig.receiver.is_stopped


def test_the_removal_of_a_sender_stops_at_a_loss_after_a_gap() -> None:
    rig = Rig(loss_policy=LossPolicy.STOP)
    rig.give(1, 4)
    rig.give(3, flags=START, body=first_of(6, b"ab"))
    rig.receiver.heartbeat_received(5, 0)
    rig.give(6)
    rig.receiver.nak_received((5,))
    rig.receiver.end(rig.now_ns)
    removed, malformed = LossReason.REMOVED, LossReason.MALFORMED
    nak = LossReason.NAK
    assert rig.seen() == [1, (2, 3, removed), (3, 4, malformed), 4, (5, 6, nak)]
    assert rig.receiver.next_seq == 5
    assert (len(rig.receiver.waiting), rig.room.size) == (0, 0)


def test_the_removal_of_a_sender_within_a_large_update_is_reported_after_a_stop() -> None:
    rig = Rig(loss_policy=LossPolicy.STOP)
    rig.give(2, flags=START, body=first_of(6, b"ab"))
    rig.give(4)
    rig.receiver.nak_received((3,))
    rig.receiver.end(rig.now_ns)
    assert rig.seen() == [(1, 2, LossReason.REMOVED), (3, 4, LossReason.NAK)]
    assert rig.receiver.next_seq == 3


# -- malformed


def test_a_malformed_datagram_leaves_a_gap_that_a_good_one_fills() -> None:
    rig = Rig()
    assert rig.give(1) == [None]
    assert rig.give(2, body=b"junk") == [DropReason.UPDATES]
    assert rig.give(4, body=b"junk") == [DropReason.UPDATES]
    rig.give(3)
    assert rig.requests(20) == [(2, 2)]
    rig.give(2, kind=RETRANSMISSION)
    assert rig.seen() == [1, 2, 3]


def test_updates_before_a_fault_in_the_same_datagram_are_not_delivered() -> None:
    rig = Rig()
    good = JAVA_WIRE.subject_head(b"/1") + bytes(4)
    rig.give(1)
    assert rig.give(2, body=good + b"junk", count=2) == [DropReason.UPDATES]
    assert rig.seen() == [1]


# -- large updates


def test_pieces_are_put_together() -> None:
    rig = Rig()
    rig.give(1, flags=START, body=first_of(6, b"ab"))
    rig.give(3, flags=END, body=b"ef")
    rig.give(2, flags=MORE, body=b"cd")
    rig.give(4)
    (event,) = rig.deliveries.take()
    assert isinstance(event, Delivered)
    assert event.updates == [("/large", b"abcdef"), ("/4", b"")]


def test_a_large_update_without_subscribers_is_skipped() -> None:
    rig = Rig()
    rig.subjects.clear()
    rig.subjects.add("/3", None)
    rig.give(1, flags=START, body=first_of(4, b"ab"))
    rig.give(2, flags=END, body=b"cd")
    rig.give(3)
    assert rig.seen() == [3]


@pytest.mark.parametrize(
    ("pieces", "lost"),
    [
        ([(START, first_of(6, b"ab")), (END, b"cd")], (1, 3)),
        ([(START, first_of(3, b"ab")), (MORE, b"cd"), (END, b"ef")], (1, 3)),
        ([(START, first_of(1, b"ab")), (END, b"cd")], (1, 2)),
        ([(START, first_of(9, b"ab")), (WHOLE, None)], (1, 2)),
        ([(START, first_of(9, b"ab")), (START, first_of(4, b"ab")), (END, b"cd")], (1, 2)),
        ([(START, b"junk"), (END, b"cd")], (1, 2)),
        ([(START, first_of(UPDATE_BYTES_DEFAULT + 1, b"ab")), (END, b"cd")], (1, 2)),
    ],
    ids=["short", "long", "long at once", "whole between", "start again", "junk", "too large"],
)
def test_pieces_that_do_not_fit_are_dropped_and_reported(
    pieces: list[tuple[int, bytes | None]], lost: tuple[int, int]
) -> None:
    rig = Rig()
    for seq, (flags, body) in enumerate(pieces, 1):
        rig.give(seq, flags=flags, body=body)
    rig.give(len(pieces) + 1)
    seen = rig.seen()
    assert seen[0] == (*lost, LossReason.MALFORMED)
    assert seen[-1] == len(pieces) + 1
    assert rig.receiver.delivery.pieces_fault_count == 1
    # The next update after the broken one is sound, be it large or small.
    expected = {(WHOLE, None): [2], (START, first_of(4, b"ab")): ["large"]}
    assert seen[1:-1] == expected.get(pieces[1], [])


def test_a_lost_piece_loses_only_its_update() -> None:
    rig = Rig()
    rig.give(1, flags=START, body=first_of(6, b"ab"))
    rig.give(3, flags=END, body=b"ef")
    rig.give(4)
    rig.receiver.nak_received((2,))
    assert rig.seen() == [(2, 3, LossReason.NAK), 4]


def test_pieces_without_their_first_one_are_skipped() -> None:
    rig = Rig()
    rig.give(2, flags=MORE, body=b"cd")
    rig.give(3, flags=END, body=b"ef")
    rig.give(4)
    rig.receiver.nak_received((1,))
    assert rig.seen() == [(1, 2, LossReason.NAK), 4]


def test_relayed_updates_are_marked() -> None:
    rig = Rig()
    rig.give(1)
    rig.give(2, flags=WHOLE | RELAYED)
    rig.give(4, flags=WHOLE | RELAYED)
    rig.give(3)
    events = rig.deliveries.take()
    assert [event.is_relayed for event in events if isinstance(event, Delivered)] == [
        False,
        True,
        False,
        True,
    ]


# -- beginning and end


def test_the_removal_of_a_sender_delivers_what_waits_and_reports_what_is_missing() -> None:
    rig = Rig()
    rig.give(1, 3)
    rig.receiver.heartbeat_received(5, 0)
    rig.receiver.end(rig.now_ns)
    removed = LossReason.REMOVED
    assert rig.seen() == [1, (2, 3, removed), 3, (4, 6, removed)]
    assert rig.receiver.next_seq == 6


def test_the_removal_of_a_sender_within_a_large_update_is_reported() -> None:
    rig = Rig()
    rig.give(1, flags=START, body=first_of(6, b"ab"))
    rig.receiver.end(rig.now_ns)
    assert rig.seen() == [(1, 2, LossReason.REMOVED)]


def test_a_resumed_stream_requests_what_was_sent_meanwhile() -> None:
    rig = Rig(next_seq=None)
    rig.receiver.resume(5)
    assert rig.give(4, 7) == [DropReason.DUPLICATE, None]
    assert rig.requests(20) == [(5, 6)]


def test_a_receiver_without_subscriptions_requests_nothing_and_begins_again() -> None:
    rig = Rig()
    rig.give(1, 3)
    rig.receiver.desynchronise()
    assert rig.receiver.waiting.size == 0
    assert rig.requests(1000) == []
    rig.seen()
    # What is older than the last one seen is not taken for a beginning.
    rig.give(2)
    assert not rig.receiver.is_synchronised
    rig.give(9)
    assert rig.seen() == [9]


# -- anything in any order

seqs = st.integers(1, 20)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("data"), seqs),
        st.tuples(st.just("nak"), seqs),
        st.tuples(st.just("beat"), seqs),
        st.tuples(st.just("time"), st.just(0)),
    ),
    max_size=60,
)


@given(steps, st.integers(1, 6), st.sampled_from([1, 2**31 - 10, 2**32 - 10]))
def test_each_number_is_delivered_or_reported_as_lost_once_and_in_order(
    what: list[tuple[str, int]], room: int, first: int
) -> None:
    rig = Rig(
        next_seq=first, waiting_bytes_max=room * len(datagram(1)) * 2, request_retry_count_max=1
    )
    for step, number in what:
        seq = (first + number - 1) & 0xFFFFFFFF
        if step == "data":
            rig.give(seq)
        elif step == "nak":
            rig.receiver.nak_received((seq,))
        elif step == "beat":
            rig.receiver.heartbeat_received(seq, rig.now_ns)
        else:
            rig.requests(1000)
    rig.receiver.heartbeat_received((first + 19) & 0xFFFFFFFF, rig.now_ns)
    rig.receiver.end(rig.now_ns)
    covered: list[int] = []
    for one in rig.seen():
        start, stop = (one, one + 1) if isinstance(one, int) else one[:2]
        covered += [(start + n) & 0xFFFFFFFF for n in range((stop - start) & 0xFFFFFFFF)]
    assert covered == [(first + n) & 0xFFFFFFFF for n in range(20)]
    assert rig.room.size == 0
    assert len(rig.receiver.waiting) == 0
    assert len(rig.receiver.gaps) == 0


def numbers(rig: Rig) -> list[list[tuple[int, int]] | None]:
    return [event.numbers for event in rig.deliveries.take() if isinstance(event, Delivered)]


def test_numbered_batches_name_the_datagram_of_each_update() -> None:
    rig = Rig()
    rig.give(1)
    assert numbers(rig) == [None]
    rig.deliveries.is_numbered = True
    # In order, after a gap, and all that waited for it.
    rig.give(2, 4, 5)
    assert numbers(rig) == [[(0, 2)]]
    rig.give(3)
    assert numbers(rig) == [[(0, 3), (1, 4), (2, 5)]]


def test_a_large_update_has_the_number_of_its_last_piece() -> None:
    rig = Rig()
    rig.deliveries.is_numbered = True
    rig.give(1, body=first_of(4, b"ab"), flags=START)
    rig.give(2, body=b"cd", flags=END)
    assert numbers(rig) == [[(0, 2)]]


def test_numbers_stay_right_behind_a_spoiled_large_update() -> None:
    rig = Rig()
    rig.deliveries.is_numbered = True
    rig.give(1, body=first_of(4, b"ab"), flags=START)
    rig.give(2)
    assert numbers(rig) == [[(0, 2)]]


def test_recovered_and_lost_datagrams_are_counted_once() -> None:
    rig = Rig(request_delay_ms_max=0, request_timeout_ms=100)
    rig.give(1, 2, 6)
    assert rig.requests(0) == [(3, 5)]
    rig.now_ns += 2 * MS
    rig.give(3, 4, kind=RETRANSMISSION)
    rig.receiver.nak_received((5,))
    rig.give(7)
    assert rig.receiver.take_counts() == LinkCounts(
        passed_count=7,
        lost_count=1,
        recovered_count=2,
        request_count=1,
        answer_count=2,
        answer_ns=4 * MS,
    )
    assert rig.receiver.take_counts() == LinkCounts()
    rig.give(8)
    assert rig.receiver.take_counts() == LinkCounts(passed_count=1)


def test_datagrams_without_a_subscription_are_not_counted() -> None:
    rig = Rig()
    rig.give(1, 2)
    rig.receiver.desynchronise()
    assert rig.receiver.take_counts() == LinkCounts(passed_count=2)
    rig.give(100, 101, 102)
    assert rig.receiver.take_counts() == LinkCounts(passed_count=3)
