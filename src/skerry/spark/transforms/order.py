"""The order of updates: `order_ns`, the latest time a node had stamped when it received an update.

A node's cache merges in the order of `position`, even if its clock goes back. So `order_ns` never
descends along the positions of a node, and rows of all nodes are ordered by (order_ns, node,
position). Sorting all rows of a node in one task would not scale: the running maximum is computed
within blocks of positions, and the maximum of previous blocks is added only to blocks in which a
time is lower, that is, if a clock went back across the edge of a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import REMOVE, SNAPSHOT
from skerry.limits import PIPELINE_CLOCK_COUNT_MAX
from skerry.spark.lake.plans import Clock
from skerry.spark.transforms.dedupe import BLOCK_COUNT, has_position

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


_EARLIEST: Final = -(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockBlock:
    """The rows of one node in one block of positions."""

    node: int
    number: int
    position_min: int
    position_max: int
    order_min_ns: int
    order_max_ns: int
    """Of updates, without snapshot rows, which do not advance a clock; the lowest int64 if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderSurvey:
    """Aggregates over rows with `order_ns`."""

    blocks: tuple[ClockBlock, ...]
    """Of rows that have a position."""
    cleared: int
    """Property set of the fields that some row unsets."""
    has_removes: bool


def with_order(rows: DataFrame) -> DataFrame:
    """Rows with an identity, with `order_ns` computed within their own block."""
    within = Window.partitionBy("id_kind", "id_node", "id_sender", "id_block").orderBy("id_number")
    so_far = within.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    latest = F.max(F.when(_is_stamped(), F.col("time_ns"))).over(so_far)
    order = F.when(has_position(), F.greatest("time_ns", latest)).otherwise(F.col("time_ns"))
    return rows.withColumn("order_ns", order)


def blocks(rows: DataFrame, cleared: Column | None = None) -> OrderSurvey:
    """The blocks of rows with `order_ns`, and aggregates over all rows; runs a Spark job."""
    found = (
        rows.withColumn("is_placed", has_position())
        .groupBy(
            "is_placed",
            F.when(F.col("is_placed"), F.col("node")).alias("node"),
            F.when(F.col("is_placed"), _block_number()).alias("number"),
        )
        .agg(
            F.min("position").alias("position_min"),
            F.max("position").alias("position_max"),
            F.min("order_ns").alias("order_min_ns"),
            F.max(F.when(_is_stamped(), F.col("order_ns"))).alias("stamped_max_ns"),
            (F.lit(0) if cleared is None else cleared).alias("cleared"),
            F.max(F.col("operation") == REMOVE).alias("has_removes"),
        )
        .collect()
    )
    placed = tuple(
        ClockBlock(
            node=row.node,
            number=row.number,
            position_min=row.position_min,
            position_max=row.position_max,
            order_min_ns=row.order_min_ns,
            order_max_ns=_EARLIEST if row.stamped_max_ns is None else row.stamped_max_ns,
        )
        for row in found
        if row.is_placed
    )
    return OrderSurvey(
        blocks=placed,
        cleared=reduce(or_, (row.cleared for row in found), 0),
        has_removes=any(row.has_removes for row in found),
    )


def priors(found: Iterable[ClockBlock], clocks: Mapping[int, Clock]) -> dict[tuple[int, int], int]:
    """By node and block, the latest time before the block, if a row in the block is earlier."""
    late: dict[tuple[int, int], int] = {}
    so_far = {node: clock.order_ns for node, clock in clocks.items()}
    for block in sorted(found, key=lambda block: (block.node, block.number)):
        before = so_far.get(block.node)
        if before is not None and before > block.order_min_ns:
            late[block.node, block.number] = before
        so_far[block.node] = (
            block.order_max_ns if before is None else max(before, block.order_max_ns)
        )
    return late


def with_priors(
    spark: SparkSession, rows: DataFrame, before: Mapping[tuple[int, int], int]
) -> DataFrame:
    """Rows with the correct `order_ns`, given the times before their blocks."""
    table = spark.createDataFrame(
        [(node, number, order_ns) for (node, number), order_ns in before.items()],
        "node bigint, block_number bigint, before_ns bigint",
    )
    latest = F.greatest("order_ns", "before_ns")
    order = F.when(has_position(), latest).otherwise(F.col("order_ns"))
    return (
        rows.withColumn("block_number", _block_number())
        .join(F.broadcast(table), on=["node", "block_number"], how="left")
        .withColumn("order_ns", order)
        .select(*rows.columns)
    )


def advanced(
    clocks: Mapping[int, Clock],
    found: Iterable[ClockBlock],
    *,
    count_max: int = PIPELINE_CLOCK_COUNT_MAX,
) -> dict[int, Clock]:
    """The clocks after these blocks; the latest `count_max` are kept."""
    after = dict(clocks)
    for block in sorted(found, key=lambda block: (block.node, block.number)):
        was = after.get(block.node, Clock(position=0, order_ns=_EARLIEST))
        after[block.node] = Clock(
            position=max(was.position, block.position_max),
            order_ns=max(was.order_ns, block.order_max_ns),
        )
    if len(after) <= count_max:
        return after
    newest = sorted(after, key=lambda node: after[node].order_ns, reverse=True)
    return {node: after[node] for node in newest[:count_max]}


def _block_number() -> Column:
    return F.expr(f"position div {BLOCK_COUNT}")


def _is_stamped() -> Column:
    """Whether the node stamped the time, which it does not for snapshot rows."""
    return F.col("operation") != SNAPSHOT
