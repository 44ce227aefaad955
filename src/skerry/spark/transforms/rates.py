"""The table `rates`: updates and bytes by type, subject, node and minute."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import GAP, REMOVE, SNAPSHOT
from skerry.spark.transforms.events import columns, hour_of, minute_of

NAME: Final = "rates"
PARTITION: Final = "hour"
PREFIX_CHARS_MAX: Final = 120
"""A longer first level is cut to this length; publishers choose subjects."""

SCHEMA: Final = columns(
    "minute timestamp, space string, type string, prefix string, node long, updates long,"
    " removes long, bytes long, senders long, hour string"
)


def build(events: DataFrame) -> DataFrame:
    """Sums by minute of `events`; gap and snapshot rows are not counted."""
    is_update = ~F.col("operation").isin(GAP, SNAPSHOT)
    is_remove = F.col("operation") == REMOVE
    return (
        events.where(is_update)
        .withColumn("minute", minute_of(F.col("order_ns")))
        .withColumn("prefix", subject_prefix(F.col("subject")))
        # By sender first: to count distinct senders in one step, Spark would duplicate every row.
        .groupBy("minute", "space", "type", "prefix", "node", "sender")
        .agg(
            F.count("*").alias("updates"),
            F.count_if(is_remove).alias("removes"),
            F.sum("payload_bytes").alias("bytes"),
        )
        .groupBy("minute", "space", "type", "prefix", "node")
        .agg(
            F.sum("updates").alias("updates"),
            F.sum("removes").alias("removes"),
            F.sum("bytes").alias("bytes"),
            F.count("sender").alias("senders"),
        )
        .withColumn("hour", hour_of(F.col("minute")))
        .select(*SCHEMA.names)
    )


def subject_prefix(subject: Column) -> Column:
    """The first level of a subject with its slash: `/prices` of `/prices/ERIC-B`."""
    return F.left(F.regexp_extract(subject, "^/?[^/]*", 0), F.lit(PREFIX_CHARS_MAX))
