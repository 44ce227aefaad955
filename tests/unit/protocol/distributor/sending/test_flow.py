"""Rates: a window that slides, and a limit that is kept."""

from __future__ import annotations

import pytest

from skerry.protocol.distributor.sending.flow import (
    DISTRIBUTOR_POSITION_COUNT_MAX,
    DISTRIBUTOR_POSITION_INTERVAL_NS,
    Bandwidth,
    SendTurns,
    UpdateRate,
)

MS = 1_000_000
SECOND = 1000 * MS


def test_without_updates_the_rate_is_nothing() -> None:
    rate = UpdateRate(interval_ns=250 * MS, now_ns=0)
    assert rate.per_s(0) == 0
    assert rate.per_s(SECOND) == 0


def test_a_steady_rate_is_seen_as_it_is_at_any_time() -> None:
    rate = UpdateRate(interval_ns=250 * MS, now_ns=0)
    for ms in range(1000):
        rate.add(1, ms * MS)
        if ms > 500:
            assert 900 <= rate.per_s(ms * MS) <= 1100


def test_a_rate_is_forgotten_step_by_step_and_then_wholly() -> None:
    rate = UpdateRate(interval_ns=100 * MS, now_ns=0)
    rate.add(100, 50 * MS)
    assert rate.per_s(99 * MS) == 1000
    assert rate.per_s(150 * MS) == 500
    assert rate.per_s(199 * MS) == 10
    assert rate.per_s(200 * MS) == 0


def test_a_rate_is_zero_after_a_long_pause() -> None:
    rate = UpdateRate(interval_ns=100 * MS, now_ns=0)
    rate.add(100, 0)
    assert rate.per_s(60 * SECOND) == 0


def test_no_limit_never_waits() -> None:
    bandwidth = Bandwidth(bit_max_per_s=0, interval_ns=250 * MS, now_ns=0)
    bandwidth.spend(10**9, 0)
    assert bandwidth.ready_ns(0) == 0
    assert not bandwidth.is_limited


def test_a_publisher_waits_for_the_next_interval_when_this_one_is_used_up() -> None:
    bandwidth = Bandwidth(bit_max_per_s=8_000_000, interval_ns=250 * MS, now_ns=0)
    bandwidth.spend(249_999, 0)
    assert bandwidth.ready_ns(1) == 1
    bandwidth.spend(1, 1)
    assert bandwidth.ready_ns(1) == 250 * MS
    assert bandwidth.ready_ns(250 * MS) == 250 * MS


@pytest.mark.parametrize(("intervals", "size"), [(1, 250_000), (2, 500_000), (4, 1_000_001)])
def test_excess_bytes_are_subtracted_from_later_intervals(intervals: int, size: int) -> None:
    bandwidth = Bandwidth(bit_max_per_s=8_000_000, interval_ns=250 * MS, now_ns=0)
    bandwidth.spend(size, 0)
    ready_ns = bandwidth.ready_ns(0)
    assert ready_ns == intervals * 250 * MS
    assert bandwidth.ready_ns(ready_ns - 1) > ready_ns - 1
    assert bandwidth.ready_ns(ready_ns) == ready_ns


def test_a_pause_gives_no_right_to_a_burst() -> None:
    bandwidth = Bandwidth(bit_max_per_s=8_000_000, interval_ns=250 * MS, now_ns=0)
    assert bandwidth.ready_ns(10 * SECOND) == 10 * SECOND
    bandwidth.spend(250_000, 10 * SECOND)
    assert bandwidth.ready_ns(10 * SECOND) == 10 * SECOND + 250 * MS


def test_the_average_over_a_long_time_is_the_limit() -> None:
    bandwidth = Bandwidth(bit_max_per_s=250_000, interval_ns=250 * MS, now_ns=0)
    now_ns = sent = 0
    while now_ns < 100 * SECOND:
        bandwidth.spend(7800, now_ns)
        sent += 7800
        now_ns = bandwidth.ready_ns(now_ns)
    assert 0.97 * 250_000 * 100 / 8 < sent < 1.03 * 250_000 * 100 / 8


def test_each_interval_has_so_many_turns() -> None:
    turns = SendTurns()
    for start_ns in (5, 5 + DISTRIBUTOR_POSITION_INTERVAL_NS, 10**12):
        taken = [turns.take(start_ns) for _ in range(DISTRIBUTOR_POSITION_COUNT_MAX)]
        assert all(taken)
        assert not turns.take(start_ns + DISTRIBUTOR_POSITION_INTERVAL_NS - 1)
