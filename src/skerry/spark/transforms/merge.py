"""Merges updates into states with Spark, by the same rules as `merging.states`.

An update sets the fields in its property set (`present`) and no others; a field in the set without
a value is cleared. A create begins a life with its own fields only. A snapshot row has the whole
object. After a remove all fields are unset, also for an update that follows. All of it is one
window over each object; no row is sent to Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import WindowSpec

from skerry.codec.envelope import CREATE, REMOVE, SNAPSHOT
from skerry.spark.lake.buckets import timestamp_column
from skerry.spark.lake.catalog import OBJECT, ORDER, FieldColumn
from skerry.spark.lake.schema import quoted

ALL_TAGS: Final = 0xFFFF_FFFF
"""Property set of every field."""

CLOSED: Final = "closed"
OPEN: Final = "open"
GONE: Final = "gone"

_FACTS: Final = ("subject", "operation", "present", "lives")


def steps_of_updates(updates: DataFrame, fields: Sequence[FieldColumn]) -> DataFrame:
    """Rows of `updates/T` as steps for `merged`."""
    lives = (F.col("operation") == CREATE).cast("bigint")
    return _steps(updates.withColumn("lives", lives), fields)


def steps_of_states(states: DataFrame, fields: Sequence[FieldColumn]) -> DataFrame:
    """Previous states, at most one per object, as first steps."""
    return _steps(
        states.withColumn("order_ns", F.col("valid_from_ns"))
        .withColumn("operation", F.lit(SNAPSHOT).cast("tinyint"))
        .withColumn("present", F.lit(ALL_TAGS).cast("bigint"))
        .withColumn("lives", F.col("life")),
        fields,
    )


def steps_of_gone(gone: DataFrame, states: DataFrame, fields: Sequence[FieldColumn]) -> DataFrame:
    """Removed objects as first steps; `states` has the types of the fields."""
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
    """An aggregate over updates: the property set of all fields that some update unsets.

    An update unsets a field by clearing it, or by beginning a life without it.
    """
    bits = [f"if({_unsets(field)}, {1 << field.tag}L, 0L)" for field in fields]
    return F.bit_or(F.expr(" | ".join(bits) or "0L"))


def merged(
    steps: DataFrame, fields: Sequence[FieldColumn], *, cleared: int = ALL_TAGS
) -> DataFrame:
    """The states that result from steps, each with `standing`: closed, open, or gone.

    `cleared` is the property set of the fields that some step may unset; they cost more.
    """
    along = Window.partitionBy(*OBJECT).orderBy(*ORDER)
    so_far = along.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    values = [_value(field, so_far, is_cleared=bool(cleared >> field.tag & 1)) for field in fields]
    is_remove = F.col("operation") == REMOVE
    is_last = F.col("valid_to_ns").isNull()
    standing = F.when(is_remove, GONE).when(is_last, OPEN).otherwise(CLOSED)
    names = (*OBJECT, "subject", "operation", *ORDER)
    return (
        steps.select(
            *names,
            F.sum("lives").over(so_far).alias("life"),
            F.lead("order_ns").over(along).alias("valid_to_ns"),
            *values,
        )
        .withColumn("standing", standing)
        .where((F.col("standing") != GONE) | F.col("valid_to_ns").isNull())
        .select(
            *OBJECT,
            "subject",
            F.col("order_ns").alias("valid_from_ns"),
            "valid_to_ns",
            timestamp_column(F.col("order_ns")).alias("valid_from"),
            timestamp_column(F.col("valid_to_ns")).alias("valid_to"),
            "life",
            *("sender", "node", "position", "sequence"),
            *(quoted(field.name) for field in fields),
            "standing",
        )
    )


def _steps(rows: DataFrame, fields: Sequence[FieldColumn]) -> DataFrame:
    names = (*OBJECT, *ORDER, *_FACTS, *(field.name for field in fields))
    return rows.selectExpr(*map(quoted, names))


def _is_present(field: FieldColumn) -> str:
    # As text: building an expression takes many messages to the JVM, and a type has many fields.
    return f"((present & {1 << field.tag}L) != 0 and operation != {REMOVE})"


def _unsets(field: FieldColumn) -> str:
    """Whether the field is unset after a step, regardless of previous steps."""
    is_absent = f"not {_is_present(field)}"
    replaces_all = f"operation in ({CREATE}, {REMOVE}, {SNAPSHOT})"
    return f"if({is_absent}, {replaces_all}, {quoted(field.name)} is null)"


def _value(field: FieldColumn, so_far: WindowSpec, *, is_cleared: bool) -> Column:
    """The last value that was set, unless it was unset since."""
    value = f"if({_is_present(field)}, {quoted(field.name)}, null)"
    last = F.last(F.expr(value), ignorenulls=True).over(so_far)
    if is_cleared:
        # False in a step that sets the field, true in one that unsets it, otherwise null.
        is_unset = f"if({_unsets(field)}, true, if({_is_present(field)}, false, null))"
        unset = F.last(F.expr(is_unset), ignorenulls=True).over(so_far)
        last = F.when(~unset, last)
    return last.alias(field.name)


# -- the rows of `latest` and `gone`


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
    return rows.withColumn("part", F.pmod(F.xxhash64(*OBJECT), F.lit(count)).cast("int"))
