"""Clocks."""

from __future__ import annotations

import time

from skerry.runtime import clock


def test_monotonic_time_never_decreases() -> None:
    first = clock.monotonic_ns()
    assert clock.monotonic_ns() >= first


def test_wall_time_is_that_of_the_computer() -> None:
    assert abs(clock.wall_ns() - time.time_ns()) < 60_000_000_000
