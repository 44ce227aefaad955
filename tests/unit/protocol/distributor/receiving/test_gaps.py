"""Missing datagrams: requested after a random time unless another receiver did, and given up."""

from __future__ import annotations

from random import Random

import pytest

from skerry.protocol.distributor.receiving.gaps import DISTRIBUTOR_REQUEST_COUNT_MAX, Gaps, runs

DELAY = 20
TIMEOUT = 800


def gaps(*, seed: int = 1, retries: int = 3, delay: int = DELAY) -> Gaps:
    return Gaps(delay_ns_max=delay, timeout_ns=TIMEOUT, retry_count_max=retries, rng=Random(seed))


def test_a_gap_is_requested_once_within_the_longest_delay() -> None:
    missing = gaps()
    missing.open(3, 6, 100)
    due_ns = missing.due_ns
    assert due_ns is not None
    assert 100 <= due_ns < 100 + DELAY
    assert missing.take_due(due_ns - 1) == ([], [])
    assert missing.take_due(due_ns) == ([(3, 6)], [])
    assert missing.take_due(due_ns + 1) == ([], [])


def test_receivers_ask_at_different_times() -> None:
    dues = set()
    for seed in range(20):
        missing = gaps(seed=seed)
        missing.open(1, 2, 0)
        dues.add(missing.due_ns)
    assert len(dues) > 8


def test_without_a_delay_a_gap_is_requested_at_once() -> None:
    missing = gaps(delay=0)
    missing.open(1, 2, 100)
    assert missing.take_due(100) == ([(1, 2)], [])


def test_only_what_is_still_missing_is_requested() -> None:
    missing = gaps()
    missing.open(3, 8, 0)
    missing.close(5)
    missing.close(99)
    assert 5 not in missing
    assert 4 in missing
    assert missing.take_due(DELAY) == ([(3, 5), (6, 8)], [])
    assert len(missing) == 4


@pytest.mark.parametrize("retries", [0, 3, 10])
def test_a_number_is_given_up_after_the_first_request_and_all_retries(retries: int) -> None:
    missing = gaps(retries=retries)
    missing.open(1, 3, 0)
    asked = 0
    while missing.due_ns is not None:
        ranges, given_up = missing.take_due(missing.due_ns)
        asked += len(ranges)
        assert not (ranges and given_up)
    assert asked == retries + 1
    assert given_up == [1, 2]
    assert len(missing) == 0


def test_the_second_request_is_sent_a_timeout_after_the_first() -> None:
    missing = gaps()
    missing.open(1, 2, 0)
    missing.take_due(DELAY)
    assert missing.due_ns is not None
    assert DELAY + TIMEOUT <= missing.due_ns < DELAY + TIMEOUT + DELAY


def test_a_request_of_another_receiver_delays_ours_by_a_timeout() -> None:
    missing = gaps(delay=20)
    missing.open(1, 5, 0)
    missing.requested_by_another(2, 4, 0)
    ranges, _ = missing.take_due(DELAY)
    assert ranges == [(1, 2), (4, 5)]
    assert missing.take_due(TIMEOUT - 1) == ([], [])
    ranges, _ = missing.take_due(DELAY + TIMEOUT + DELAY)
    # No answer was received, so all of it is requested now.
    assert ranges == [(1, 5)]


def test_the_request_of_another_counts_as_our_own() -> None:
    missing = gaps(retries=1)
    missing.open(1, 2, 0)
    missing.requested_by_another(1, 2, 0)
    now_ns = TIMEOUT + DELAY
    assert missing.take_due(now_ns) == ([(1, 2)], [])
    assert missing.take_due(now_ns + TIMEOUT + DELAY) == ([], [1])


def test_constant_requests_of_one_receiver_do_not_delay_those_of_others() -> None:
    missing = gaps()
    missing.open(1, 2, 0)
    missing.take_due(DELAY)
    for now_ns in range(DELAY, TIMEOUT - DELAY, 10):
        missing.requested_by_another(1, 2, now_ns)
    assert missing.due_ns is not None
    assert missing.due_ns < TIMEOUT + 2 * DELAY


def test_a_request_for_billions_costs_no_more_than_the_missing_numbers() -> None:
    missing = gaps()
    missing.open(1000, 1003, 0)
    missing.requested_by_another(-(2**31), 2**31, 0)
    assert missing.take_due(DELAY) == ([], [])
    assert missing.asked_once() == [1000, 1001, 1002]


def test_more_holes_than_requests_of_a_moment_have_their_turn_later() -> None:
    missing = gaps()
    count = DISTRIBUTOR_REQUEST_COUNT_MAX + 1
    missing.open(0, 2 * count, 0)
    for seq in range(1, 2 * count, 2):
        missing.close(seq)
    ranges, _ = missing.take_due(DELAY)
    assert len(ranges) == DISTRIBUTOR_REQUEST_COUNT_MAX
    assert missing.due_ns == 2 * DELAY
    assert missing.take_due(2 * DELAY) == ([(2 * count - 2, 2 * count - 1)], [])


def test_all_can_be_closed_at_once() -> None:
    missing = gaps()
    missing.open(5, 7, 0)
    missing.open(1, 3, 0)
    assert missing.close_all() == [1, 2, 5, 6]
    assert missing.due_ns is None
    assert len(missing) == 0


def test_numbers_in_a_row_are_ranges() -> None:
    assert runs([]) == []
    assert runs([1]) == [(1, 2)]
    assert runs([1, 2, 3, 7, 9, 10]) == [(1, 4), (7, 8), (9, 11)]


def test_a_number_received_after_one_request_counts_with_its_response_time() -> None:
    tracker = gaps(delay=0)
    tracker.open(3, 6, 0)
    tracker.received(3, 5)
    assert (tracker.recovered_count, len(tracker)) == (0, 2), "it was only late"
    tracker.take_due(10)
    tracker.received(4, 17)
    tracker.received(4, 18)
    tracker.received(99, 18)
    assert (tracker.recovered_count, tracker.answer_count, tracker.answer_ns) == (1, 1, 7)
    tracker.take_due(10 + TIMEOUT)
    # It is unknown which of the two requests this answers.
    tracker.received(5, 11 + TIMEOUT)
    assert (tracker.recovered_count, tracker.answer_count, tracker.answer_ns) == (2, 1, 7)


def test_numbers_that_are_given_up_are_not_counted_as_recovered() -> None:
    tracker = gaps(delay=0)
    tracker.open(3, 5, 0)
    tracker.take_due(0)
    tracker.close(3)
    tracker.close_all()
    assert (tracker.recovered_count, tracker.answer_count) == (0, 0)
