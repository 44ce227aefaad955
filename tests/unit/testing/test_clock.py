"""Clocks of nodes: drift, the way back to world time, and wall time apart from both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.testing.node import WALL_START_NS, SimulatedClock


def test_a_clock_without_drift_runs_with_the_world() -> None:
    clock = SimulatedClock(start_ns=500)
    assert clock.read(0) == 500
    assert clock.read(1000) == 1500
    assert clock.world_ns(1500) == 1000


def test_a_fast_clock_gains_and_a_slow_one_loses() -> None:
    fast, slow = SimulatedClock(start_ns=0), SimulatedClock(start_ns=0)
    fast.set_drift(1000, 0)
    slow.set_drift(-1000, 0)
    assert fast.read(10**9) == 10**9 + 10**6
    assert slow.read(10**9) == 10**9 - 10**6


def test_changing_the_drift_does_not_make_time_jump() -> None:
    clock = SimulatedClock(start_ns=0)
    clock.set_drift(500, 0)
    before_ns = clock.read(10**9)
    clock.set_drift(-500, 10**9)
    assert clock.read(10**9) == before_ns


def test_setting_the_wall_clock_leaves_monotonic_time_alone() -> None:
    clock = SimulatedClock(start_ns=777)
    assert clock.read(0) + clock.wall_offset_ns == WALL_START_NS
    clock.jump_wall(-5)
    assert clock.read(10) + clock.wall_offset_ns == WALL_START_NS + 5
    assert clock.read(10) == 787


def test_a_clock_that_would_run_backwards_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        SimulatedClock(start_ns=0).set_drift(-1_000_000, 0)


@given(
    start_ns=st.integers(0, 10**15),
    drift_ppm=st.integers(-900_000, 900_000),
    local_ns=st.integers(0, 10**16),
)
def test_world_time_is_the_first_at_which_the_clock_shows_it(
    start_ns: int, drift_ppm: int, local_ns: int
) -> None:
    clock = SimulatedClock(start_ns=start_ns)
    clock.set_drift(drift_ppm, 0)
    world_ns = clock.world_ns(local_ns)
    assert clock.read(world_ns) >= local_ns
    assert clock.read(world_ns - 1) < local_ns
