"""How long to wait before the next attempt: longer each time, and never in step with others."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays that double from `first_ns` up to `delay_ns_max`, each shortened by chance."""

    first_ns: int
    delay_ns_max: int
    spread_percent: int = 50
    """How much of a delay is left to chance: 0 none, 100 all of it."""

    def __post_init__(self) -> None:
        assert 0 < self.first_ns <= self.delay_ns_max
        assert 0 <= self.spread_percent <= 100

    def delay_ns(self, attempt_count: int, rng: Random) -> int:
        """The wait after attempt number `attempt_count`, counted from 1. At least a nanosecond."""
        assert attempt_count >= 1
        # The shift is bounded because a peer that is away for a week makes the number of attempts
        # large, and the power of two is only needed until it has passed the longest delay.
        doublings = min(attempt_count - 1, self.delay_ns_max.bit_length())
        whole_ns = min(self.first_ns << doublings, self.delay_ns_max)
        # Those who lost the same peer at the same instant must not all come back together, so
        # chance takes away a part of the delay instead of adding to it: the bound stays true.
        chance_ns = whole_ns * self.spread_percent // 100
        return max(1, whole_ns - (rng.randrange(chance_ns) if chance_ns else 0))
