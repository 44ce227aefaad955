"""The content of a report, as values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from skerry.spark.lake.data_files import TableSize
from skerry.spark.transforms.alarms import AlarmConfig

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


# -- values over equal time steps


SLOW_MS: Final = AlarmConfig().slow_delay_ms_min
"""Default of the latency from which updates count as slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSummary:
    spaces: tuple[str, ...]
    since: datetime
    until: datetime
    updates: int
    byte_count: int | None
    types: int
    nodes: int
    clients: int
    objects: int
    lost: int
    """Missing updates, as far as their number is known."""
    gaps: int
    """Number of gaps, including those with an unknown number of missing updates."""
    latency_ms: float | None
    """The median of all updates with a sending time."""
    datagrams: int | None
    """In multicast groups; None if they were not counted."""
    retransmissions: int | None
    """Datagrams that were received only after a repair request."""
    recovery_ms: float | None
    """Mean time of a repair; None without repair requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """The session of a node, a client, or a program of a multicast group."""

    kind: str
    name: str
    first: datetime
    last: datetime
    until: datetime
    """The end of the session: a client is connected until its node reports or has an end."""
    ended: str | None
    updates: int
    published: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRow:
    kind: str
    who: str
    since: datetime
    until: datetime
    score: float
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """The latency of one sender's updates to their node."""

    who: str
    updates: int
    p50_ms: float
    """The median over its minutes; so are the other quantiles."""
    p90_ms: float
    p99_ms: float
    max_ms: float
    slow_minutes: int
    """Minutes in which the p90 latency was at least `slow_ms`."""
    minutes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOfNodes:
    """The link from one node of a system to another one. Figures that no node recorded are None."""

    sender: str
    receiver: str
    datagrams: int | None
    byte_count: int | None
    retransmissions: int | None
    round_trip_ms: float | None
    """The median over its minutes."""
    lag_ms: float | None
    """The longest time that the receiver was behind the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    name: str
    updates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    summary: ReportSummary | None
    """None if nothing was recorded."""
    steps: TimeSteps | None = None
    rates: tuple[Line, ...] = ()
    """Updates in each step by type, the largest first."""
    latency: Latency | None = None
    lost: tuple[int, ...] = ()
    sessions: tuple[SessionRow, ...] = ()
    sessions_left_out: int = 0
    alarms: tuple[AlarmRow, ...] = ()
    delays: tuple[Delay, ...] = ()
    """Of the senders that stamp their updates, the slowest first."""
    slow_ms: float = SLOW_MS
    node_links: tuple[LinkOfNodes, ...] = ()
    """Links between nodes, those with the most retransmissions first."""
    subjects: tuple[Subject, ...] = ()
    are_prefixes: bool = False
    """Whether `subjects` are first levels only."""
    tables: tuple[TableSize, ...] = ()
    has_own: bool = False
    """Whether internal types and skerry's own tools are included."""
