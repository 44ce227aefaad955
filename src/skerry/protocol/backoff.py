"""Delays before the next attempt: longer each time, and random."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays that double from `first_ns` up to `delay_ns_max`, each randomly shortened."""

    first_ns: int
    delay_ns_max: int
    spread_percent: int = 50
    """The random part of a delay: 0 for none, 100 for all of it."""

    def __post_init__(self) -> None:
        assert 0 < self.first_ns <= self.delay_ns_max
        assert 0 <= self.spread_percent <= 100

    def delay_ns(self, attempt_count: int, rng: Random) -> int:
        """Return the delay after an attempt, counted from 1: at least a nanosecond."""
        assert attempt_count >= 1
        # The shift is bounded, because the number of attempts is large if a peer is absent for a
        # week, and the power of two is only needed up to the longest delay.
        doublings = min(attempt_count - 1, self.delay_ns_max.bit_length())
        whole_ns = min(self.first_ns << doublings, self.delay_ns_max)
        # Programs that lost the same peer at the same time must not all reconnect together. The
        # random part is subtracted, so the bound is kept.
        random_ns = whole_ns * self.spread_percent // 100
        return max(1, whole_ns - (rng.randrange(random_ns) if random_ns else 0))
