"""Counts durations in ranges, for histograms of latencies."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

DURATION_BOUNDS_S: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Inclusive upper ends of the ranges: from what a node needs for one update to what a slow program
needs for an answer. Longer durations are in one more range."""
_BOUNDS_NS: Final = [round(bound * 1e9) for bound in DURATION_BOUNDS_S]


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """The counted durations at one instant."""

    counts: tuple[int, ...] = (0,) * (len(DURATION_BOUNDS_S) + 1)
    """Durations in each range; the last one has no upper end."""
    sum_ns: int = 0


class DurationCounter:
    """Counts durations. Adding one takes well below a microsecond."""

    def __init__(self) -> None:
        self._counts = [0] * (len(DURATION_BOUNDS_S) + 1)
        self._sum_ns = 0

    def add(self, duration_ns: int) -> None:
        self._counts[bisect_left(_BOUNDS_NS, duration_ns)] += 1
        self._sum_ns += duration_ns

    def durations(self) -> Durations:
        return Durations(counts=tuple(self._counts), sum_ns=self._sum_ns)
