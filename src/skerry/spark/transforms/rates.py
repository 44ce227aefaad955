"""How much is said: updates and bytes by type, subject, node and minute."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from skerry.spark.transforms.events import GAP, REMOVE, SNAPSHOT, hour_of, minute_of

__all__ = ["NAME", "PARTITION", "PREFIX_CHARS_MAX", "SCHEMA", "build", "subject_prefix"]

NAME: Final = "rates"
PARTITION: Final = "hour"
PREFIX_CHARS_MAX: Final = 120
"""Of a first level that is longer, so much is kept; whoever publishes chooses its length."""

SCHEMA: Final = T.StructType(
    [
        T.StructField("minute", T.TimestampType()),
        T.StructField("space", T.StringType()),
        T.StructField("type", T.StringType()),
        T.StructField("prefix", T.StringType()),
        T.StructField("node", T.LongType()),
        T.StructField("updates", T.LongType()),
        T.StructField("removes", T.LongType()),
        T.StructField("bytes", T.LongType()),
        T.StructField("senders", T.LongType()),
        T.StructField("hour", T.StringType()),
    ]
)


def build(events: DataFrame) -> DataFrame:
    """Sums over the minutes of `events`; what was there before, and gaps, are not said anew."""
    is_said = ~F.col("operation").isin(GAP, SNAPSHOT)
    is_remove = F.col("operation") == REMOVE
    return (
        events.where(is_said)
        .withColumn("minute", minute_of(F.col("order_ns")))
        .withColumn("prefix", subject_prefix(F.col("subject")))
        # By sender first: to count distinct ones in one step, Spark would copy every row.
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
    """The first level of a subject, with its stroke: `/prices` of `/prices/ERIC-B`."""
    return F.left(F.regexp_extract(subject, "^/?[^/]*", 0), F.lit(PREFIX_CHARS_MAX))
