"""Rows that have no table of a type: gaps, and updates of types that nobody described."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import GAP
from skerry.spark.buckets import day_column
from skerry.spark.catalog import RAW_TABLE

__all__ = ["foldable", "raw_rows"]

_PLAIN: Final = r"^[A-Za-z0-9_.-]{0,200}$"
_CHARS_MAX: Final = 60
"""Of any other name: each character takes up to four bytes, and a folder's name has 255."""


def raw_rows(recorded: DataFrame, undescribed: DataFrame) -> DataFrame:
    """Of recorded rows those for `raw`; `undescribed` has (type, fingerprint) of those types."""
    is_gap = F.col("operation") == GAP
    known = undescribed.withColumn("is_undescribed", F.lit(True))
    joined = recorded.join(F.broadcast(known), on=["type", "fingerprint"], how="left")
    # Gaps have no place in the order of a node, so all of the table goes by time.
    return (
        joined.where(is_gap | F.col("is_undescribed"))
        .withColumn("type", foldable(F.col("type")))
        .withColumn("order_ns", F.col("time_ns"))
        .withColumn("day", day_column(F.col("time_ns")))
        .select(*(column.name for column in RAW_TABLE))
    )


def foldable(name: Column) -> Column:
    """A name that a folder can have, as the table is divided by it.

    Whoever publishes to a group may write what they like in place of a type.
    """
    shortened = F.left(F.translate(name, "\0", "\ufffd"), F.lit(_CHARS_MAX))
    return F.when(name.rlike(_PLAIN), name).otherwise(shortened)
