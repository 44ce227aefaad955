"""Collects the figures of a report from the tables, with Spark.

A short recording is analysed in steps of seconds from the updates; a long one in steps of minutes
or more, from the small tables `rates` and `links`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import DISTRIBUTOR, GAP, LINK, SNAPSHOT
from skerry.schema.internal import internal_types
from skerry.spark.lake.buckets import timestamp_column
from skerry.spark.lake.data_files import TableSize
from skerry.spark.lake.schema import no_rows
from skerry.spark.report.findings import (
    SLOW_MS,
    AlarmRow,
    Delay,
    Findings,
    Latency,
    LinkOfNodes,
    ReportSummary,
    SessionRow,
    Subject,
    TimeSteps,
    lines_of,
    steps_for,
)
from skerry.spark.transforms.events import EVENTS, events, latency_ms
from skerry.spark.transforms.sessions import whole_lives

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


OWN_TOOLS: Final = "skerry-"
"""Prefix of the client names of skerry's own tools: `skerry-record`, `skerry-top` and so on."""
_DELAYS_MAX: Final = 30
_NODE_LINKS_MAX: Final = 60
_QUANTILES: Final = ("p50", "p90", "p99")
_SUBJECTS_MAX: Final = 12
_ALARMS_MAX: Final = 200
_SESSIONS_MAX: Final = 60
_EXACT_UPDATES_MAX: Final = 5_000_000
"""Up to this number each subject is counted; above, only first levels, which `rates` has."""


class TableSource(Protocol):
    def names(self) -> Sequence[str]:
        """All tables: `rates`, `updates/Vessel`, ..."""

    def frame(self, name: str) -> DataFrame:
        """The rows of one table."""


def collect_findings(
    lake: TableSource,
    sizes: Sequence[TableSize] = (),
    *,
    slow_ms: float = SLOW_MS,
    has_own: bool = False,
) -> Findings:
    """Collect the figures from the tables of a lake with Spark.

    Updates with a latency of at least `slow_ms` count as slow. Internal types and skerry's own
    tools are left out unless `has_own`.
    """
    source = lake if has_own else _WithoutOwn(lake)
    sizes = [size for size in sizes if has_own or not _is_own_table(size.name)]
    found = _collected(source, sizes, slow_ms)
    return replace(found, has_own=has_own, slow_ms=slow_ms)


class _WithoutOwn:
    """The tables without internal types and skerry's own tools."""

    def __init__(self, lake: TableSource) -> None:
        self._lake = lake

    def names(self) -> Sequence[str]:
        return [name for name in self._lake.names() if not _is_own_table(name)]

    def frame(self, name: str) -> DataFrame:
        rows = self._lake.frame(name)
        is_own_type = F.coalesce(F.col("type").isin(*internal_types()), F.lit(False))
        is_tool = F.coalesce(F.col("name").startswith(OWN_TOOLS), F.lit(False))
        if name == "sessions":
            return rows.where(~is_tool)
        if name == "alarms":
            return rows.where(~is_tool & ~is_own_type)
        if name == "rates" or name == "raw" or name.startswith("updates/"):
            return rows.where(~is_own_type)
        return rows


def _is_own_table(name: str) -> bool:
    return name.partition("/")[2].partition("@")[0] in internal_types()


def _collected(lake: TableSource, sizes: Sequence[TableSize], slow_ms: float) -> Findings:
    names = set(lake.names())
    if not {"rates", "links", "sessions", "alarms"} <= names:
        return Findings(summary=None, tables=tuple(sizes))
    summary = _summary(lake, names)
    if summary is None:
        return Findings(summary=None, tables=tuple(sizes))
    steps = steps_for(summary.since, summary.until)
    updates = _updates(lake, names)
    is_fine = steps.seconds < 60
    sessions = _sessions(lake)
    return Findings(
        summary=summary,
        steps=steps,
        rates=lines_of(
            _rates_of_updates(updates, steps) if is_fine else _rates_of_minutes(lake, steps), steps
        ),
        latency=_latency(lake, updates, steps),
        lost=_lost(lake, steps),
        sessions=tuple(sessions[:_SESSIONS_MAX]),
        sessions_left_out=max(len(sessions) - _SESSIONS_MAX, 0),
        alarms=_alarms(lake),
        delays=_delays(lake, slow_ms),
        node_links=_node_links(lake),
        subjects=_subjects(lake, updates, exact=summary.updates <= _EXACT_UPDATES_MAX),
        are_prefixes=summary.updates > _EXACT_UPDATES_MAX,
        tables=tuple(sizes),
    )


def _updates(lake: TableSource, names: set[str]) -> DataFrame:
    """The updates of all types, as events."""
    frames = [lake.frame(name) for name in sorted(names) if name.startswith("updates/")]
    raw = lake.frame("raw") if "raw" in names else None
    if not frames and raw is None:
        # Nodes were recorded, and no program published anything.
        return no_rows(lake.frame("links").sparkSession, EVENTS)
    return events(frames, raw).where(~F.col("operation").isin(GAP, SNAPSHOT))


def _summary(lake: TableSource, names: set[str]) -> ReportSummary | None:
    links = lake.frame("links")
    row = _one(
        links.agg(
            F.min("first").alias("since"),
            F.max("last").alias("until"),
            F.sum("lost").alias("lost"),
            F.sum("gaps").alias("gaps"),
            F.sum(_in_multicast("datagrams")).alias("datagrams"),
            F.sum(_in_multicast("retransmissions")).alias("retransmissions"),
            _recovery_ms().alias("recovery_ms"),
            F.array_sort(F.collect_set("space")).alias("spaces"),
            # The median of each sender, weighted by its updates.
            F.percentile("latency_p50_ms", F.lit(0.5), F.col("updates")).alias("latency_ms"),
        )
    )
    if row["since"] is None:
        return None
    sums = _one(
        lake.frame("rates").agg(
            F.coalesce(F.sum("updates"), F.lit(0)).alias("updates"),
            F.sum("bytes").alias("byte_count"),
        )
    )
    kinds = whole_lives(lake.frame("sessions")).groupBy("kind").count()
    sessions = {found["kind"]: found["count"] for found in _rows(kinds)}
    is_own = F.col("type").isin(*internal_types())
    types = _one(lake.frame("rates").where(~is_own).agg(F.count_distinct("type").alias("types")))
    return ReportSummary(
        spaces=tuple(row["spaces"]),
        since=_utc(row["since"]),
        until=_utc(row["until"]),
        updates=sums["updates"],
        byte_count=sums["byte_count"],
        lost=row["lost"],
        gaps=row["gaps"],
        datagrams=row["datagrams"],
        retransmissions=row["retransmissions"],
        recovery_ms=row["recovery_ms"],
        latency_ms=row["latency_ms"],
        types=types["types"],
        nodes=sessions.get("node", 0),
        clients=sessions.get("client", 0) + sessions.get("multicast", 0),
        objects=_objects(lake, names),
    )


def _recovery_ms() -> Column:
    """The mean over minutes with retransmissions, by how many there were."""
    is_known = F.col("round_trip_ms").isNotNull() & (F.col("retransmissions") > 0)
    weight = F.when(is_known, _in_multicast("retransmissions"))
    return F.sum(F.col("round_trip_ms") * weight) / F.sum(weight)


def _in_multicast(name: str) -> Column:
    """A column of `links`, for senders of multicast groups only."""
    return F.when(F.col("source") == DISTRIBUTOR, F.col(name))


def _objects(lake: TableSource, names: set[str]) -> int:
    """The number of objects at the end, without status objects of nodes."""
    own = {f"latest/{name}" for name in internal_types()}
    wanted = [name for name in sorted(names - own) if name.startswith("latest/")]
    return sum(lake.frame(name).count() for name in wanted)


# -- over time


def _step_of(moment: Column, steps: TimeSteps) -> Column:
    return F.floor(F.unix_timestamp(moment) / steps.seconds)


def _rates_of_updates(updates: DataFrame, steps: TimeSteps) -> list[tuple[int, str, int]]:
    step = _step_of(timestamp_column(F.col("order_ns")), steps)
    rows = updates.groupBy(step.alias("step"), "type").agg(F.count("*").alias("updates"))
    return [(row["step"], row["type"], row["updates"]) for row in _rows(rows)]


def _rates_of_minutes(lake: TableSource, steps: TimeSteps) -> list[tuple[int, str, int]]:
    step = _step_of(F.col("minute"), steps)
    rates = lake.frame("rates")
    rows = rates.groupBy(step.alias("step"), "type").agg(F.sum("updates").alias("updates"))
    return [(row["step"], row["type"], row["updates"]) for row in _rows(rows)]


def _latency(lake: TableSource, updates: DataFrame, steps: TimeSteps) -> Latency | None:
    is_exact = steps.seconds < 60
    if is_exact:
        measured = updates.where(latency_ms().isNotNull()).select(
            _step_of(timestamp_column(F.col("order_ns")), steps).alias("step"),
            *(latency_ms().alias(name) for name in _QUANTILES),
            F.lit(1).alias("weight"),
        )
        wanted = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    else:
        measured = lake.frame("links").select(
            _step_of(F.col("minute"), steps).alias("step"),
            *(F.col(f"latency_{name}_ms").alias(name) for name in _QUANTILES),
            F.col("updates").alias("weight"),
        )
        # Quantiles of senders cannot be combined to a quantile of all: the median sender is shown.
        wanted = dict.fromkeys(_QUANTILES, 0.5)
    rows = _rows(
        measured.groupBy("step").agg(
            *(
                F.percentile(name, F.lit(share), F.col("weight")).alias(name)
                for name, share in wanted.items()
            )
        )
    )
    found = {name: _placed(rows, name, steps) for name in _QUANTILES}
    if all(value is None for value in found["p50"]):
        return None
    return Latency(**found, is_exact=is_exact)


def _placed(rows: list[dict[str, Any]], name: str, steps: TimeSteps) -> tuple[float | None, ...]:
    values: list[float | None] = [None] * steps.count
    for row in rows:
        index = steps.index(row["step"])
        if index is not None:
            values[index] = row[name]
    return tuple(values)


def _lost(lake: TableSource, steps: TimeSteps) -> tuple[int, ...]:
    step = _step_of(F.col("first"), steps)
    lossy = lake.frame("links").where(F.col("gaps") > 0)
    rows = _rows(lossy.groupBy(step.alias("step")).agg(F.sum("lost").alias("lost")))
    return tuple(int(value or 0) for value in _placed(rows, "lost", steps))


# -- sessions, delays, alarms, subjects


def _sessions(lake: TableSource) -> list[SessionRow]:
    """All sessions: nodes first, then by the number of updates."""
    order = F.array_position(F.array(F.lit("node"), F.lit("client")), F.col("kind"))
    rows = whole_lives(lake.frame("sessions")).orderBy(
        F.when(order == 0, 3).otherwise(order), F.desc("updates"), "first", "sender"
    )
    found = _rows(rows)
    node_ends = {(r["space"], r["node"]): r["last"] for r in found if _is_node(r)}
    return [
        SessionRow(
            kind=row["kind"],
            name=row["name"] or f"{row['kind']} {row['node' if _is_node(row) else 'sender']}",
            first=_utc(row["first"]),
            last=_utc(row["last"]),
            until=_utc(_until(row, node_ends)),
            ended=row["ended"],
            updates=row["updates"],
            published=tuple(row["published"] or ()),
        )
        for row in found
    ]


def _until(row: dict[str, Any], node_ends: dict[tuple[str, int], datetime]) -> datetime:
    """The end of a session: a silent client is connected until its node ends or reports an end."""
    last: datetime = row["last"]
    if row["kind"] != "client" or row["ended"] is not None:
        return last
    return max(last, node_ends.get((row["space"], row["node"]), last))


def _delays(lake: TableSource, slow_ms: float) -> tuple[Delay, ...]:
    """The latency of each sender, over the minutes in which it stamped updates."""
    names = (
        lake.frame("sessions")
        .where(F.col("kind") != "node")
        .groupBy("space", "node", "sender")
        .agg(F.max("name").alias("name"))
    )
    # Sessions of own tools are left out, so this join drops their senders, too.
    known = lake.frame("links").where(F.col("latency_p90_ms").isNotNull())
    is_slow = F.col("latency_p90_ms") >= slow_ms
    rows = (
        known.join(names, ["space", "node", "sender"])
        .groupBy("space", "node", "sender", "name")
        .agg(
            F.sum("updates").alias("updates"),
            F.median("latency_p50_ms").alias("p50_ms"),
            F.median("latency_p90_ms").alias("p90_ms"),
            F.median("latency_p99_ms").alias("p99_ms"),
            F.max("latency_max_ms").alias("max_ms"),
            F.count_if(is_slow).alias("slow_minutes"),
            F.count("*").alias("minutes"),
        )
        .orderBy(F.desc("slow_minutes"), F.desc("p90_ms"), "sender")
        .limit(_DELAYS_MAX)
    )
    return tuple(
        Delay(
            who=row["name"] or f"client {row['sender']}",
            **{n: row[n] for n in ("updates", "p50_ms", "p90_ms", "p99_ms", "max_ms")},
            slow_minutes=row["slow_minutes"],
            minutes=row["minutes"],
        )
        for row in _rows(rows)
    )


def _node_links(lake: TableSource) -> tuple[LinkOfNodes, ...]:
    """The links between nodes, over all minutes."""
    rows = (
        lake.frame("links")
        .where(F.col("source") == LINK)
        .groupBy("space", "sender", "node")
        .agg(
            F.sum("datagrams").alias("datagrams"),
            F.sum("bytes").alias("byte_count"),
            F.sum("retransmissions").alias("retransmissions"),
            F.median("round_trip_ms").alias("round_trip_ms"),
            F.max("lag_ms").alias("lag_ms"),
        )
        .orderBy(F.desc("retransmissions"), F.desc("lag_ms"), F.desc("datagrams"), "sender", "node")
        .limit(_NODE_LINKS_MAX)
    )
    found = _rows(rows)
    if not found:
        return ()
    nodes = lake.frame("sessions").where(F.col("kind") == "node").groupBy("space", "node")
    names = {
        (row["space"], row["node"]): row["name"]
        for row in _rows(nodes.agg(F.max("name").alias("name")))
    }
    figures = ("datagrams", "byte_count", "retransmissions", "round_trip_ms", "lag_ms")
    return tuple(
        LinkOfNodes(
            sender=names.get((row["space"], row["sender"])) or f"node {row['sender']}",
            receiver=names.get((row["space"], row["node"])) or f"node {row['node']}",
            **{name: row[name] for name in figures},
        )
        for row in found
    )


def _alarms(lake: TableSource) -> tuple[AlarmRow, ...]:
    rows = lake.frame("alarms").orderBy(F.desc("score"), "since").limit(_ALARMS_MAX)
    return tuple(
        AlarmRow(
            kind=row["kind"],
            who=_subject_name(row),
            since=_utc(row["since"]),
            until=_utc(row["until"]),
            score=row["score"],
            evidence=row["evidence"],
        )
        for row in _rows(rows)
    )


def _subjects(lake: TableSource, updates: DataFrame, *, exact: bool) -> tuple[Subject, ...]:
    if exact:
        counted = updates.groupBy("subject").agg(F.count("*").alias("updates"))
    else:
        counted = (
            lake.frame("rates")
            .groupBy(F.col("prefix").alias("subject"))
            .agg(F.sum("updates").alias("updates"))
        )
    rows = counted.orderBy(F.desc("updates"), "subject").limit(_SUBJECTS_MAX)
    return tuple(Subject(name=row["subject"], updates=row["updates"]) for row in _rows(rows))


def _subject_name(row: dict[str, Any]) -> str:
    if row["type"]:
        return f"type {row['type']}"
    if row["name"]:
        return str(row["name"])
    return f"client {row['sender']}" if row["sender"] else f"node {row['node']}"


def _is_node(row: dict[str, Any]) -> bool:
    return bool(row["kind"] == "node")


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def _one(frame: DataFrame) -> dict[str, Any]:
    (row,) = _rows(frame)
    return row


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
