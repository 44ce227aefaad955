"""The rows of `latest` and `gone` from merged states."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.spark.lake.buckets import timestamp_column
from skerry.spark.lake.catalog import OBJECT
from skerry.spark.transforms.merge import GONE, OPEN


def open_rows(states: DataFrame) -> DataFrame:
    """The current states among merged states, one per existing object."""
    return states.where(F.col("standing") == OPEN).drop("standing")


def gone_rows(states: DataFrame) -> DataFrame:
    """The removes among merged states of objects that were not created again."""
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
    """The rows with those of the touched objects replaced by the new ones."""
    kept = rows.join(touched.select(*OBJECT), on=list(OBJECT), how="left_anti")
    return kept.select(*new.columns).unionByName(new)


def with_part(rows: DataFrame, count: int) -> DataFrame:
    """The rows with the column `part`."""
    return rows.withColumn("part", F.pmod(F.xxhash64(*OBJECT), F.lit(count)).cast("int"))
