"""Retransmission: each datagram once, in ascending order, in portions; others in a NAK."""

from __future__ import annotations

from random import Random

from skerry.limits import DISTRIBUTOR_GAP_COUNT_MAX
from skerry.protocol.distributor.sending.history import SendHistory
from skerry.protocol.distributor.sending.resending import (
    DISTRIBUTOR_NAK_COUNT_MAX,
    DISTRIBUTOR_REQUESTER_COUNT_MAX,
    DISTRIBUTOR_RESEND_BYTES_MAX,
    DISTRIBUTOR_RESEND_INTERVAL_NS,
    Resender,
)


def _content(seq: int, size: int) -> bytes:
    return seq.to_bytes(2, "big").ljust(size, b".")


def served(
    *, kept: range = range(1, 11), size: int = 1, bytes_max: int = 10**9, **given: int
) -> Resender:
    history = SendHistory(bytes_max=10**9, age_ns_max=0, next_seq=kept.start)
    for seq in kept:
        history.add(seq, bytes([seq % 256]) * size if size < 4 else _content(seq, size), 0)
    return Resender(history, holdback_ns=20, bytes_max=bytes_max, **given)


def test_an_answer_is_sent_after_the_holdback_in_ascending_order() -> None:
    server = served()
    server.request(7, 9, 100)
    server.request(3, 5, 110)
    assert server.take_due(119) == ([], [])
    assert server.take_due(120) == ([b"\3", b"\4", b"\7", b"\x08"], [])
    assert server.due_ns is None
    assert len(server) == 0


def test_a_number_requested_twice_in_the_holdback_is_sent_once() -> None:
    server = served()
    server.request(3, 5, 100)
    server.request(3, 5, 105)
    server.request(4, 6, 119)
    assert server.take_due(120)[0] == [b"\3", b"\4", b"\5"]


def test_a_request_that_crossed_its_answer_is_not_answered_again_but_a_later_one_is() -> None:
    server = served()
    server.request(3, 4, 100)
    server.take_due(120)
    server.request(3, 4, 139)
    assert server.due_ns is None
    server.request(3, 4, 140)
    assert server.take_due(160) == ([b"\3"], [])


def test_a_number_is_not_sent_twice_before_receivers_repeat_requests() -> None:
    server = served(again_ns=700)
    answers = 0
    for now in range(0, 2100, 10):
        server.request(1, 11, now)
        answers += len(server.take_due(now)[0])
    assert answers == 3 * 10


def test_a_bandwidth_limit_bounds_retransmissions() -> None:
    server = served(kept=range(1, 101), size=1000, bit_max_per_s=8_000_000)
    server.request(1, 101, 0)
    sizes = []
    for ms in range(1, 51):
        server.request(1, 101, ms * 1_000_000)
        sizes.append(sum(map(len, server.take_due(ms * 1_000_000)[0])))
    assert max(sizes) == 10_000, "what may be sent in 10 ms"
    assert sum(sizes) == 50_000


def test_numbers_that_are_not_kept_are_reported_and_the_rest_is_sent() -> None:
    server = served(kept=range(5, 8))
    server.request(3, 6, 0)
    assert server.take_due(20) == ([b"\5"], [3, 4])


def test_an_empty_history_has_no_datagrams_to_send() -> None:
    history = SendHistory(bytes_max=0, age_ns_max=0)
    history.add(1, b"a", 0)
    history.add(2, b"b", 0)
    server = Resender(history, holdback_ns=20, bytes_max=100)
    server.request(1, 3, 0)
    assert server.take_due(20) == ([], [1, 2])


def test_numbers_that_were_never_sent_are_not_answered() -> None:
    server = served()
    server.request(11, 20, 0)
    assert server.due_ns is None
    server.request(10, 10**9, 0)
    assert server.take_due(20) == ([b"\x0a"], [])


def test_a_queued_datagram_is_sent_after_the_history_dropped_it() -> None:
    history = SendHistory(bytes_max=2, age_ns_max=0)
    history.add(1, b"a", 0)
    server = Resender(history, holdback_ns=20, bytes_max=100)
    server.request(1, 2, 0)
    for seq in range(2, 9):
        history.add(seq, b"b", 0)
    # A later request is not answered with a NAK, because the datagram is about to be sent.
    server.request(1, 4, 10)
    assert server.take_due(20) == ([b"a"], [2, 3])


def test_queued_retransmissions_are_bounded_and_the_rest_is_requested_again() -> None:
    server = served(size=2, bytes_max=6)
    server.request(1, 11, 0)
    assert len(server) == 3
    assert server.take_due(20) == ([b"\1\1", b"\2\2", b"\3\3"], [])
    server.request(1, 11, 30)
    assert server.take_due(50) == ([b"\4\4", b"\5\5", b"\6\6"], [])


def test_much_is_sent_in_portions_with_a_pause_between() -> None:
    size = DISTRIBUTOR_RESEND_BYTES_MAX // 4
    server = served(size=size)
    server.request(1, 11, 0)
    assert len(server.take_due(20)[0]) == 4
    assert server.due_ns == 20 + DISTRIBUTOR_RESEND_INTERVAL_NS
    server.request(1, 11, 21)
    assert len(server.take_due(20 + DISTRIBUTOR_RESEND_INTERVAL_NS)[0]) == 4
    rest, _ = server.take_due(20 + 2 * DISTRIBUTOR_RESEND_INTERVAL_NS)
    assert [datagram[1] for datagram in rest] == [9, 10]
    assert server.due_ns is None


def test_of_billions_of_missing_numbers_only_the_newest_are_reported() -> None:
    first = 2**31
    server = served(kept=range(first, first + 3), again_ns=10**9)
    notified: list[int] = []
    for now in range(0, 400, 20):
        server.request(1, first, now)
        _, gone = server.take_due(now + 20)
        assert len(gone) <= DISTRIBUTOR_NAK_COUNT_MAX
        notified += gone
    assert notified == list(range(first - DISTRIBUTOR_GAP_COUNT_MAX, first))


# -- what is sent again is bounded


SECOND = 1_000_000_000
MS = 1_000_000
KB = 1000


def flooded(server: Resender, *, names: int = 1, seconds: int = 5, sent_bytes: int = 0) -> int:
    """Bytes that are sent again while the whole history is requested each 25 ms."""
    resent = 0
    for index, now in enumerate(range(0, seconds * SECOND, 25 * MS)):
        requester = b"%d" % (index % names)
        server.request(1, 1001, now, requester, sent_bytes * index)
        for turn in range(25):
            resent += sum(map(len, server.take_due(now + turn * MS)[0]))
    return resent


def history_of_1_mb(*, again_ns: int = 740 * MS) -> Resender:
    history = SendHistory(bytes_max=1000 * KB, age_ns_max=0)
    for seq in range(1, 1001):
        history.add(seq, _content(seq, KB), 0)
    return Resender(
        history,
        holdback_ns=20 * MS,
        bytes_max=1000 * KB,
        again_ns=again_ns,
        repair_ns=8 * SECOND,
    )


def test_a_flood_of_requests_causes_the_history_once_and_then_little() -> None:
    resent = flooded(history_of_1_mb())
    # All of it once more in the time in which a receiver gives up.
    assert 1500 * KB < resent <= (1000 + 1000 * 5 // 8) * KB + 2 * KB


def test_a_flood_in_many_names_causes_no_more_than_that_of_two() -> None:
    one = flooded(history_of_1_mb(), seconds=2)
    many = flooded(history_of_1_mb(), seconds=2, names=50)
    assert one < many <= 2 * (one + KB)


def test_after_the_goodbye_a_flood_causes_no_more() -> None:
    assert flooded(history_of_1_mb(again_ns=20 * MS)) < 1700 * KB


def test_new_data_increases_the_allowance_of_retransmissions() -> None:
    quiet = flooded(history_of_1_mb(again_ns=0))
    busy = flooded(history_of_1_mb(again_ns=0), sent_bytes=10 * KB)
    assert quiet + 1700 * KB < busy <= quiet + 200 * 10 * KB


def test_receivers_that_lose_a_third_are_all_answered() -> None:
    rng = Random(1)
    server = history_of_1_mb()
    missing = {b"%d" % n: {s for s in range(1, 1001) if rng.random() < 0.3} for n in range(20)}
    for round_ in range(11):
        now = round_ * 800 * MS
        for name, seqs in missing.items():
            for seq in sorted(seqs):
                server.request(seq, seq + 1, now, name)
        while server.due_ns is not None:
            for datagram in server.take_due(server.due_ns)[0]:
                for seqs in missing.values():
                    if rng.random() > 0.3:
                        seqs.discard(int.from_bytes(datagram[:2], "big"))
    assert not any(missing.values())


def test_a_receiver_that_lost_everything_is_answered_at_once() -> None:
    server = history_of_1_mb()
    server.request(1, 1001, 0, b"one")
    assert len(server) == 1000


def test_a_large_update_beyond_the_history_is_answered_whole() -> None:
    history = SendHistory(bytes_max=1000, age_ns_max=0)
    history.add_large(1, [b"a" * 100] * 50, 0)
    server = Resender(history, holdback_ns=20, bytes_max=10**9, repair_ns=8 * SECOND)
    server.request(1, 51, 0, b"one")
    assert len(server) == 50


def test_requesters_that_are_remembered_are_bounded() -> None:
    server = history_of_1_mb()
    for number in range(10 * DISTRIBUTOR_REQUESTER_COUNT_MAX):
        server.request(1, 2, number * SECOND, b"%d" % number)
        server.take_due(number * SECOND + 20)
    assert len(server._requesters) <= DISTRIBUTOR_REQUESTER_COUNT_MAX
