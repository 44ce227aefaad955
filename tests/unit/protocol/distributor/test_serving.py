"""Answers: each datagram once, in rising order, in portions; and what is gone is told."""

from __future__ import annotations

from skerry.limits import (
    DISTRIBUTOR_NAK_COUNT_MAX,
    DISTRIBUTOR_RESEND_BYTES_MAX,
    DISTRIBUTOR_RESEND_INTERVAL_NS,
)
from skerry.protocol.distributor.history import History
from skerry.protocol.distributor.serving import Server


def served(
    *, kept: range = range(1, 11), size: int = 1, bytes_max: int = 10**9, **given: int
) -> Server:
    history = History(bytes_max=10**9, age_ns_max=0, next_seq=kept.start)
    for seq in kept:
        history.add(seq, bytes([seq % 256]) * size, 0)
    return Server(history, holdback_ns=20, bytes_max=bytes_max, **given)


def test_an_answer_comes_after_the_holdback_in_rising_order() -> None:
    server = served()
    server.request(7, 9, 100)
    server.request(3, 5, 110)
    assert server.take_due(119) == ([], [])
    assert server.take_due(120) == ([b"\3", b"\4", b"\7", b"\x08"], [])
    assert server.due_ns is None
    assert len(server) == 0


def test_a_number_asked_for_twice_in_the_holdback_is_sent_once() -> None:
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


def test_a_number_is_not_sent_twice_in_the_time_in_which_nobody_repeats_a_request() -> None:
    server = served(again_ns=700)
    answers = 0
    for now in range(0, 2100, 10):
        server.request(1, 11, now)
        answers += len(server.take_due(now)[0])
    assert answers == 3 * 10


def test_a_bandwidth_limit_bounds_what_is_sent_again() -> None:
    server = served(kept=range(1, 101), size=1000, bit_max_per_s=8_000_000)
    server.request(1, 101, 0)
    sizes = []
    for ms in range(1, 51):
        server.request(1, 101, ms * 1_000_000)
        sizes.append(sum(map(len, server.take_due(ms * 1_000_000)[0])))
    assert max(sizes) == 10_000, "what may be sent in 10 ms"
    assert sum(sizes) == 50_000


def test_numbers_that_are_gone_are_told_and_the_rest_is_sent() -> None:
    server = served(kept=range(5, 8))
    server.request(3, 6, 0)
    assert server.take_due(20) == ([b"\5"], [3, 4])


def test_from_an_empty_history_all_is_gone() -> None:
    history = History(bytes_max=0, age_ns_max=0)
    history.add(1, b"a", 0)
    history.add(2, b"b", 0)
    server = Server(history, holdback_ns=20, bytes_max=100)
    server.request(1, 3, 0)
    assert server.take_due(20) == ([], [1, 2])


def test_what_was_never_sent_is_not_answered() -> None:
    server = served()
    server.request(11, 20, 0)
    assert server.due_ns is None
    server.request(10, 10**9, 0)
    assert server.take_due(20) == ([b"\x0a"], [])


def test_what_the_history_lets_go_in_the_meantime_is_sent_all_the_same() -> None:
    history = History(bytes_max=2, age_ns_max=0)
    history.add(1, b"a", 0)
    server = Server(history, holdback_ns=20, bytes_max=100)
    server.request(1, 2, 0)
    for seq in range(2, 9):
        history.add(seq, b"b", 0)
    # Somebody who asks now is not told that it is gone: it is about to come.
    server.request(1, 4, 10)
    assert server.take_due(20) == ([b"a"], [2, 3])


def test_no_more_waits_to_be_sent_again_than_was_allowed_and_the_rest_is_asked_for_anew() -> None:
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
    assert [datagram[0] for datagram in rest] == [9, 10]
    assert server.due_ns is None


def test_of_billions_that_are_gone_only_so_many_are_told_at_once() -> None:
    server = served(kept=range(2**31, 2**31 + 3))
    server.request(1, 2**31, 0)
    _, gone = server.take_due(20)
    assert gone == list(range(1, DISTRIBUTOR_NAK_COUNT_MAX + 1))
    server.request(1, 2**31, 21)
    _, more = server.take_due(41)
    assert more[0] == DISTRIBUTOR_NAK_COUNT_MAX + 1
    assert len(more) == DISTRIBUTOR_NAK_COUNT_MAX
