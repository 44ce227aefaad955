"""Durations in ranges."""

from __future__ import annotations

from skerry.durations import DURATION_BOUNDS_S, DurationCounter


def test_durations_are_counted_in_the_range_that_ends_at_or_above_them() -> None:
    counter = DurationCounter()
    for duration_ns in (0, 100_000, 100_001, 10_000_000_000, 10_000_000_001):
        counter.add(duration_ns)
    found = counter.durations()
    assert found.counts[:2] == (2, 1)
    assert found.counts[-2:] == (1, 1)
    assert sum(found.counts) == 5
    assert found.sum_ns == 20_000_200_002
    assert len(found.counts) == len(DURATION_BOUNDS_S) + 1


def test_what_was_read_does_not_change() -> None:
    counter = DurationCounter()
    before = counter.durations()
    counter.add(1)
    assert (sum(before.counts), sum(counter.durations().counts)) == (0, 1)
