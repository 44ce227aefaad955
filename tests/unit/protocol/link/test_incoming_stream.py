"""A reliable stream at its receiver."""

from __future__ import annotations

import pytest

from skerry.protocol.link.incoming_stream import BEYOND_ACK_NS, IncomingStream
from skerry.protocol.link.peers import Peer
from skerry.protocol.rtps.number_sets import NumberSet
from skerry.protocol.rtps.submessages import Data, DataFragment, GapNotice, Heartbeat

WRITER = 0x02000001


def stream(peer: Peer, *, window: int = 4, is_shared: bool = False) -> IncomingStream:
    return IncomingStream(WRITER, peer, window=window, message_bytes_max=1000, is_shared=is_shared)


def data(seq: int) -> Data:
    return Data(WRITER, seq, b"%d" % seq)


def heartbeat(first: int, last: int, count: int, *, is_final: bool = False) -> Heartbeat:
    return Heartbeat(WRITER, first, last, count, is_final, False)


def test_samples_are_delivered_in_order_and_once(peer: Peer) -> None:
    incoming = stream(peer)
    for seq in (2, 1, 2, 1):
        incoming.data_received(data(seq), 0)
    assert incoming.take_samples() == [b"1", b"2"]
    assert incoming.take_samples() == []
    assert peer.duplicate_count == 2


def test_a_gap_is_acknowledged_at_once_and_named(peer: Peer) -> None:
    incoming = stream(peer)
    incoming.data_received(data(1), 0)
    incoming.take_samples()
    due = [incoming.is_ack_due]
    incoming.data_received(data(4), 0)
    assert [*due, incoming.is_ack_due] == [False, True]
    nack, ack = incoming.take_ack()
    assert nack is None
    assert ack.numbers == NumberSet(2, 5, (2, 3))


def test_what_is_beyond_the_window_is_not_kept_and_seldom_answered(peer: Peer) -> None:
    incoming = stream(peer, window=4)
    incoming.data_received(data(5), 0)
    due = [incoming.is_ack_due]
    incoming.take_ack()
    for now_ns in (BEYOND_ACK_NS - 1, BEYOND_ACK_NS):
        incoming.data_received(data(6), now_ns)
        due.append(incoming.is_ack_due)
    assert due == [True, False, True]
    assert incoming.waiting_bytes == 0


def test_a_shared_stream_delivers_nothing_before_its_welcome(peer: Peer) -> None:
    incoming = stream(peer, is_shared=True)
    incoming.data_received(data(40), 0)
    incoming.heartbeat_received(heartbeat(40, 41, 1))
    assert not incoming.is_welcomed
    assert not incoming.is_ack_due
    incoming.gap_received(GapNotice(WRITER, 1, NumberSet(41, 41)), 0)
    for seq in (40, 41):
        incoming.data_received(data(seq), 0)
    assert incoming.take_samples() == [b"41"]


def test_another_welcome_means_that_the_stream_is_lost(peer: Peer) -> None:
    incoming = stream(peer, is_shared=True)
    for first, is_lost in ((41, False), (41, False), (50, True)):
        incoming.gap_received(GapNotice(WRITER, 1, NumberSet(first, first)), 0)
        assert incoming.is_lost is is_lost


def test_numbers_that_are_left_out_do_not_hold_up_the_others(peer: Peer) -> None:
    incoming = stream(peer)
    incoming.data_received(data(1), 0)
    incoming.data_received(data(4), 0)
    incoming.gap_received(GapNotice(WRITER, 2, NumberSet(4, 4)), 0)
    assert incoming.take_samples() == [b"1", b"4"]


def test_a_sender_that_no_longer_keeps_what_is_needed_is_lost(peer: Peer) -> None:
    incoming = stream(peer)
    incoming.heartbeat_received(heartbeat(1, 5, 1))
    assert not incoming.is_lost
    incoming.heartbeat_received(heartbeat(3, 5, 1))  # The same count is an old one.
    assert not incoming.is_lost
    incoming.heartbeat_received(heartbeat(3, 5, 2))
    assert incoming.is_lost


@pytest.mark.parametrize(("last_seq", "is_answered"), [(1, False), (2, True)])
def test_a_keep_alive_is_answered_if_it_names_what_is_missing(
    peer: Peer, last_seq: int, is_answered: bool
) -> None:
    """So a lost last packet is repaired within one interval, without the timer of its sender."""
    incoming = stream(peer)
    incoming.data_received(data(1), 0)
    incoming.take_samples()
    incoming.heartbeat_received(heartbeat(1, last_seq, 1, is_final=True))
    assert incoming.is_ack_due is is_answered
    incoming.take_ack()
    incoming.heartbeat_received(heartbeat(1, 2, 1, is_final=True))
    assert not incoming.is_ack_due, "its count is not new"


def test_a_message_above_the_limit_ends_the_stream(peer: Peer) -> None:
    incoming = stream(peer)
    incoming.fragment_received(DataFragment(WRITER, 1, 1, 100, 1001, bytes(100)), 0)
    assert incoming.is_lost


def test_missing_fragments_are_named(peer: Peer) -> None:
    incoming = stream(peer)
    for number in (1, 3):
        incoming.fragment_received(DataFragment(WRITER, 1, number, 4, 12, b"%04d" % number), 0)
    nack, ack = incoming.take_ack()
    assert nack is not None
    assert (nack.seq, nack.numbers) == (1, NumberSet(2, 4, (2,)))
    assert ack.numbers == NumberSet(1, 1)
    incoming.fragment_received(DataFragment(WRITER, 1, 2, 4, 12, b"0002"), 0)
    assert incoming.take_samples() == [b"000100020003"]


@pytest.mark.parametrize("window", [2, 5])
def test_no_more_fragments_are_kept_ahead_than_the_window(peer: Peer, window: int) -> None:
    incoming = stream(peer, window=window)
    for number in range(1, 20):
        incoming.fragment_received(DataFragment(WRITER, 2, number, 4, 400, b"data"), 0)
    assert incoming.waiting_bytes == 4 * window


def test_whole_messages_that_wait_for_the_host_leave_no_room_for_further_fragments(
    peer: Peer,
) -> None:
    """A host that takes nothing must not make its node keep a window of long messages."""
    incoming = stream(peer, window=10)
    for seq in range(1, 10):
        for number in range(1, 11):
            incoming.fragment_received(DataFragment(WRITER, seq, number, 4, 40, b"data"), 0)
    assert incoming.waiting_bytes == 40 + 4 * 5, "of ten fragments each, whole ones count half"
    assert len(incoming.take_samples()) == 1
    for number in range(6, 11):
        incoming.fragment_received(DataFragment(WRITER, 2, number, 4, 40, b"data"), 0)
    assert len(incoming.take_samples()) == 1


def test_next_received_takes_only_the_next_sample(peer: Peer) -> None:
    incoming = stream(peer)
    assert incoming.next_received(data(1))
    assert not incoming.next_received(data(3))
    incoming.data_received(data(3), 0)
    assert not incoming.next_received(data(2))


def test_after_a_pause_what_has_arrived_is_acknowledged(peer: Peer) -> None:
    incoming = stream(peer)
    incoming.data_received(data(1), 0)
    incoming.resume()
    assert incoming.is_ack_due
