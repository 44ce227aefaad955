"""Questions about time: what was there at an instant, what changed, what differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import CREATE, REMOVE, SNAPSHOT, UPDATE
from skerry.spark.buckets import timestamp_column
from skerry.spark.catalog import OBJECT, FieldColumn

__all__ = ["changed_between", "differences", "is_live_at", "live_at"]

_FACTS: Final = ("valid_from_ns", "valid_from", "life", "sender", "node", "position", "sequence")
_NAMES: Final = {CREATE: "create", UPDATE: "update", REMOVE: "remove", SNAPSHOT: "snapshot"}


def is_live_at(instant_ns: int) -> Column:
    """Whether a state holds at an instant."""
    has_begun = F.col("valid_from_ns") <= instant_ns
    is_over = F.col("valid_to_ns") <= instant_ns
    return has_begun & ~F.coalesce(is_over, F.lit(False))


def live_at(states: DataFrame, fields: Sequence[FieldColumn], instant_ns: int) -> DataFrame:
    """The state of every object at an instant, with its age in seconds."""
    age = (F.lit(instant_ns) - F.col("valid_from_ns")) / F.lit(1e9)
    return states.where(is_live_at(instant_ns)).select(
        *OBJECT, "subject", *_FACTS, age.alias("age_s"), *_columns(fields)
    )


def changed_between(
    updates: DataFrame, fields: Sequence[FieldColumn], from_ns: int, to_ns: int
) -> DataFrame:
    """What was said from one instant up to another: fields are null where nothing was said."""
    is_within = (F.col("order_ns") >= from_ns) & (F.col("order_ns") < to_ns)
    name = F.when(F.lit(False), F.lit(None))
    for number, text in _NAMES.items():
        name = name.when(F.col("operation") == number, text)
    return updates.where(is_within).select(
        "order_ns",
        timestamp_column(F.col("order_ns")).alias("time"),
        name.alias("change"),
        *OBJECT,
        "subject",
        "present",
        "sender",
        "node",
        "position",
        "sequence",
        *_columns(fields),
    )


def differences(before: DataFrame, after: DataFrame, fields: Sequence[FieldColumn]) -> DataFrame:
    """Objects that are not the same in two answers of `live_at`.

    `change` is added, removed, replaced (another life) or changed; `changed` names the fields.
    """
    ours, theirs = (_packed(frame, fields, name) for frame, name in ((before, "a"), (after, "b")))
    names = [
        F.when(~F.col(f"a.`{field.name}`").eqNullSafe(F.col(f"b.`{field.name}`")), field.name)
        for field in fields
    ]
    changed = F.array_compact(F.array(*names)) if names else F.array().cast("array<string>")
    change = (
        F.when(F.col("a_life").isNull(), "added")
        .when(F.col("b_life").isNull(), "removed")
        .when(F.col("a_life") != F.col("b_life"), "replaced")
        .when(F.size("changed") > 0, "changed")
    )
    is_in_both = F.col("a_life").isNotNull() & F.col("b_life").isNotNull()
    joined = ours.join(theirs, on=list(OBJECT), how="full_outer")
    return (
        joined.withColumn("changed", F.when(is_in_both, changed).otherwise(F.array()))
        .withColumn("change", change)
        .where(F.col("change").isNotNull())
        .select(
            *OBJECT,
            F.coalesce("b_subject", "a_subject").alias("subject"),
            "change",
            "changed",
            F.col("a").alias("before"),
            F.col("b").alias("after"),
        )
    )


def _packed(frame: DataFrame, fields: Sequence[FieldColumn], name: str) -> DataFrame:
    values = _columns(fields) or [F.lit(None).cast("string").alias("nothing")]
    return frame.select(
        *OBJECT,
        F.col("life").alias(f"{name}_life"),
        F.col("subject").alias(f"{name}_subject"),
        F.struct(*values).alias(name),
    )


def _columns(fields: Sequence[FieldColumn]) -> list[Column]:
    return [F.col(f"`{field.name}`") for field in fields]
