"""The history of a sender: found by number, bounded by bytes and by age."""

from __future__ import annotations

from skerry.protocol.distributor.sending.history import SendHistory


def test_datagrams_are_found_by_their_numbers() -> None:
    history = SendHistory(bytes_max=100, age_ns_max=0)
    assert (history.first_seq, history.stop_seq, len(history)) == (1, 1, 0)
    history.add(1, b"one", 0)
    history.add(2, b"two", 0)
    assert history.find(1) == b"one"
    assert history.find(2) == b"two"
    assert history.find(0) is None
    assert history.find(3) is None
    assert (history.first_seq, history.stop_seq, history.size) == (1, 3, 6)


def test_the_oldest_datagrams_are_dropped_when_there_are_too_many_bytes() -> None:
    history = SendHistory(bytes_max=10, age_ns_max=0)
    for seq in range(1, 5):
        history.add(seq, b"12345", 0)
    assert history.size == 10
    assert [history.find(seq) is not None for seq in range(1, 5)] == [False, False, True, True]
    assert history.first_seq == 3


def test_a_datagram_larger_than_all_room_is_not_kept() -> None:
    history = SendHistory(bytes_max=4, age_ns_max=0)
    history.add(1, b"12345", 0)
    assert (len(history), history.size, history.first_seq, history.stop_seq) == (0, 0, 2, 2)
    history.add(2, b"1", 0)
    assert history.find(2) == b"1"


def test_old_datagrams_are_dropped_by_cleaning() -> None:
    history = SendHistory(bytes_max=100, age_ns_max=60)
    history.add(1, b"a", 0)
    history.add(2, b"b", 10)
    history.clean(59)
    assert len(history) == 2
    history.clean(60)
    assert (history.first_seq, len(history), history.size) == (2, 1, 1)
    history.clean(70)
    assert (history.first_seq, len(history)) == (3, 0)


def test_an_age_of_zero_keeps_datagrams() -> None:
    history = SendHistory(bytes_max=100, age_ns_max=0)
    history.add(1, b"a", 0)
    history.clean(10**18)
    assert len(history) == 1


def test_numbers_stay_correct_after_many_additions_and_drops() -> None:
    history = SendHistory(bytes_max=3000, age_ns_max=0, next_seq=7)
    for seq in range(7, 7 + 5000):
        history.add(seq, seq.to_bytes(10, "big"), 0)
        assert len(history) == min(seq - 6, 300)
    assert (history.first_seq, history.stop_seq, history.size) == (4707, 5007, 3000)
    assert history.find(4706) is None
    for seq in range(4707, 5007):
        assert history.find(seq) == seq.to_bytes(10, "big")
    # What was let go takes no room but its place in a list, and not for long.
    assert len(history._datagrams) < 2 * 300 + 256


def kept(history: SendHistory, seq: int, *updates: bytes) -> bytes:
    """Keep a datagram by its parts; return the datagram."""
    body = b""
    for data in updates:
        history.parts += (b"/head", data)
        body += b"/head" + len(data).to_bytes(4, "big") + data
    datagram = history.header + seq.to_bytes(4, "big") + len(updates).to_bytes(4, "big") + body
    history.add_parts(seq, len(datagram), 0)
    return datagram


def test_a_datagram_that_is_kept_by_its_parts_is_found_as_it_was() -> None:
    history = SendHistory(bytes_max=10_000, age_ns_max=0)
    history.header = b"h" * 20
    first = kept(history, 1, b"one", b"", b"three")
    history.add(2, b"whole", 0)
    third = kept(history, 3, b"x" * 300)
    # What the open datagram has so far belongs to none of them.
    history.parts += (b"/open", b"...")
    assert [history.find(seq) for seq in (1, 2, 3)] == [first, b"whole", third]
    assert history.size == len(first) + 5 + len(third)


def test_parts_are_dropped_with_their_datagram() -> None:
    history = SendHistory(bytes_max=20_000, age_ns_max=0)
    sent: dict[int, bytes] = {}
    for seq in range(1, 3000):
        if seq % 3:
            sent[seq] = kept(history, seq, *[bytes([seq % 256]) * 50] * (seq % 5 + 1))
        else:
            sent[seq] = b"whole %d" % seq
            history.add(seq, sent[seq], 0)
        if seq % 100 == 0:
            assert all(
                history.find(n) == sent[n] for n in range(history.first_seq, history.stop_seq)
            )
    assert history.size <= 20_000
    assert len(history.parts) < 8 * (len(history) + 256), "what is gone takes no room for long"


def timed(times: list[int], *, bytes_max: int = 100, next_seq: int = 1) -> SendHistory:
    history = SendHistory(bytes_max=bytes_max, age_ns_max=0, next_seq=next_seq)
    for index, time_ns in enumerate(times):
        history.add(next_seq + index, b"a", time_ns)
    return history


def test_the_first_datagram_of_a_span_is_found() -> None:
    history = timed([10, 20, 20, 30, 30, 40], next_seq=5)
    assert history.first_since(10, 0) == 10
    assert history.first_since(9, 0) == 8, "added at the same time"
    assert history.first_since(10, 9) == 10
    assert history.first_since(10, 10) == 8
    assert history.first_since(10, 20) == 6
    assert history.first_since(10, 10**18) == 5
    assert history.time_ns(8) == 30


def test_for_a_span_that_is_not_kept_the_last_dropped_number_is_returned() -> None:
    history = timed([10, 20, 30, 40, 50], bytes_max=2)
    assert history.first_seq == 4
    assert history.first_since(5, 19) == 4
    assert history.first_since(5, 20) == 3
    assert history.first_since(5, 39) == 3
    assert history.first_since(5, 40) == 1, "the stream began in the span"
    assert history.first_since(2, 0) == 1, "it was dropped, and when it was added is unknown"
    assert history.time_ns(2) == 30, "at the latest"


def test_the_number_before_the_first_was_added_long_ago() -> None:
    assert timed([], next_seq=7).time_ns(6) < -(10**18)
    assert timed([10], next_seq=7).time_ns(6) < -(10**18)


def test_times_stay_correct_after_many_additions_and_drops() -> None:
    history = timed(list(range(0, 50_000, 10)), bytes_max=300)
    assert history.first_since(5000, 100) == 4990
    assert history.time_ns(4990) == 49_890
