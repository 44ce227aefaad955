"""Rates over the last second, minute and five minutes, and their peaks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T", int, float)

INTERVAL_NS: Final = 1_000_000_000
"""The sampling interval of totals."""
WINDOWS_S: Final = (1, 60, 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRates:
    """The total and the rates of one counter."""

    total: int
    per_s: tuple[float, float, float]
    """Rates per second over the last second, minute and five minutes."""
    peak_per_s: tuple[float, float, float]
    """The peak of each rate."""
    peak_wall_ns: tuple[int, int, int]
    """The time of each peak."""


class RateMeter:
    """Samples one counter a second, and computes its rates."""

    def __init__(self, now_ns: int) -> None:
        self._noted: deque[tuple[int, int]] = deque([(now_ns, 0)])
        self._per_s = [0.0, 0.0, 0.0]
        self._peak_per_s = [0.0, 0.0, 0.0]
        self._peak_wall_ns = [0, 0, 0]

    def note(self, total: int, now_ns: int, wall_ns: int) -> None:
        noted = self._noted
        noted.append((now_ns, total))
        # One sample more than the longest window has seconds, for the start of the window.
        while len(noted) > WINDOWS_S[-1] + 1:
            noted.popleft()
        for index, window_s in enumerate(WINDOWS_S):
            then_ns, then_total = noted[max(0, len(noted) - 1 - window_s)]
            # A window that began before the meter counts from the first sample.
            passed_ns = max(now_ns - then_ns, 1)
            per_s = (total - then_total) * 1e9 / passed_ns
            self._per_s[index] = per_s
            if per_s > self._peak_per_s[index]:
                self._peak_per_s[index] = per_s
                self._peak_wall_ns[index] = wall_ns

    def rates(self, total: int) -> TrafficRates:
        return TrafficRates(
            total=total,
            per_s=_three(self._per_s),
            peak_per_s=_three(self._peak_per_s),
            peak_wall_ns=_three(self._peak_wall_ns),
        )


def _three(values: list[T]) -> tuple[T, T, T]:
    first, second, third = values
    return first, second, third
