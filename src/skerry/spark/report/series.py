"""Values over equal time steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

_STEP_S: Final = (1, 2, 5, 10, 30, 60, 300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400)
_STEPS_MAX: Final = 300
"""A plot cannot show more."""
_LINES_MAX: Final = 7
"""Number of types with their own colour; all others are one line."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSteps:
    """Equal steps of time, numbered from 1970."""

    first: int
    count: int
    seconds: int

    @property
    def instants(self) -> list[datetime]:
        """The start of each step."""
        return [
            _EPOCH + timedelta(seconds=(self.first + n) * self.seconds) for n in range(self.count)
        ]

    def index(self, number: int) -> int | None:
        """The index of a step by its number since 1970; None if it is outside."""
        index = number - self.first
        return index if 0 <= index < self.count else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A value in each step."""

    name: str
    values: tuple[float, ...]

    @property
    def total(self) -> float:
        return sum(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Quantiles in milliseconds in each step; None for steps without updates."""

    p50: tuple[float | None, ...]
    p90: tuple[float | None, ...]
    p99: tuple[float | None, ...]
    is_exact: bool
    """Whether they are of all updates; otherwise of the median sender."""


def steps_for(since: datetime, until: datetime) -> TimeSteps:
    """The smallest steps of which there are not too many for a plot."""
    for seconds in _STEP_S:
        first = int((since - _EPOCH).total_seconds() // seconds)
        stop = int((until - _EPOCH).total_seconds() // seconds) + 1
        if stop - first <= _STEPS_MAX:
            break
    return TimeSteps(first=first, count=stop - first, seconds=seconds)


def lines_of(rows: Iterable[tuple[int, str, int]], steps: TimeSteps) -> tuple[Line, ...]:
    """Lines from (step number, name, value), the largest first; small ones are combined."""
    values: dict[str, list[float]] = defaultdict(lambda: [0.0] * steps.count)
    for number, name, value in rows:
        index = steps.index(number)
        if index is not None:
            values[name][index] += value
    lines = [Line(name=name, values=tuple(line)) for name, line in values.items()]
    lines.sort(key=lambda line: (-line.total, line.name))
    if len(lines) <= _LINES_MAX + 1:
        return tuple(lines)
    others = [line.values for line in lines[_LINES_MAX:]]
    rest = Line(
        name=f"{len(others)} other types", values=tuple(map(sum, zip(*others, strict=True)))
    )
    return (*lines[:_LINES_MAX], rest)
