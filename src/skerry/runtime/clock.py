"""Time of this computer: wall time for people, monotonic time for machines."""

from __future__ import annotations

import time

__all__ = ["monotonic_ns", "wall_ns"]


def wall_ns() -> int:
    """Nanoseconds since the epoch; it may jump when the clock is set."""
    return time.time_ns()


def monotonic_ns() -> int:
    """Nanoseconds since some moment in the past; it only goes forward."""
    return time.monotonic_ns()
