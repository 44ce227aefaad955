"""The content of a report, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from skerry.spark.lake.data_files import TableSize
from skerry.spark.report.series import Latency, Line, TimeSteps
from skerry.spark.transforms.alarms import AlarmConfig

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
    """The last observation of it."""
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
    subjects: tuple[Subject, ...] = ()
    are_prefixes: bool = False
    """Whether `subjects` are first levels only."""
    tables: tuple[TableSize, ...] = ()
    has_own: bool = False
    """Whether internal types and skerry's own tools are included."""
