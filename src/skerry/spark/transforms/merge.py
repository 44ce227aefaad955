"""Updates become states: what each object looked like, from when to when.

An update speaks of the fields in its property set (`present`) and of no others; one that is in the
set without a value is cleared. A create begins a life with nothing but what it says. A snapshot is
the whole object, found there. After a remove there is nothing, and what is said then begins anew.
All of it is two windows over each object, without a look at the rows from Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import WindowSpec

from skerry.codec.envelope import CREATE, REMOVE, SNAPSHOT
from skerry.spark.buckets import timestamp_column
from skerry.spark.catalog import OBJECT, ORDER, FieldColumn

__all__ = [
    "ALL_TAGS",
    "CLOSED",
    "GONE",
    "OPEN",
    "cleared_tags",
    "merged",
    "steps_of_gone",
    "steps_of_states",
    "steps_of_updates",
]

ALL_TAGS: Final = 0xFFFF_FFFF
"""Property set of every field."""

CLOSED: Final = "closed"
OPEN: Final = "open"
GONE: Final = "gone"

_FACTS: Final = ("subject", "operation", "present", "lives")


def steps_of_updates(updates: DataFrame, fields: Sequence[FieldColumn]) -> DataFrame:
    """Rows of `updates/T` as steps to be merged."""
    lives = (F.col("operation") == CREATE).cast("bigint")
    return _steps(updates.withColumn("lives", lives), fields)


def steps_of_states(states: DataFrame, fields: Sequence[FieldColumn]) -> DataFrame:
    """States of objects, one of each, as what later steps build on."""
    return _steps(
        states.withColumn("order_ns", F.col("valid_from_ns"))
        .withColumn("operation", F.lit(SNAPSHOT).cast("tinyint"))
        .withColumn("present", F.lit(ALL_TAGS).cast("bigint"))
        .withColumn("lives", F.col("life")),
        fields,
    )


def steps_of_gone(gone: DataFrame, states: DataFrame, fields: Sequence[FieldColumn]) -> DataFrame:
    """Objects that are gone, as what later steps build on; `states` tells the kinds of fields."""
    kinds = {field.name: field.dataType for field in states.schema}
    nothing = [F.lit(None).cast(kinds[field.name]).alias(field.name) for field in fields]
    return _steps(
        gone.withColumn("order_ns", F.col("removed_ns"))
        .withColumn("operation", F.lit(REMOVE).cast("tinyint"))
        .withColumn("present", F.lit(0).cast("bigint"))
        .withColumn("subject", F.lit(None).cast("string"))
        .withColumn("lives", F.col("life"))
        .select("*", *nothing),
        fields,
    )


def cleared_tags(fields: Sequence[FieldColumn]) -> Column:
    """An aggregate over updates: property set of the fields that some of them clears."""
    bits = [
        F.when(_speaks_of(field) & F.col(f"`{field.name}`").isNull(), F.lit(1 << field.tag))
        .otherwise(F.lit(0))
        .cast("bigint")
        for field in fields
    ]
    nothing = F.lit(0).cast("bigint")
    return F.bit_or(reduce(Column.bitwiseOR, bits, nothing))


def merged(
    steps: DataFrame, fields: Sequence[FieldColumn], *, cleared: int = ALL_TAGS
) -> DataFrame:
    """The states that steps lead through, each with `standing`: closed, open, or gone.

    `cleared` is the property set of the fields that some step may clear: those cost more.
    """
    along = Window.partitionBy(*OBJECT).orderBy(*ORDER)
    so_far = along.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    begins_anew = F.col("operation").isin(CREATE, REMOVE, SNAPSHOT).cast("bigint")
    within = Window.partitionBy(*OBJECT, "epoch").orderBy(*ORDER)
    of_epoch = within.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    values = [
        _value(field, of_epoch, is_cleared=bool(cleared >> field.tag & 1)) for field in fields
    ]
    is_remove = F.col("operation") == REMOVE
    is_last = F.col("valid_to_ns").isNull()
    standing = F.when(is_remove, GONE).when(is_last, OPEN).otherwise(CLOSED)
    return (
        steps.withColumn("life", F.sum("lives").over(so_far))
        .withColumn("epoch", F.sum(begins_anew).over(so_far))
        .withColumn("valid_to_ns", F.lead("order_ns").over(along))
        .select(
            *OBJECT,
            "subject",
            F.col("order_ns").alias("valid_from_ns"),
            "valid_to_ns",
            timestamp_column(F.col("order_ns")).alias("valid_from"),
            timestamp_column(F.col("valid_to_ns")).alias("valid_to"),
            "life",
            *(name for name in ("sender", "node", "position", "sequence")),
            *values,
            standing.alias("standing"),
        )
        .where((F.col("standing") != GONE) | F.col("valid_to_ns").isNull())
    )


def _steps(rows: DataFrame, fields: Sequence[FieldColumn]) -> DataFrame:
    return rows.select(*OBJECT, *ORDER, *_FACTS, *(F.col(f"`{field.name}`") for field in fields))


def _speaks_of(field: FieldColumn) -> Column:
    is_in_set = F.col("present").bitwiseAND(F.lit(1 << field.tag)) != 0
    return is_in_set & (F.col("operation") != REMOVE)


def _value(field: FieldColumn, of_epoch: WindowSpec, *, is_cleared: bool) -> Column:
    """The last value that was said; nothing if what was said last is that there is none."""
    column = F.col(f"`{field.name}`")
    said = F.when(_speaks_of(field), column)
    last = F.last(said, ignorenulls=True).over(of_epoch)
    if is_cleared:
        has_one = F.when(_speaks_of(field), column.isNotNull())
        last = F.when(F.last(has_one, ignorenulls=True).over(of_epoch), last)
    return last.alias(field.name)
