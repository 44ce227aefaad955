"""Snapshots: the objects at a few instants, so that queries about the past read little.

A snapshot has the states at its instant (`edge_ns`). Their ends are correct for instants up to
`until_ns`, how far the table reached when the snapshot was made. A query about an instant between
the two reads the snapshot and the states that began after `edge_ns`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.spark.transforms.asof import is_live_at


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
