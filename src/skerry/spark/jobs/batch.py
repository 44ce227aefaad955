"""One batch, from segments to tables: the same for all there is and for what just came."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skerry.recording.index import Segment
from skerry.spark.catalog import DIVIDED_BY, table_schema
from skerry.spark.delta import Change
from skerry.spark.jobs.building import stage_derived
from skerry.spark.jobs.damage import damaged_segments
from skerry.spark.jobs.definitions import Content, content_of_segments
from skerry.spark.jobs.typed import Interval, stage_type
from skerry.spark.lake import Lake, Plan, TypeState, delta_schema
from skerry.spark.options import read_options
from skerry.spark.planning import segments
from skerry.spark.schema_text import schema_to_text
from skerry.spark.transforms.dedupe import distinct_rows, unseen_rows, with_identity
from skerry.spark.transforms.raw import raw_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader

__all__ = ["Range", "process_batch"]

_LOG = logging.getLogger(__name__)

Range = tuple[str, int, int]
"""A recording by its id, and lines of its manifest from the first up to the stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    """What a batch reads."""

    lake: Lake
    paths: tuple[str, ...]
    ranges: tuple[Range, ...]
    segments: tuple[tuple[str, Segment], ...]
    """Each with the id of its recording."""

    def typed(self, state: TypeState, numbers: Sequence[int]) -> DataFrame:
        """Rows of some definitions of a type."""
        return (
            self._reader(self.ranges)
            .option("type", state.schema.type_name)
            .option("fingerprints", ",".join(map(str, numbers)))
            .option("definition", schema_to_text(state.schema))
            .load()
        )

    def recorded(self, names: Iterable[str]) -> DataFrame:
        """All rows of some segments, as they were recorded."""
        wanted = set(names)
        ranges = [(i, s.line, s.line + 1) for i, s in self.segments if s.name in wanted]
        return self._reader(tuple(ranges)).load()

    def intervals(self, type_name: str) -> Iterator[Interval]:
        """The times that rows of a type are of."""
        for _, segment in self.segments:
            for batch in segment.batches:
                if type_name in batch.types:
                    yield batch.time_min_ns, batch.time_max_ns

    def _reader(self, ranges: Sequence[Range]) -> DataFrameReader:
        return (
            self.lake.spark.read.format("skerry")
            .option("paths", json.dumps(self.paths))
            .option("range", json.dumps(ranges))
        )


def process_batch(
    lake: Lake, paths: Sequence[str], ranges: Sequence[Range], *, query: str, batch: int
) -> Plan:
    """Bring some lines of the recordings' manifests into the tables, exactly once.

    `query` and `batch` say which batch it is: one that was planned before is not made again, but
    carried out to its end.
    """
    last = lake.last_plan()
    if last.number >= 0:
        lake.carry_out(last)
    if last.query == query and last.batch >= batch:
        return last
    plan = _planned(lake, tuple(paths), tuple(ranges), last, query=query, batch=batch)
    lake.write_plan(plan)
    lake.carry_out(plan)
    for notice in plan.notices:
        _LOG.warning("a type has tables of its own", extra={"detail": notice})
    _LOG.info("batch done", extra={"batch": batch, "rows": plan.row_count})
    return plan


def _planned(
    lake: Lake,
    paths: tuple[str, ...],
    ranges: tuple[Range, ...],
    last: Plan,
    *,
    query: str,
    batch: int,
) -> Plan:
    """Write all files of a batch, and say what has to be done with them."""
    number = last.number + 1
    label = f"b{number:08}"
    options = read_options({"paths": json.dumps(paths), "range": json.dumps(ranges)})
    found = tuple((recording.id, segment) for recording, segment in segments(options))
    source = _Input(lake=lake, paths=paths, ranges=ranges, segments=found)
    content = content_of_segments((segment for _, segment in found), last.types)
    states = dict(content.states)
    changes: dict[str, Change] = {}
    row_count = 0
    for table, numbers in content.used.items():
        state = states[table]
        rows = source.typed(state, numbers)
        intervals = source.intervals(state.schema.type_name)
        staged = stage_type(lake, state, rows, intervals, label=label)
        if staged is not None:
            states[table] = staged.state
            changes |= {change.table: change for change in staged.changes}
            row_count += staged.row_count
    raw = _stage_raw(source, content, label)
    if raw is not None:
        changes["raw"] = raw
        row_count += sum(file.rows for file in raw.added)
    changes |= stage_derived(lake, states, changes, label=label)
    return Plan(
        number=number,
        query=query,
        batch=batch,
        types=states,
        changes=tuple(changes.values()),
        notices=content.notices,
        row_count=row_count,
    )


def _stage_raw(source: _Input, content: Content, label: str) -> Change | None:
    """Gaps, and rows that nobody described."""
    lake = source.lake
    undescribed = {name for name, _ in content.undescribed}
    names = damaged_segments(lake.spark, [segment for _, segment in source.segments])
    for _, segment in source.segments:
        if "" in segment.types or not undescribed.isdisjoint(segment.types):
            names.add(segment.name)
    if not names:
        return None
    types = lake.spark.createDataFrame(list(content.undescribed), "type string, fingerprint bigint")
    rows = distinct_rows(with_identity(raw_rows(source.recorded(names), types)))
    table = lake.table("raw")
    if table.exists():
        rows = unseen_rows(rows, with_identity(table.frame(lake.spark)))
    lake.trace("stage raw")
    columns = table_schema("raw").names
    files = table.stage(rows.select(*columns), DIVIDED_BY["raw"], label=label)
    if not files:
        return None
    return Change(
        table="raw",
        schema=delta_schema(table_schema("raw")),
        divided_by=DIVIDED_BY["raw"],
        added=tuple(files),
    )
