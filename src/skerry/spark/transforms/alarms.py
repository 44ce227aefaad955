"""The table `alarms`: storms, stalls, slow senders and clients, retransmissions, loss, clock jumps.

Alarms are computed from the small tables by minute, not from updates, and separately for each day:
a day always has the same alarms, whichever rows were late. Each has a distance from the baseline
(`score`), and a description of the observation (`evidence`).

The baseline is robust: the median, and as the usual distance from it the median of the distances
(MAD). A storm in one minute of ten changes neither, while it would move a mean and a deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import GAP
from skerry.ids import NODE_CLIENT
from skerry.spark.transforms.events import columns, day_of, minute_of, with_columns

NAME: Final = "alarms"
PARTITION: Final = "day"
_NORMAL: Final = 0.6745
"""MAD of a normal distribution in standard deviations, so that scores have their usual scale."""
_SHARE_MIN: Final = 0.05
"""A perfectly steady series has a MAD of 0; distances below a twentieth are never unusual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmConfig:
    minutes_min: int = 5
    """With fewer minutes on a day there is no baseline."""
    score_min: float = 6.0
    """Robust standard deviations above the median."""
    storm_updates_min: int = 600
    """A minute with fewer updates is not a storm, however low the median is."""
    storm_factor_min: float = 3.0
    """Multiple of the median; a steady busy type may exceed the score without a storm."""
    slow_latency_ms_min: float = 50.0
    """A lower latency is not slow, however low the median is."""
    slow_delay_ms_min: float = 1000.0
    """A higher latency is slow, even if it is usual for the sender."""
    slow_queued_bytes_min: int = 1 << 20
    """A client with this many queued bytes does not keep up."""
    stall_minutes_min: int = 3
    """A sender that usually publishes every minute has stalled after this many silent minutes."""
    nagging_share_min: float = 0.05
    """Retransmissions per datagram."""
    nagging_retransmissions_min: int = 5
    """Fewer in a minute are chance: a quiet group has few datagrams to compare them with."""
    clock_back_ms_min: float = 100.0
    """Time synchronisation makes smaller steps."""
    sender_ahead_ms_min: float = 1000.0
    """Clocks of two synchronised computers differ by less."""


SCHEMA: Final = columns(
    "kind string, space string, node long, sender long, type string, name string,"
    " since timestamp, until timestamp, score double, evidence string, day string"
)

STATISTICS: Final = columns(
    "order_ns long, space string, node long, operation byte, clientId long,"
    " currentQueuedBytes long, overflowDisconnected boolean"
)
"""The columns read from `updates/DotsClientStatistics`."""

LEDGER: Final = columns(
    "order_ns long, position long, space string, node long, operation byte, kind string,"
    " name string, conflated long, expired long"
)
"""The columns read from `updates/SkerryLedger`."""

_SUBJECT: Final = ("kind", "space", "node", "sender", "type")
_MARK: Final = (*_SUBJECT, "since", "until", "score", "evidence", "is_open")
_FOUND: Final = "array<struct<kind: string, sender: bigint, score: double, evidence: string>>"


def build(
    rates: DataFrame,
    links: DataFrame,
    sessions: DataFrame,
    statistics: DataFrame | None = None,
    ledger: DataFrame | None = None,
    config: AlarmConfig = AlarmConfig(),
) -> DataFrame:
    """The alarms of the days of these tables."""
    measured = _with_baselines(links)
    minutes = [_storms(rates, config), _unusual_minutes(measured, config)]
    if statistics is not None:
        minutes.append(_slow_clients(with_columns(statistics, STATISTICS), config))
    if ledger is not None:
        minutes.append(_lagging_clients(with_columns(ledger, LEDGER)))
    found = _runs(reduce(DataFrame.unionByName, minutes)).unionByName(_stalls(measured, config))
    return _with_names(found, sessions).select(*SCHEMA.names)


def with_baseline(frame: DataFrame, value: Column, *, by: Sequence[str], unit: float) -> DataFrame:
    """Adds `value`, `usual` (the median of its group), `count` (its rows with a value) and `score`.

    The score is the number of robust standard deviations above the median. `unit` is the smallest
    distance that matters: a lower usual distance counts as this.
    """
    group = Window.partitionBy(*by)
    distance = F.abs(F.col("value") - F.col("usual"))
    spread = F.greatest(F.col("spread"), F.col("usual") * _SHARE_MIN, F.lit(unit))
    return (
        frame.withColumn("value", value.cast("double"))
        .withColumn("usual", F.median("value").over(group))
        .withColumn("count", F.count("value").over(group))
        .withColumn("distance", distance)
        .withColumn("spread", F.median("distance").over(group))
        .withColumn("score", _NORMAL * (F.col("value") - F.col("usual")) / spread)
        .drop("distance", "spread")
    )


# -- unusual minutes


def _storms(rates: DataFrame, config: AlarmConfig) -> DataFrame:
    by_type = (
        _dated(rates)
        .groupBy("day", "minute", "space", "type", "node")
        .agg(F.sum("updates").alias("updates"))
    )
    by = ("day", "space", "type", "node")
    measured = with_baseline(by_type, F.col("updates"), by=by, unit=1.0)
    is_storm = (
        _is_unusual(config)
        & (F.col("value") >= config.storm_updates_min)
        & (F.col("value") >= F.col("usual") * config.storm_factor_min)
    )
    words = "%,d updates in a minute, usually %,.0f (of %d minutes)"
    return _minutes(
        measured.where(is_storm)
        .withColumn("kind", F.lit("storm"))
        .withColumn("sender", F.lit(None).cast("long"))
        .withColumn("evidence", F.format_string(words, "updates", "usual", "count"))
    )


def _with_baselines(links: DataFrame) -> DataFrame:
    """Each minute of each link with its baseline, and with the next active minute."""
    link = ("day", "space", "node", "source", "sender")
    in_order = Window.partitionBy(*link).orderBy("minute")
    active = F.when(F.col("updates") > 0, F.col("minute"))
    following = in_order.rowsBetween(1, Window.unboundedFollowing)
    return (
        with_baseline(_dated(links), F.col("latency_p90_ms"), by=link, unit=1.0)
        .withColumn("next", F.min(active).over(following))
        .withColumn("step", _minutes_between(active, F.col("next")))
        .withColumn("usual_step", F.median("step").over(Window.partitionBy(*link)))
        .withColumn("active", F.count(active).over(Window.partitionBy(*link)))
        .withColumn("node_until", F.max(active).over(Window.partitionBy("day", "space", "node")))
    )


def _unusual_minutes(links: DataFrame, config: AlarmConfig) -> DataFrame:
    """The alarms about single minutes of a link, in one pass."""
    checks = [_slow(config), _nagging(config), _loss(), _back(config), _ahead(config)]
    found = F.filter(F.array(*checks).cast(_FOUND), lambda mark: mark.isNotNull())
    return _minutes(
        links.select("space", "node", "minute", F.inline(found)).withColumn(
            "type", F.lit(None).cast("string")
        )
    )


def _slow(config: AlarmConfig) -> Column:
    is_unusual = _is_unusual(config) & (F.col("value") >= config.slow_latency_ms_min)
    is_late = F.col("value") >= config.slow_delay_ms_min
    words = "one in ten updates took over %,.1f ms, "
    usual = F.format_string(words + "usually %,.1f ms (of %d minutes)", "value", "usual", "count")
    late = F.format_string(words + "and %,.0f ms is late", "value", F.lit(config.slow_delay_ms_min))
    # The score of a long delay is its multiple of the bound, as for retransmissions.
    scores = [
        F.when(is_unusual, F.col("score")),
        F.when(is_late, F.col("value") / config.slow_delay_ms_min),
    ]
    evidence = F.when(is_unusual, usual).otherwise(late)
    return _mark("slow", is_unusual | is_late, F.greatest(*scores), evidence)


def _nagging(config: AlarmConfig) -> Column:
    share = F.col("retransmissions") / F.greatest(F.col("datagrams"), F.lit(1))
    words = "%,d of %,d datagrams had to be sent again"
    evidence = F.format_string(words, "retransmissions", "datagrams")
    score = share / config.nagging_share_min
    is_nagging = (share >= config.nagging_share_min) & (
        F.col("retransmissions") >= config.nagging_retransmissions_min
    )
    return _mark("nagging", is_nagging, score, evidence)


def _loss() -> Column:
    reasons = F.array_join("gap_reasons", "; ")
    words = "%,d updates are missing in %,d gaps: %s"
    known = F.format_string(words, F.col("lost"), F.col("gaps"), reasons)
    # The number of updates in a lost datagram is unknown to its receiver.
    unknown = F.format_string("updates are missing in %,d gaps: %s", F.col("gaps"), reasons)
    evidence = F.when(F.col("lost") > 0, known).otherwise(unknown)
    return _mark("loss", F.col("gaps") > 0, F.greatest("lost", "gaps"), evidence)


def _back(config: AlarmConfig) -> Column:
    back_ms = F.col("clock_back_ms")
    words = "the node's clock was up to %,.3f s behind what it had shown"
    # The clock is the node's, regardless of the sender.
    return _mark(
        "clock",
        back_ms >= config.clock_back_ms_min,
        back_ms / config.clock_back_ms_min,
        F.format_string(words, back_ms / 1000),
        sender=F.lit(None),
    )


def _ahead(config: AlarmConfig) -> Column:
    ahead_ms = F.col("sender_ahead_ms")
    words = "the sender's clock is up to %,.3f s ahead of the node's"
    return _mark(
        "clock",
        ahead_ms >= config.sender_ahead_ms_min,
        ahead_ms / config.sender_ahead_ms_min,
        F.format_string(words, ahead_ms / 1000),
    )


def _slow_clients(statistics: DataFrame, config: AlarmConfig) -> DataFrame:
    queued = F.coalesce("currentQueuedBytes", F.lit(0))
    was_cut = F.coalesce("overflowDisconnected", F.lit(False))
    cut = F.when(was_cut, ", and it was cut").otherwise("")
    score = F.greatest(queued / config.slow_queued_bytes_min, F.lit(1.0))
    return _minutes(
        statistics.where(F.col("operation") != GAP)
        .where(was_cut | (queued >= config.slow_queued_bytes_min))
        .withColumn("minute", minute_of(F.col("order_ns")))
        .withColumn("kind", F.lit("slow"))
        .withColumn("sender", F.col("clientId"))
        .withColumn("type", F.lit(None).cast("string"))
        .withColumn("score", score)
        .withColumn("evidence", F.format_string("%,d bytes waited for this client%s", queued, cut))
    )


def _lagging_clients(ledger: DataFrame) -> DataFrame:
    in_order = Window.partitionBy("space", "node", "name").orderBy("order_ns", "position")
    missed = F.coalesce("conflated", F.lit(0)) + F.coalesce("expired", F.lit(0))
    words = "%,d updates were left out for this client, as it did not keep up"
    by_minute = (
        ledger.where((F.col("operation") != GAP) & (F.col("kind") == "client"))
        .withColumn("missed", missed)
        .withColumn("more", F.col("missed") - F.lag("missed").over(in_order))
        .where(F.col("more") > 0)
        .withColumn("minute", minute_of(F.col("order_ns")))
        .withColumn("sender", F.col("name").try_cast("long"))
        .groupBy("minute", "space", "node", "sender")
        .agg(F.sum("more").alias("missed"))
    )
    return _minutes(
        by_minute.withColumn("kind", F.lit("slow"))
        .withColumn("type", F.lit(None).cast("string"))
        .withColumn("score", F.col("missed").cast("double"))
        .withColumn("evidence", F.format_string(words, "missed"))
    )


def _is_unusual(config: AlarmConfig) -> Column:
    return (F.col("count") >= config.minutes_min) & (F.col("score") >= config.score_min)


def _dated(frame: DataFrame) -> DataFrame:
    return frame.withColumn("day", day_of(F.col("minute")))


def _mark(
    kind: str, condition: Column, score: Column, evidence: Column, *, sender: Column | None = None
) -> Column:
    """An alarm about this minute if the condition is true, otherwise null."""
    return F.when(
        condition,
        F.struct(
            F.lit(kind).alias("kind"),
            (F.col("sender") if sender is None else sender).cast("long").alias("sender"),
            score.cast("double").alias("score"),
            evidence.alias("evidence"),
        ),
    )


def _minutes(found: DataFrame) -> DataFrame:
    return (
        found.withColumn("since", F.col("minute"))
        .withColumn("until", F.col("minute") + _minute())
        .withColumn("is_open", F.lit(False))
        .select(*_MARK)
    )


def _runs(minutes: DataFrame) -> DataFrame:
    """Consecutive minutes combined into one alarm, with the evidence of the highest score."""
    in_order = Window.partitionBy(*_SUBJECT, "day").orderBy("since", F.desc("score"))
    is_new = F.col("since") > F.lag("until").over(in_order)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        minutes.withColumn("day", day_of(F.col("since")))
        .withColumn("is_new", F.coalesce(is_new, F.lit(True)).cast("int"))
        .withColumn("run", F.sum("is_new").over(so_far))
        .groupBy(*_SUBJECT, "day", "run")
        .agg(
            F.min("since").alias("since"),
            F.max("until").alias("until"),
            F.max_by("evidence", F.struct("score", "evidence")).alias("evidence"),
            F.max("score").alias("score"),
            F.first("is_open").alias("is_open"),
        )
        .select(*_MARK)
    )


# -- silence


def _stalls(links: DataFrame, config: AlarmConfig) -> DataFrame:
    """Senders that usually publish every minute and were silent while their node was active."""
    is_program = (F.col("sender") != NODE_CLIENT) | (F.col("source") == "distributor")
    is_regular = (F.col("active") >= config.minutes_min) & (F.col("usual_step") == 1)
    resumed = F.coalesce(F.col("next"), F.col("node_until") + _minute())
    words = "silent for %,d minutes after %,d minutes with updates"
    return (
        links.where((F.col("updates") > 0) & is_program & is_regular)
        .withColumn("silent", _minutes_between(F.col("minute"), resumed) - 1)
        .where(F.col("silent") >= config.stall_minutes_min)
        .withColumn("kind", F.lit("stall"))
        .withColumn("type", F.lit(None).cast("string"))
        .withColumn("since", F.col("minute") + _minute())
        .withColumn("until", resumed)
        .withColumn("score", F.col("silent").cast("double"))
        .withColumn("evidence", F.format_string(words, "silent", "active"))
        .withColumn("is_open", F.col("next").isNull())
        .select(*_MARK)
    )


# -- all alarms


def _with_names(alarms: DataFrame, sessions: DataFrame) -> DataFrame:
    """Adds the name of the sender, or of the node for an alarm about the node.

    Drops stalls of programs that ended.
    """
    # One row for each sender and day, so that no alarm is duplicated. The node is sender 1.
    named = (
        sessions.withColumn("speaker", F.col("sender"))
        .groupBy("day", "space", "node", "speaker")
        .agg(F.max("name").alias("name"), F.max("ended").alias("ended"))
    )
    # The sender of a link between nodes is a node.
    nodes = (
        sessions.where(F.col("kind") == "node")
        .groupBy("day", "space", F.col("node").alias("speaker"))
        .agg(F.max("name").alias("node_name"))
    )
    return (
        alarms.withColumn("day", day_of(F.col("since")))
        .withColumn("speaker", F.coalesce("sender", F.lit(NODE_CLIENT)))
        .join(named, ["day", "space", "node", "speaker"], "left")
        .join(nodes, ["day", "space", "speaker"], "left")
        .withColumn("name", F.coalesce("name", "node_name"))
        .where(~(F.col("is_open") & F.col("ended").isNotNull()))
    )


def _minute() -> Column:
    return F.expr("interval 1 minute")


def _minutes_between(first: Column, second: Column) -> Column:
    return F.timestamp_diff("MINUTE", first, second)
