"""Queries about time: states at an instant, updates between instants, differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.spark.lake.buckets import timestamp_column
from skerry.spark.lake.catalog import CHANGES, OBJECT, STATE_FACTS, FieldColumn
from skerry.spark.lake.schema import quoted


def is_live_at(instant_ns: int) -> Column:
    """Whether a state is valid at an instant."""
    return F.expr(_live_text(instant_ns))


def live_at(
    states: DataFrame,
    fields: Sequence[FieldColumn],
    instant_ns: int,
    *,
    after_ns: int | None = None,
) -> DataFrame:
    """The state of every object at an instant, with its age in seconds.

    With `after_ns`, only states that began after that instant.
    """
    # As text: building an expression takes many messages to the JVM, which took longer than the
    # query.
    has_begun = "" if after_ns is None else f"valid_from_ns > {after_ns} and "
    age = f"({instant_ns} - valid_from_ns) / 1e9 as age_s"
    names = (quoted(field.name) for field in fields)
    rows = states.where(has_begun + _live_text(instant_ns))
    return rows.selectExpr(*OBJECT, "subject", *STATE_FACTS, age, *names)


def _live_text(instant_ns: int) -> str:
    return f"valid_from_ns <= {instant_ns} and not coalesce(valid_to_ns <= {instant_ns}, false)"


def changed_between(
    updates: DataFrame, fields: Sequence[FieldColumn], from_ns: int, to_ns: int
) -> DataFrame:
    """The updates from one instant to another, exclusive; fields not in an update are null."""
    is_within = (F.col("order_ns") >= from_ns) & (F.col("order_ns") < to_ns)
    name = F.when(F.lit(False), F.lit(None))
    for number, text in CHANGES.items():
        name = name.when(F.col("operation") == number, text)
    return updates.where(is_within).select(
        "order_ns",
        timestamp_column(F.col("order_ns")).alias("order_time"),
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
    """Objects that differ between two results of `live_at`.

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
    return [F.col(quoted(field.name)) for field in fields]


# -- snapshots


def snapshot_at(states: DataFrame, edge_ns: int, until_ns: int) -> DataFrame:
    return (
        states.where(is_live_at(edge_ns))
        .withColumn("edge_ns", F.lit(edge_ns).cast("bigint"))
        .withColumn("until_ns", F.lit(until_ns).cast("bigint"))
    )


def edges(
    row_counts: Mapping[int, int], *, rows_min: int, after_ns: int | None, until_ns: int
) -> list[tuple[int, int]]:
    """Instants for snapshots, each with the next, so that at least `rows_min` states lie between.

    A snapshot has the states at its instant (`edge_ns`). Their ends are correct for instants up to
    `until_ns`, how far the table reached when the snapshot was made. A query about an instant
    between the two reads the snapshot and the states that began after `edge_ns`, and nothing else.
    `row_counts` has the number of states that begin in each bucket, by its start. All instants are
    after `after_ns`, the last existing one; buckets from `until_ns` are ignored.
    """
    starts = sorted(start for start in row_counts if start < until_ns)
    edge = after_ns
    if edge is None:
        edge = starts[0] if starts else until_ns
    found: list[tuple[int, int]] = []
    count = 0
    for start in starts:
        if start < edge:
            continue
        if count >= rows_min:
            found.append((edge, start))
            edge, count = start, 0
        count += row_counts[start]
    return found
