"""Rebuilds updates and states when new rows precede known ones.

This happens when a recording is copied from another computer, or when two recorders received
different updates. It has two effects. A time that is higher than those that follow it at its node
changes the `order_ns` of known updates, and their files are rewritten. And the states of the
touched objects change from the first new update of each: they are merged again from the state
before it and all later updates, and the files with the old states are rewritten without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.codec.envelope import SNAPSHOT
from skerry.spark.lake.catalog import OBJECT, FieldColumn
from skerry.spark.lake.data_files import DataFile
from skerry.spark.lake.plans import Clock
from skerry.spark.transforms.dedupe import IDENTITY, has_position, with_identity
from skerry.spark.transforms.merge import merged, steps_of_gone, steps_of_states, steps_of_updates
from skerry.spark.transforms.order import ClockBlock, blocks, priors, with_order, with_priors

if TYPE_CHECKING:
    from skerry.spark.lake.lake import Lake
    from skerry.spark.lake.plans import TypeState


# -- updates


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Known updates whose `order_ns` changes."""

    rows: DataFrame
    """With the new `order_ns` and the old one as `order_before_ns`."""
    files: tuple[str, ...]
    """Paths of the files that have them."""
    row_count: int
    """Number of all rows in those files."""

    def rewritten(self, lake: Lake, state: TypeState) -> DataFrame:
        """All rows of those files, with the new `order_ns`."""
        known = with_identity(lake.rows("updates", state, lambda file: file.path in self.files))
        right = self.rows.select(*IDENTITY, F.col("order_ns").alias("order_now_ns"))
        placed = known.join(right, on=list(IDENTITY), how="left").withColumn(
            "order_ns", F.coalesce("order_now_ns", "order_ns")
        )
        return placed.drop("order_now_ns", *IDENTITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reordered:
    """New rows together with the known rows that follow them, with correct `order_ns`."""

    lake: Lake
    state: TypeState
    rows: DataFrame
    """`order_before_ns` is null for new rows."""
    blocks: tuple[ClockBlock, ...]

    def new_rows(self, rows: DataFrame) -> DataFrame:
        """The rows that are not in the table yet."""
        return rows.where(F.col("order_before_ns").isNull()).drop("order_before_ns", *IDENTITY)

    def moved(self, rows: DataFrame) -> Moved | None:
        """The rows in the table whose `order_ns` changes, or None."""
        moved = rows.where(F.col("order_before_ns") != F.col("order_ns"))
        times = moved.groupBy("hour").agg(
            F.min("order_before_ns").alias("low"), F.max("order_before_ns").alias("high")
        )
        # A row is in the part of its old hour, in any file whose range includes its old time.
        spans = {row.hour: (row.low, row.high) for row in times.collect()}
        if not spans:
            return None

        def may_have_moved(file: DataFile) -> bool:
            hour = file.parts["hour"] or ""
            return hour in spans and file.may_have("order_ns", *spans[hour])

        files = self.lake.table(f"updates/{self.state.table}").files(may_have_moved)
        return Moved(
            rows=moved,
            files=tuple(file.path for file in files),
            row_count=sum(file.rows for file in files),
        )


def reordered(
    lake: Lake, state: TypeState, staged: DataFrame, late: Mapping[int, int]
) -> Reordered:
    """Staged rows with the known rows that follow them; `late` has first positions by node."""
    spark = lake.spark
    first = spark.createDataFrame(list(late.items()), "node bigint, first_position bigint")
    known = lake.rows("updates", state).join(F.broadcast(first), on="node", how="inner")
    is_before = F.col("position") < F.col("first_position")
    before = (
        known.where(has_position() & is_before & (F.col("operation") != SNAPSHOT))
        .groupBy("node")
        .agg(F.max("order_ns").alias("order_ns"))
        .collect()
    )
    clocks = {row.node: Clock(position=late[row.node] - 1, order_ns=row.order_ns) for row in before}
    clocks |= {node: clock for node, clock in state.clocks.items() if node not in late}
    following = known.where(has_position() & ~is_before).withColumn(
        "order_before_ns", F.col("order_ns")
    )
    new = staged.withColumn("order_before_ns", F.lit(None).cast("bigint"))
    both = new.unionByName(following.select(*new.columns))
    rows = with_order(with_identity(both))
    found = blocks(rows).blocks
    late_blocks = priors(found, clocks)
    if late_blocks:
        rows = with_priors(spark, rows, late_blocks)
    return Reordered(lake=lake, state=state, rows=rows, blocks=found)


# -- states


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilding:
    """Rebuilds the states of some objects, each from a certain instant."""

    lake: Lake
    state: TypeState
    fields: Sequence[FieldColumn]
    touched: DataFrame
    """Objects, with the instant `since_ns` from which each is rebuilt."""
    updates: DataFrame
    """All updates of the type that are new or moved."""
    moved: Moved | None
    since_ns: int

    def states(self, touched: DataFrame) -> DataFrame:
        """The rebuilt states, starting with those that are valid at `since_ns`."""
        history = self._joined("history", touched)
        latest = self._joined("latest", touched)
        columns = [*latest.drop("part", "since_ns").columns, "since_ns"]
        known = latest.select(*columns).unionByName(history.select(*columns))
        is_before = F.col("valid_from_ns") < F.col("since_ns")
        is_over = F.coalesce(F.col("valid_to_ns") < F.col("since_ns"), F.lit(False))
        seeds = known.where(is_before & ~is_over)
        ended = (
            known.where(is_before & is_over)
            .groupBy(*OBJECT)
            .agg(F.max("life").alias("life"), F.max("valid_to_ns").alias("removed_ns"))
            .join(seeds.select(*OBJECT), on=list(OBJECT), how="left_anti")
        )
        for name in ("node", "position", "sender", "sequence"):
            ended = ended.withColumn(name, F.lit(0).cast("bigint"))
        steps = [
            steps_of_states(seeds, self.fields),
            steps_of_gone(ended, seeds, self.fields),
            steps_of_updates(self._following(touched), self.fields),
        ]
        return merged(reduce(DataFrame.unionByName, steps), self.fields)

    def history_files(self, touched: DataFrame) -> list[DataFile]:
        """The files of `history` with states that are rebuilt."""
        found = (
            self._joined("history", touched, with_file_path=True)
            .where(F.col("valid_to_ns") >= F.col("since_ns"))
            .select("file_path")
            .distinct()
            .collect()
        )
        paths = {row.file_path for row in found}
        table = self.lake.table(f"history/{self.state.table}")
        return table.files(lambda file: file.path in paths)

    def history_kept(self, touched: DataFrame, files: Sequence[DataFile]) -> DataFrame:
        """The rows of those files that do not change."""
        paths = {file.path for file in files}
        rows = self.lake.rows("history", self.state, lambda file: file.path in paths)
        joined = rows.join(touched, on=list(OBJECT), how="left")
        is_untouched = F.col("since_ns").isNull() | (F.col("valid_to_ns") < F.col("since_ns"))
        return joined.where(is_untouched).drop("since_ns")

    def _joined(self, kind: str, touched: DataFrame, *, with_file_path: bool = False) -> DataFrame:
        rows = self.lake.rows(kind, self.state, with_file_path=with_file_path)
        return rows.join(touched, on=list(OBJECT), how="inner")

    def _following(self, touched: DataFrame) -> DataFrame:
        """New and known updates of the touched objects, from `since_ns` of each."""
        known = self.lake.rows(
            "updates", self.state, lambda file: file.high.get("order_ns", 2**63) >= self.since_ns
        )
        if self.moved is not None:
            # The new rows include all rows of the files with moved updates.
            gone = self.moved.files
            known = self.lake.rows(
                "updates",
                self.state,
                lambda file: (
                    file.path not in gone and file.high.get("order_ns", 2**63) >= self.since_ns
                ),
            )
        rows = known.unionByName(self.updates)
        joined = rows.join(touched, on=list(OBJECT), how="inner")
        return joined.where(F.col("order_ns") >= F.col("since_ns"))


def rebuilding(
    lake: Lake,
    state: TypeState,
    fields: Sequence[FieldColumn],
    updates: DataFrame,
    moved: Moved | None,
) -> Rebuilding:
    """The rebuilding that new and moved updates require."""
    touched = updates.select(*OBJECT, F.col("order_ns").alias("since_ns"))
    if moved is not None:
        before = moved.rows.select(*OBJECT, F.col("order_before_ns").alias("since_ns"))
        touched = touched.unionByName(before)
    touched = touched.groupBy(*OBJECT).agg(F.min("since_ns").alias("since_ns"))
    first = touched.agg(F.min("since_ns").alias("since_ns")).first()
    assert first is not None
    return Rebuilding(
        lake=lake,
        state=state,
        fields=fields,
        touched=touched,
        updates=updates,
        moved=moved,
        since_ns=first.since_ns,
    )


def stale_snapshots(lake: Lake, state: TypeState, since_ns: int) -> tuple[str, ...]:
    """The snapshot files that become wrong if states change from an instant.

    This includes states of objects that are new: a snapshot lacks them.
    """
    table = lake.table(f"snapshots/{state.table}")
    found = table.files(lambda file: int(file.parts["until_ns"] or 0) > since_ns)
    return tuple(file.path for file in found)
