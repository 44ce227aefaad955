"""The clocks of this computer: wall time for timestamps, monotonic time for machines."""

from __future__ import annotations

import time


def wall_ns() -> int:
    """Nanoseconds since 1970; jumps when the clock is set."""
    return time.time_ns()


def monotonic_ns() -> int:
    """Nanoseconds since an unspecified moment; never decreases."""
    return time.monotonic_ns()
