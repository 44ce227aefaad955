"""The table `links`: latency, loss, repair and bytes between each sender and its node, by minute.

A sender is a client of a node, a program of a multicast group, or another node of the system.
Figures that were not recorded are null rather than zero.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf

from skerry.codec.envelope import DISTRIBUTOR, GAP, LINK, SNAPSHOT
from skerry.errors import RecordingError
from skerry.ids import NODE_CLIENT
from skerry.recording.gaps import Gap, gap_of
from skerry.schema.internal import LINK_TYPE
from skerry.spark.lake.buckets import timestamp_column
from skerry.spark.lake.schema import no_rows
from skerry.spark.transforms.events import (
    columns,
    hour_of,
    latency_ms,
    minute_of,
    with_columns,
)

NAME: Final = "links"
PARTITION: Final = "hour"
_LINK: Final = ("order_ns", "space", "source", "sender", "node")
_STATISTICS: Final = (
    *("last_ns", "datagrams", "datagram_bytes", "retransmissions", "roundTrips", "waited_ms"),
    "lag_ms",
)

SCHEMA: Final = columns(
    "minute timestamp, space string, source string, sender long, node long, updates long,"
    " bytes long, types strings, first timestamp, last timestamp, latency_p50_ms double,"
    " latency_p90_ms double, latency_p99_ms double, latency_max_ms double, lost long, gaps long,"
    " gap_reasons strings, datagrams long, retransmissions long, round_trip_ms double,"
    " lag_ms double, clock_back_ms double, sender_ahead_ms double, hour string"
)

LINKS: Final = columns(
    "order_ns long, space string, node long, carrier string, senderNumber long, receiver string,"
    " receiverNumber long, datagrams long, bytes long, retransmissions long, roundTrips long,"
    " roundTripTime double, lag double"
)
"""The columns read from `updates/SkerryLink`. Each row covers the time since the previous one."""

_GAP: Final = columns("missing long, reason string")
_GAP_COUNT_MAX: Final = 2**63 - 1


def build(events: DataFrame, links: DataFrame | None = None) -> DataFrame:
    """Figures of each sender by minute, from `events` and rows of `updates/SkerryLink`."""
    rows = _updates(events).unionByName(_gaps(events), allowMissingColumns=True)
    statistics = _statistics(events.sparkSession, links)
    return (
        rows.unionByName(statistics, allowMissingColumns=True)
        .withColumn("minute", minute_of(F.col("order_ns")))
        .groupBy("minute", "space", "source", "sender", "node")
        .agg(
            F.count("operation").alias("updates"),
            F.coalesce(F.sum("payload_bytes"), F.max("datagram_bytes")).alias("bytes"),
            F.array_sort(F.collect_set("type")).alias("types"),
            timestamp_column(F.min("order_ns")).alias("first"),
            timestamp_column(F.max(F.greatest("order_ns", "last_ns"))).alias("last"),
            # In one aggregate: each separate percentile would collect all latencies again.
            F.percentile("latency_ms", [0.5, 0.9, 0.99]).alias("latencies"),
            F.max("latency_ms").alias("latency_max_ms"),
            F.coalesce(F.sum("gap.missing"), F.lit(0)).alias("lost"),
            F.count("gap").alias("gaps"),
            F.array_sort(F.collect_set("gap.reason")).alias("gap_reasons"),
            # Several recorders of one group receive the same datagrams; the most complete counts.
            # Of the two ends of a link between nodes, only the sender counts retransmissions.
            F.max("datagrams").alias("datagrams"),
            F.max("retransmissions").alias("retransmissions"),
            (F.sum("waited_ms") / F.nullif(F.sum("roundTrips"), F.lit(0))).alias("round_trip_ms"),
            F.max("lag_ms").alias("lag_ms"),
            F.max("clock_back_ms").alias("clock_back_ms"),
            F.max("sender_ahead_ms").alias("sender_ahead_ms"),
        )
        .withColumns(
            {
                "hour": hour_of(F.col("minute")),
                "latency_p50_ms": F.col("latencies")[0],
                "latency_p90_ms": F.col("latencies")[1],
                "latency_p99_ms": F.col("latencies")[2],
            }
        )
        .select(*SCHEMA.names)
    )


def _updates(events: DataFrame) -> DataFrame:
    latency = latency_ms()
    # `order_ns` is the latest time that the node had stamped, so an earlier `time_ns` was stamped
    # by a clock that went back.
    back_ms = F.try_subtract("order_ns", "time_ns") / 1e6
    # The statistics that a recorder writes about a sender are not updates of that sender. Those of
    # a node are updates of the node.
    is_note = (F.col("type") == LINK_TYPE) & (F.col("sender") != NODE_CLIENT)
    return events.where(~F.col("operation").isin(GAP, SNAPSHOT) & ~is_note).select(
        *_LINK,
        "type",
        "operation",
        "payload_bytes",
        latency.alias("latency_ms"),
        F.when(back_ms > 0, back_ms).alias("clock_back_ms"),
        F.when(latency < 0, -latency).alias("sender_ahead_ms"),
    )


def _gaps(events: DataFrame) -> DataFrame:
    # A separate frame, so that only these few rows are sent to Python.
    # Programs of a group are their own nodes, and only their gaps have a sender.
    is_multicast = (F.col("sender") == F.col("node")) & (F.col("sender") != 0)
    source = F.when(is_multicast, F.lit(DISTRIBUTOR)).otherwise(F.col("source"))
    return (
        events.where(F.col("operation") == GAP)
        .withColumn("source", source)
        .select(*_LINK, gap_columns(F.col("payload")).alias("gap"))
    )


def gap_columns(payload: Column) -> Column:
    """A struct of the columns `missing` and `reason`, from the payloads of gap rows."""
    return arrow_udf(_read_gaps, _GAP)(payload)  # type: ignore[call-overload, no-any-return]


def _read_gaps(payloads: pa.Array) -> pa.Array:
    gaps = [_gap(payload.as_py()) for payload in payloads]
    return pa.StructArray.from_arrays(
        [
            pa.array([min(gap.count, _GAP_COUNT_MAX) for gap in gaps], pa.int64()),
            pa.array([gap.reason for gap in gaps], pa.string()),
        ],
        names=_GAP.names,
    )


def _gap(payload: bytes) -> Gap:
    try:
        return gap_of(payload)
    except RecordingError:
        # Updates are missing in any case, and a damaged row must not stop the job.
        return Gap(count=0, reason="unknown: the row of the gap is damaged")


def _statistics(spark: SparkSession, links: DataFrame | None) -> DataFrame:
    """The statistics of each observer about each sender, by minute."""
    rows = no_rows(spark, LINKS) if links is None else with_columns(links, LINKS)
    waited_ms = F.col("roundTripTime") * F.col("roundTrips") * 1000
    # A link between nodes is observed by the nodes at both ends, and any other by its receiver.
    is_between_nodes = F.col("carrier") == LINK
    observer = F.when(is_between_nodes, F.col("node").cast("string")).otherwise(F.col("receiver"))
    return (
        rows.where(F.col("carrier").isNotNull() & F.col("senderNumber").isNotNull())
        .withColumn("source", F.col("carrier"))
        .withColumn("sender", F.col("senderNumber"))
        .withColumn("observer", observer)
        .withColumn("node", F.coalesce("receiverNumber", "node"))
        .groupBy(minute_of(F.col("order_ns")), "space", "source", "sender", "node", "observer")
        .agg(
            F.min("order_ns").alias("order_ns"),
            F.max("order_ns").alias("last_ns"),
            F.max(F.col("lag") * 1000).alias("lag_ms"),
            F.sum("bytes").alias("datagram_bytes"),
            F.sum("datagrams").alias("datagrams"),
            F.sum("retransmissions").alias("retransmissions"),
            F.sum("roundTrips").alias("roundTrips"),
            F.sum(waited_ms).alias("waited_ms"),
        )
        .select(*_LINK, *_STATISTICS)
    )
