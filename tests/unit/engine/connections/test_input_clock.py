"""The time of a node."""

from __future__ import annotations

from skerry.engine.connections.input_clock import InputClock


def test_the_clock_starts_with_the_first_input() -> None:
    clock = InputClock(1_000)
    assert (clock.now_ns, clock.started_ns) == (0, 0)
    clock.set(5)
    clock.set(7)
    assert (clock.now_ns, clock.started_ns) == (7, 1_005)


def test_wall_time_is_monotonic_time_with_the_offset() -> None:
    clock = InputClock(2_000_000_000)
    assert clock.wall_ns(500_000_000) == 2_500_000_000
    assert clock.wall_s(500_000_000) == 2.5
    clock.wall_offset_ns = 0
    assert clock.wall_s(500_000_000) == 0.5
