"""What one receiver has acknowledged, and how it lags."""

from __future__ import annotations

from skerry.protocol.link.message_packing import MessagePacking
from skerry.protocol.link.packets import Sample
from skerry.protocol.link.peers import Peer
from skerry.protocol.link.reader_progress import ReaderProgress


def sample(seq: int, key: int | None = None) -> Sample:
    packing = MessagePacking(1000)
    packing.add(7, 0, b"data", key)
    data, keys = packing.close()
    made = Sample(seq, data, 1000, seq, keys)
    made.reader_count = 2
    return made


def test_a_packet_is_in_flight_until_its_sample_is_taken(peer: Peer) -> None:
    reader = ReaderProgress(peer, 1, 0, is_welcomed=True)
    first = sample(1)
    reader.sent(1, 10)
    assert reader.was_sent_once(1)
    reader.sent(1, 20)
    assert not reader.was_sent_once(1)
    assert reader.take(first)
    assert not reader.take(first)
    assert (reader.flight, reader.counts) == ({}, {})
    assert not reader.needs(1)
    reader.advance_base(2)
    assert not reader.is_waiting


def test_acknowledgements_are_newer_by_their_count_also_when_it_wraps(peer: Peer) -> None:
    reader = ReaderProgress(peer, 1, 0, is_welcomed=True)
    counts = [(5, True), (5, False), (4, False), (6, True), (0xFFFFFFFF, False)]
    assert [reader.is_new_count(count) for count, _ in counts] == [new for _, new in counts]
    reader.ack_count = 0xFFFFFFFF
    assert reader.is_new_count(0)


def test_a_receiver_has_room_by_its_flight_and_by_its_window(peer: Peer) -> None:
    reader = ReaderProgress(peer, 5, 0, is_welcomed=True)
    assert not reader.is_full(8, 4)
    assert reader.is_full(9, 4)
    for packet in range(4):
        reader.sent(packet, 0)
    assert reader.is_full(6, 4)


def test_time_in_which_it_holds_up_the_others_counts_and_decays(peer: Peer) -> None:
    reader = ReaderProgress(peer, 1, 0, is_welcomed=True)
    held_up_ns = []
    for is_blocking, elapsed_ns in ((True, 100), (False, 500), (False, 5000)):
        reader.is_blocking = is_blocking
        assert reader.needs_tick == is_blocking
        reader.account(elapsed_ns, 50)
        held_up_ns.append(reader.blocked_ns)
    assert held_up_ns == [90, 45, 0]
    reader.blocked_ns = 45
    reader.excuse(50)
    assert reader.blocked_ns == 0


def test_a_receiver_is_slow_by_comparison_with_the_others(peer: Peer) -> None:
    readers = [ReaderProgress(peer, 1, 0, is_welcomed=True) for _ in range(3)]
    for number, reader in enumerate(readers):
        reader.blocked_ns = 400 + 50 * number
    assert not any(reader.is_slowest(readers, 100) for reader in readers), "they are equally fast"
    readers[2].blocked_ns += 1
    assert [reader.is_slowest(readers, 100) for reader in readers] == [False, False, True]


def test_a_lagging_receiver_skips_what_later_samples_replace(peer: Peer) -> None:
    reader = ReaderProgress(peer, 1, 0, is_welcomed=True)
    samples = {seq: sample(seq, key=9) for seq in range(1, 4)}
    replaced = reader.begin_lag(1, 0, samples, 0)
    assert [one.seq for one in replaced] == [2]  # The first one is never left out.
    assert reader.skipped == {2}
    samples[4] = sample(4, key=9)
    assert [one.seq for one in reader.append(samples[4], samples)] == [3]
    assert not reader.needs(2)
    assert reader.needs(4)
    reader.next_seq = 3
    reader.end_lag(samples)
    assert reader.needs(3)
    assert samples[3].reader_count == 3
    assert not reader.is_lagging


def test_numbers_left_out_before_a_receiver_caught_up_are_counted_once(peer: Peer) -> None:
    reader = ReaderProgress(peer, 1, 0, is_welcomed=True)
    samples = {seq: sample(seq, key=9) for seq in range(1, 4)}
    reader.begin_lag(1, 0, samples, 0)
    reader.next_seq = 4
    reader.end_lag(samples)
    assert (reader.skipped, reader.backlog_bytes) == ({2}, 0)
    reader.begin_lag(4, 0, {}, 0)
    assert reader.backlog_bytes == 64
    reader.end_lag({})
    reader.advance_base(4)
    assert (reader.skipped, reader.backlog_bytes) == (set(), 0)


def test_a_lagging_receiver_continues_behind_what_it_has(peer: Peer) -> None:
    reader = ReaderProgress(peer, 1, 0, is_welcomed=True)
    samples = {seq: sample(seq) for seq in range(1, 5)}
    reader.begin_lag(1, 2, samples, 0)
    for seq in (1, 2):
        reader.take(samples[seq])
    reader.advance_base(3)
    reader.skip_behind()
    assert (reader.next_seq, reader.next_fragment) == (3, 0)
    assert reader.backlog_bytes == sum(len(samples[seq].data) for seq in (3, 4))
