"""The objects at a few instants, so that a question about long ago reads little.

A snapshot holds the states at its edge, each with its end as far as that is known when it is made:
so far as its table had come then (`until_ns`), the end is right. An instant in between is answered
by the snapshot, by the states that began since its edge, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.spark.transforms.asof import is_live_at

__all__ = ["edges", "snapshot_at"]


def snapshot_at(states: DataFrame, edge_ns: int, until_ns: int) -> DataFrame:
    """The states that hold at the edge."""
    return (
        states.where(is_live_at(edge_ns))
        .withColumn("edge_ns", F.lit(edge_ns).cast("bigint"))
        .withColumn("until_ns", F.lit(until_ns).cast("bigint"))
    )


def edges(
    row_counts: Mapping[int, int], *, rows_min: int, after_ns: int | None, until_ns: int
) -> list[tuple[int, int]]:
    """Edges worth a snapshot, each with the next: so far apart that many states begin in between.

    `row_counts` has the states that begin in each bucket, by its start; all edges lie after
    `after_ns`, where the last one was, and nothing at or after `until_ns` counts.
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
