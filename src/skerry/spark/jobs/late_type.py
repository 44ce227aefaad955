"""Merges the rows of one type with Spark jobs, if its rows may precede known ones.

If all new rows follow all known ones, they are merged with the latest states of the objects they
touch, and no older file is read. Otherwise updates and states are rebuilt (`jobs.lateness`). The
result is the same as if all rows had been merged in one batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.spark.jobs.lateness import (
    Moved,
    Rebuilding,
    rebuilding,
    reordered,
    stale_snapshots,
)
from skerry.spark.lake.buckets import bucket_column, hour_column
from skerry.spark.lake.catalog import DIVIDED_BY, OBJECT, ORDER, field_columns, table_schema
from skerry.spark.lake.data_files import DataFile, TableChange
from skerry.spark.lake.delta import read_files
from skerry.spark.lake.lake import Lake, change_of
from skerry.spark.lake.plans import TypeState
from skerry.spark.lake.schema import quoted, schema_to_text, spark_schema
from skerry.spark.merging.duplicates import SKEW_NS
from skerry.spark.source.options import ReadOptions
from skerry.spark.transforms.dedupe import IDENTITY, distinct_rows, unseen_rows, with_identity
from skerry.spark.transforms.merge import (
    CLOSED,
    cleared_tags,
    gone_rows,
    merged,
    open_rows,
    replaced,
    steps_of_gone,
    steps_of_states,
    steps_of_updates,
    with_part,
)
from skerry.spark.transforms.order import (
    OrderSurvey,
    advanced,
    blocks,
    priors,
    with_order,
    with_priors,
)

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType


Interval = tuple[int, int]
"""The first and the last time, both included."""

_WIDENED: Final = ("updates", "history", "latest", "snapshots")


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The changes of a batch to the tables of one type."""

    state: TypeState
    changes: tuple[TableChange, ...]
    row_count: int


def stage_type(
    lake: Lake, state: TypeState, rows: DataFrame, intervals: Iterable[Interval], *, label: str
) -> Staged | None:
    """Write the files for new rows of a type; None if no row is new.

    `rows` are typed rows as recorded, `intervals` the times they may have.
    """
    with ExitStack() as at_end:
        return _TypeBatch(lake, state, label, at_end).stage(rows, list(intervals))


def typed_rows(
    lake: Lake, options: ReadOptions, state: TypeState, fingerprints: Iterable[int]
) -> DataFrame:
    """The rows of some definitions of a type, within the ranges of the options."""
    return (
        lake.spark.read.format("skerry")
        .option("paths", json.dumps(options.paths))
        .option("range", json.dumps(options.ranges))
        .option("type", state.schema.type_name)
        .option("fingerprints", ",".join(map(str, fingerprints)))
        .option("definition", schema_to_text(state.schema))
        .load()
    )


def is_widened(lake: Lake, state: TypeState) -> bool:
    """Whether the schema of the type has widened a column of one of its tables."""
    for kind in _WIDENED:
        schema = lake.table(f"{kind}/{state.table}").schema()
        wanted = table_schema(kind, state.schema)
        if schema is not None and _is_wider(spark_schema(wanted), spark_schema(schema)):
            return True
    return False


class _TypeBatch:
    def __init__(self, lake: Lake, state: TypeState, label: str, at_end: ExitStack) -> None:
        self.lake = lake
        self.state = state
        self.label = label
        self.fields = field_columns(state.schema)
        self.changes: dict[str, TableChange] = {}
        self._at_end = at_end
        self._update_count = 0

    def stage(self, rows: DataFrame, intervals: list[Interval]) -> Staged | None:
        files = self._stage_rows(rows, intervals)
        if not files:
            return None
        survey = blocks(self._staged(files), cleared_tags(self.fields))
        files, moved, survey = self._in_order(files, survey)
        self._change("updates", files, () if moved is None else moved.files)
        clocks = advanced(self.state.clocks, survey.blocks)
        self.state = replace(self.state, clocks=clocks)
        self._update_count = sum(file.rows for file in files)
        if self.state.is_cached:
            self._stage_states(self._staged(files), survey, moved)
            # A row that is not late for its object may still be late for a snapshot.
            self._drop_snapshots(min(file.low["order_ns"] for file in files))
        self._widen()
        new = self._update_count
        new -= 0 if moved is None else moved.row_count
        return Staged(state=self.state, changes=tuple(self.changes.values()), row_count=new)

    # -- updates

    def _stage_rows(self, rows: DataFrame, intervals: list[Interval]) -> list[DataFile]:
        """Stage each new row once, in an order that considers only this batch."""
        new = distinct_rows(with_identity(self._named(rows)))
        known = self._known(intervals)
        if known is not None:
            new = unseen_rows(new, known)
        return self._stage_updates(with_order(new))

    def _named(self, rows: DataFrame) -> DataFrame:
        """Typed rows with the column names of the table."""
        names = {field.source: field.name for field in self.fields}
        return rows.selectExpr(
            *(f"{quoted(name)} as {quoted(names.get(name, name))}" for name in rows.columns)
        )

    def _known(self, intervals: list[Interval]) -> DataFrame | None:
        """The identities of rows in the table that this batch may repeat."""
        spans = [(low - SKEW_NS, high + SKEW_NS) for low, high in intervals]

        def may_be_known(file: DataFile) -> bool:
            return any(file.may_have("time_ns", low, high) for low, high in spans)

        table = self.lake.table(f"updates/{self.state.table}")
        if not table.files(may_be_known):
            return None
        rows = self.lake.rows("updates", self.state, may_be_known)
        return with_identity(rows).select(*IDENTITY)

    def _stage_updates(self, rows: DataFrame) -> list[DataFile]:
        parts = rows.withColumn("hour", hour_column(F.col("order_ns")))
        ordered = parts.sortWithinPartitions("hour", *ORDER)
        return self.lake.stage("updates", self.state, ordered, label=self.label)

    def _staged(self, files: list[DataFile]) -> DataFrame:
        schema = table_schema("updates", self.state.schema)
        name = f"updates/{self.state.table}"
        return read_files(
            self.lake.spark, self.lake.store, name, files, schema, DIVIDED_BY["updates"]
        )

    def _in_order(
        self, files: list[DataFile], survey: OrderSurvey
    ) -> tuple[list[DataFile], Moved | None, OrderSurvey]:
        """The files with `order_ns` computed from all rows, including those in the table."""
        clocks = self.state.clocks
        late = {
            block.node: min(b.position_min for b in survey.blocks if b.node == block.node)
            for block in survey.blocks
            if block.node in clocks and block.position_min <= clocks[block.node].position
        }
        if late:
            return self._reordered(files, survey, late)
        before = priors(survey.blocks, clocks)
        if not before:
            return files, None, survey
        corrected = with_priors(self.lake.spark, self._staged(files), before)
        return self._restaged(files, corrected), None, survey

    def _reordered(
        self, files: list[DataFile], survey: OrderSurvey, late: dict[int, int]
    ) -> tuple[list[DataFile], Moved | None, OrderSurvey]:
        result = reordered(self.lake, self.state, self._staged(files), late)
        rows = self._keep(result.rows)
        moved = result.moved(rows)
        new = result.new_rows(rows)
        if moved is not None:
            new = new.unionByName(moved.rewritten(self.lake, self.state))
        after = self._restaged(files, new)
        return after, moved, replace(survey, blocks=(*survey.blocks, *result.blocks))

    def _restaged(self, files: list[DataFile], rows: DataFrame) -> list[DataFile]:
        after = self._stage_updates(rows)
        for folder in {file.path.partition("/")[0] for file in files}:
            # Deleted at the end: frames that are not computed yet may read these files.
            name = f"updates/{self.state.table}/{folder}"
            self._at_end.callback(self.lake.store.delete_folder, name)
        return after

    # -- states

    def _stage_states(self, updates: DataFrame, survey: OrderSurvey, moved: Moved | None) -> None:
        touched = updates.groupBy(*OBJECT).agg(F.min(F.struct(*ORDER)).alias("first"))
        if moved is not None or self._is_late(touched):
            late = rebuilding(self.lake, self.state, self.fields, updates, moved)
            self._stage_rebuilt(late)
            return
        steps = [steps_of_updates(updates, self.fields)]
        if self._has("latest"):
            latest = self.lake.rows("latest", self.state)
            steps.append(steps_of_states(_of(latest, touched), self.fields))
        if self._has("gone"):
            gone = self.lake.rows("gone", self.state)
            steps.append(steps_of_gone(_of(gone, touched), updates, self.fields))
        found = merged(reduce(DataFrame.unionByName, steps), self.fields, cleared=survey.cleared)
        self._stage_merged(self._keep(found), touched, has_removes=survey.has_removes)

    def _has(self, kind: str) -> bool:
        """Whether a table of the type has any rows."""
        return bool(self.lake.table(f"{kind}/{self.state.table}").files())

    def _is_late(self, touched: DataFrame) -> bool:
        """Whether a new update precedes a known change of its object."""
        known = [
            _last(self.lake.rows(kind, self.state), time)
            for kind, time in (("latest", "valid_from_ns"), ("gone", "removed_ns"))
            if self._has(kind)
        ]
        if not known:
            return False
        later = touched.join(
            reduce(DataFrame.unionByName, known), on=list(OBJECT), how="inner"
        ).where(F.col("first") <= F.col("last"))
        return bool(later.take(1))

    def _stage_rebuilt(self, late: Rebuilding) -> None:
        touched = self._keep(late.touched)
        states = self._keep(late.states(touched))
        files = late.history_files(touched)
        self._stage_merged(states, touched, late.history_kept(touched, files))
        self._change("history", [], tuple(file.path for file in files))
        self._drop_snapshots(late.since_ns)

    def _drop_snapshots(self, since_ns: int) -> None:
        was = self.changes.get("snapshots")
        dropped = () if was is None else was.removed
        stale = stale_snapshots(self.lake, self.state, since_ns)
        self._change("snapshots", [], tuple(path for path in stale if path not in dropped))

    def _stage_merged(
        self,
        states: DataFrame,
        touched: DataFrame,
        kept: DataFrame | None = None,
        *,
        has_removes: bool = True,
    ) -> None:
        history = states.where(F.col("standing") == CLOSED).drop("standing")
        if kept is not None:
            history = history.unionByName(kept.select(*history.columns))
        bucket = bucket_column(F.col("valid_from_ns"), self.lake.config.bucket_ns)
        rows = history.withColumn("bucket", bucket)
        ordered = rows.sortWithinPartitions("bucket", *OBJECT, "valid_from_ns", "position")
        self._change("history", self._stage("history", ordered))
        parts = self._parts(touched, states)
        self._replace("latest", parts, touched, open_rows(states))
        if has_removes or self._has("gone"):
            self._replace("gone", parts, touched, gone_rows(states))

    def _parts(self, touched: DataFrame, states: DataFrame) -> set[int] | None:
        """The parts to rewrite; None for all, if the number of parts grows."""
        files = self.lake.table(f"latest/{self.state.table}").files()
        objects = sum(file.rows for file in files)
        count, part_rows = self.state.part_count, self.lake.config.part_rows
        if objects + self._update_count > count * part_rows:
            objects += open_rows(states).count()
        while count * part_rows < objects:
            count *= 2
        if count != self.state.part_count:
            self.state = replace(self.state, part_count=count)
            return None
        if count == 1:
            return {0}
        found = with_part(touched.select(*OBJECT), count).select("part").distinct().collect()
        return {row.part for row in found}

    def _replace(
        self, kind: str, parts: set[int] | None, touched: DataFrame, new: DataFrame
    ) -> None:
        table = self.lake.table(f"{kind}/{self.state.table}")

        def is_rewritten(file: DataFile) -> bool:
            return parts is None or int(file.parts["part"] or 0) in parts

        files = table.files(is_rewritten)
        if files:
            rows = self.lake.rows(kind, self.state, is_rewritten)
            new = replaced(rows, touched, new)
        placed = with_part(new, self.state.part_count).sortWithinPartitions("part", *OBJECT)
        self._change(kind, self._stage(kind, placed), tuple(file.path for file in files))

    # -- all tables

    def _keep(self, frame: DataFrame) -> DataFrame:
        """Cache a frame that is used several times."""
        frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._at_end.callback(frame.unpersist)
        return frame

    def _stage(self, kind: str, rows: DataFrame) -> list[DataFile]:
        return self.lake.stage(kind, self.state, rows, label=self.label)

    def _change(self, kind: str, added: list[DataFile], removed: tuple[str, ...] = ()) -> None:
        was = self.changes.get(kind)
        if was is not None:
            added, removed = [*was.added, *added], (*was.removed, *removed)
        if added or removed:
            self.changes[kind] = change_of(kind, self.state, added, removed)

    def _widen(self) -> None:
        """Rewrite the tables of which a column was widened."""
        for kind in _WIDENED:
            table = self.lake.table(f"{kind}/{self.state.table}")
            wanted = table_schema(kind, self.state.schema)
            schema = table.schema()
            if schema is None or not _is_wider(spark_schema(wanted), spark_schema(schema)):
                continue
            removed = set(self.changes[kind].removed) if kind in self.changes else set()
            rest = _not_among(removed)
            added = []
            if table.files(rest):
                added = self._stage(kind, self.lake.rows(kind, self.state, rest))
            self._change(kind, added)
            self.changes[kind] = replace(self.changes[kind], removed=(), is_replacing=True)


def _not_among(paths: set[str]) -> Callable[[DataFile], bool]:
    return lambda file: file.path not in paths


def _is_wider(wanted: StructType, known: StructType) -> bool:
    """Whether an existing column has another type now."""
    kinds = {field.name: field.dataType.simpleString() for field in known}
    wide = ((field.name, field.dataType.simpleString()) for field in wanted)
    return any(kinds.get(name, kind) != kind for name, kind in wide)


def _of(rows: DataFrame, touched: DataFrame) -> DataFrame:
    return rows.join(touched.select(*OBJECT), on=list(OBJECT), how="left_semi")


def _last(rows: DataFrame, time: str) -> DataFrame:
    order: list[Column] = [F.col(time).alias("order_ns"), *(F.col(name) for name in ORDER[1:])]
    return rows.select(*OBJECT, F.struct(*order).alias("last"))
