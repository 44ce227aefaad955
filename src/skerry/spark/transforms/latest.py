"""The objects there are now, and those that are gone: a row takes the place of another."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.spark.lake.buckets import timestamp_column
from skerry.spark.lake.catalog import OBJECT
from skerry.spark.transforms.merge import GONE, OPEN

__all__ = ["gone_rows", "open_rows", "replaced", "with_part"]


def open_rows(states: DataFrame) -> DataFrame:
    """Of merged states those that hold on: one of each object that is there."""
    return states.where(F.col("standing") == OPEN).drop("standing")


def gone_rows(states: DataFrame) -> DataFrame:
    """Of merged states the ends of objects that did not come back."""
    return states.where(F.col("standing") == GONE).select(
        *OBJECT,
        "life",
        F.col("valid_from_ns").alias("removed_ns"),
        timestamp_column(F.col("valid_from_ns")).alias("removed"),
        "sender",
        "node",
        "position",
        "sequence",
    )


def replaced(rows: DataFrame, touched: DataFrame, new: DataFrame) -> DataFrame:
    """The rows with those of the touched objects taken out, and the new ones put in."""
    kept = rows.join(touched.select(*OBJECT), on=list(OBJECT), how="left_anti")
    return kept.select(*new.columns).unionByName(new)


def with_part(rows: DataFrame, count: int) -> DataFrame:
    """The rows with the part of the table that each belongs to."""
    return rows.withColumn("part", F.pmod(F.xxhash64(*OBJECT), F.lit(count)).cast("int"))
