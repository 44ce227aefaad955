"""How it travels: latency, loss, repair and bytes between each sender and its node, by minute.

A sender is a client of a node, or a program of a multicast group. What is not recorded is null, so
that a question about it has no answer rather than a wrong one.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from skerry.codec.envelope import DISTRIBUTOR
from skerry.ids import NODE_CLIENT
from skerry.schema.internal import LINK_TYPE
from skerry.spark.lake.schema import no_rows
from skerry.spark.transforms.events import (
    GAP,
    SNAPSHOT,
    hour_of,
    instant,
    latency_ms,
    minute_of,
    with_columns,
)
from skerry.spark.transforms.gap_columns import missing

__all__ = ["NAME", "PARTITION", "SCHEMA", "TOLD", "build"]

NAME: Final = "links"
PARTITION: Final = "hour"
_LINK: Final = ("order_ns", "space", "source", "sender", "node")
_MEASURED: Final = ("last_ns", "datagrams", "retransmissions", "roundTrips", "waited_ms")

SCHEMA: Final = T.StructType(
    [
        T.StructField("minute", T.TimestampType()),
        T.StructField("space", T.StringType()),
        T.StructField("source", T.StringType()),
        T.StructField("sender", T.LongType()),
        T.StructField("node", T.LongType()),
        T.StructField("updates", T.LongType()),
        T.StructField("bytes", T.LongType()),
        T.StructField("types", T.ArrayType(T.StringType())),
        T.StructField("first", T.TimestampType()),
        T.StructField("last", T.TimestampType()),
        T.StructField("latency_p50_ms", T.DoubleType()),
        T.StructField("latency_p90_ms", T.DoubleType()),
        T.StructField("latency_p99_ms", T.DoubleType()),
        T.StructField("latency_max_ms", T.DoubleType()),
        T.StructField("lost", T.LongType()),
        T.StructField("gaps", T.LongType()),
        T.StructField("gap_reasons", T.ArrayType(T.StringType())),
        T.StructField("datagrams", T.LongType()),
        T.StructField("retransmissions", T.LongType()),
        T.StructField("round_trip_ms", T.DoubleType()),
        T.StructField("clock_back_ms", T.DoubleType()),
        T.StructField("sender_ahead_ms", T.DoubleType()),
        T.StructField("hour", T.StringType()),
    ]
)

TOLD: Final = T.StructType(
    [
        T.StructField("order_ns", T.LongType()),
        T.StructField("space", T.StringType()),
        T.StructField("node", T.LongType()),
        T.StructField("carrier", T.StringType()),
        T.StructField("senderNumber", T.LongType()),
        T.StructField("receiver", T.StringType()),
        T.StructField("datagrams", T.LongType()),
        T.StructField("retransmissions", T.LongType()),
        T.StructField("roundTrips", T.LongType()),
        T.StructField("roundTripTime", T.DoubleType()),
    ]
)
"""What is read of `updates/SkerryLink`. Each row is about the time since the one before."""


def build(events: DataFrame, told: DataFrame | None = None) -> DataFrame:
    """Figures of each sender over the minutes of `events`, with what is `told` of links."""
    rows = _said(events).unionByName(_gaps(events), allowMissingColumns=True)
    measured = _measured(events.sparkSession, told)
    return (
        rows.unionByName(measured, allowMissingColumns=True)
        .withColumn("minute", minute_of(F.col("order_ns")))
        .groupBy("minute", "space", "source", "sender", "node")
        .agg(
            F.count("operation").alias("updates"),
            F.sum("payload_bytes").alias("bytes"),
            F.array_sort(F.collect_set("type")).alias("types"),
            instant(F.min("order_ns")).alias("first"),
            instant(F.max(F.greatest("order_ns", "last_ns"))).alias("last"),
            # At once: each percentile by itself would keep all latencies of its own.
            F.percentile("latency_ms", [0.5, 0.9, 0.99]).alias("latencies"),
            F.max("latency_ms").alias("latency_max_ms"),
            F.coalesce(F.sum("gap.missing"), F.lit(0)).alias("lost"),
            F.count("gap").alias("gaps"),
            F.array_sort(F.collect_set("gap.reason")).alias("gap_reasons"),
            # Several recorders of one group hear the same; who heard most tells what there was.
            F.max("datagrams").alias("datagrams"),
            F.max("retransmissions").alias("retransmissions"),
            (F.sum("waited_ms") / F.nullif(F.sum("roundTrips"), F.lit(0))).alias("round_trip_ms"),
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


def _said(events: DataFrame) -> DataFrame:
    latency = latency_ms()
    # `order_ns` is the latest time that the node has seen, so what is behind it was stamped by a
    # clock that went back.
    back_ms = F.try_subtract("order_ns", "time_ns") / 1e6
    # What a recorder notes of a sender that sender did not say. What a node notes, it said.
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
    # Apart from the rest, so that only these few rows visit Python.
    # Programs of a group are their own nodes, and only gaps of theirs have a sender.
    is_multicast = (F.col("sender") == F.col("node")) & (F.col("sender") != 0)
    source = F.when(is_multicast, F.lit(DISTRIBUTOR)).otherwise(F.col("source"))
    return (
        events.where(F.col("operation") == GAP)
        .withColumn("source", source)
        .select(*_LINK, missing(F.col("payload")).alias("gap"))
    )


def _measured(spark: SparkSession, told: DataFrame | None) -> DataFrame:
    """What each receiver tells of each sender, a row by the minute."""
    rows = no_rows(spark, TOLD) if told is None else with_columns(told, TOLD)
    waited_ms = F.col("roundTripTime") * F.col("roundTrips") * 1000
    return (
        rows.where(F.col("carrier").isNotNull() & F.col("senderNumber").isNotNull())
        .withColumn("source", F.col("carrier"))
        .withColumn("sender", F.col("senderNumber"))
        .groupBy(minute_of(F.col("order_ns")), "space", "source", "sender", "node", "receiver")
        .agg(
            F.min("order_ns").alias("order_ns"),
            F.max("order_ns").alias("last_ns"),
            F.sum("datagrams").alias("datagrams"),
            F.sum("retransmissions").alias("retransmissions"),
            F.sum("roundTrips").alias("roundTrips"),
            F.sum(waited_ms).alias("waited_ms"),
        )
        .select(*_LINK, *_MEASURED)
    )
