"""Rows that have no table of a type: gaps, and updates of types that nobody described."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import GAP
from skerry.spark.buckets import day_column
from skerry.spark.catalog import RAW_TABLE

__all__ = ["raw_rows"]


def raw_rows(recorded: DataFrame, undescribed: DataFrame) -> DataFrame:
    """Of recorded rows those for `raw`; `undescribed` has (type, fingerprint) of those types."""
    is_gap = F.col("operation") == GAP
    known = undescribed.withColumn("is_undescribed", F.lit(True))
    joined = recorded.join(F.broadcast(known), on=["type", "fingerprint"], how="left")
    # Gaps have no place in the order of a node, so all of the table goes by time.
    return (
        joined.where(is_gap | F.col("is_undescribed"))
        .withColumn("order_ns", F.col("time_ns"))
        .withColumn("day", day_column(F.col("time_ns")))
        .select(*(column.name for column in RAW_TABLE))
    )
