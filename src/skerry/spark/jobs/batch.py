"""One batch, from segments to tables: the same for all there is and for what just came."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from skerry.recording.index import Segment
from skerry.runtime.recordings.reader import Recording
from skerry.spark.catalog import DIVIDED_BY, table_schema
from skerry.spark.delta import Change
from skerry.spark.few import AT_ONCE, FEW_BYTES, few_rows, in_one_task, side_by_side
from skerry.spark.jobs.building import stage_derived
from skerry.spark.jobs.damage import damaged_segments
from skerry.spark.jobs.definitions import Content, content_of_segments
from skerry.spark.jobs.typed import Interval, Staged, stage_type
from skerry.spark.lake import Lake, Plan, TypeState, delta_schema
from skerry.spark.options import read_options
from skerry.spark.planning import dropped, runs, segments
from skerry.spark.reading import read_here
from skerry.spark.schema import no_rows, spark_schema
from skerry.spark.schema_text import schema_to_text
from skerry.spark.session import is_in_this_process
from skerry.spark.source import shape_of
from skerry.spark.transforms.dedupe import distinct_rows, unseen_rows, with_identity
from skerry.spark.transforms.raw import raw_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    segments: tuple[tuple[Recording, Segment], ...]
    """Each with its recording."""

    @property
    def row_count(self) -> int:
        return sum(segment.rows for _, segment in self.segments)

    @property
    def is_few(self) -> bool:
        """Whether the batch is computed in the way that suits few rows."""
        size = sum(segment.byte_count for _, segment in self.segments)
        return self.is_read_here and size <= FEW_BYTES and self.lake.has_few(self.row_count)

    @property
    def is_read_here(self) -> bool:
        """Whether the driver reads the recordings itself; on a cluster the executors do."""
        master = self.lake.spark.sparkContext.master or ""
        return is_in_this_process(master) and self.row_count <= self.lake.config.few_rows

    def typed(self, state: TypeState, numbers: Sequence[int]) -> DataFrame:
        """Rows of some definitions of a type."""
        return self._rows(
            self.ranges,
            type=state.schema.type_name,
            fingerprints=",".join(map(str, numbers)),
            definition=schema_to_text(state.schema),
        )

    def recorded(self, names: Iterable[str], types: Iterable[str]) -> DataFrame:
        """Rows of some segments, as they were recorded: at least all of these types, and gaps."""
        wanted = set(names)
        chosen = [(r, s) for r, s in self.segments if s.name in wanted]
        return self._rows([(r.id, s.line, s.line + 1) for r, s in chosen], gaps_and=tuple(types))

    def intervals(self, type_name: str) -> Iterator[Interval]:
        """The times that rows of a type are of."""
        for _, segment in self.segments:
            for batch in segment.batches:
                if type_name in batch.types:
                    yield batch.time_min_ns, batch.time_max_ns

    def _rows(
        self, ranges: Sequence[Range], *, gaps_and: Sequence[str] | None = None, **options: str
    ) -> DataFrame:
        options |= {"paths": json.dumps(self.paths), "range": json.dumps(ranges)}
        spark = self.lake.spark
        if self.is_read_here:
            shape = shape_of(read_options(options))
            lines = {(name, line) for name, first, stop in ranges for line in range(first, stop)}
            found = ((r, s) for r, s in self.segments if (r.id, s.line) in lines)
            table = read_here(runs(found, shape.wanted), shape, gaps_and=gaps_and)
            if table is not None and not table.num_rows:
                # All of it was damaged. Spark cannot make a frame of times without any.
                return no_rows(spark, spark_schema(shape.schema))
            if table is not None:
                return in_one_task(spark.createDataFrame(table, spark_schema(shape.schema)))
        return spark.read.format("skerry").options(**options).load()


def process_batch(
    lake: Lake, paths: Sequence[str], ranges: Sequence[Range], *, query: str, batch: int
) -> Plan:
    """Bring some lines of the recordings' manifests into the tables, exactly once.

    `query` and `batch` say which batch it is: one that was planned before is not made again, but
    carried out to its end.
    """
    with lake.batch():
        last = lake.last_plan()
        if last.number >= 0:
            lake.carry_out(last)
        if last.query == query and last.batch >= batch:
            return last
        return _processed(lake, last, paths, ranges, query=query, batch=batch)


def _processed(
    lake: Lake,
    last: Plan,
    paths: Sequence[str],
    ranges: Sequence[Range],
    *,
    query: str,
    batch: int,
) -> Plan:
    options = read_options({"paths": json.dumps(paths), "range": json.dumps(ranges)})
    source = _Input(
        lake=lake, paths=tuple(paths), ranges=tuple(ranges), segments=tuple(segments(options))
    )
    is_few = source.is_few
    with few_rows(lake.spark) if is_few else nullcontext():
        plan = _planned(source, last, at_once=AT_ONCE if is_few else 1)
    notices = (*plan.notices, *dropped(options))
    plan = replace(plan, query=query, batch=batch, notices=notices)
    lake.write_plan(plan)
    lake.carry_out(plan)
    for notice in plan.notices:
        # Whoever runs the job is told by its progress.
        _LOG.info("notice", extra={"detail": notice})
    _LOG.info("batch done", extra={"batch": batch, "rows": plan.row_count})
    return plan


def _planned(source: _Input, last: Plan, *, at_once: int) -> Plan:
    """Write all files of a batch, and say what has to be done with them."""
    lake = source.lake
    number = last.number + 1
    label = f"b{number:08}"
    content = content_of_segments((segment for _, segment in source.segments), last.types)
    states = dict(content.states)
    jobs = [partial(_stage_type, source, states[t], n, label) for t, n in content.used.items()]
    changes: dict[str, Change] = {}
    row_count = 0
    for staged in side_by_side(jobs, at_once):
        if staged is not None:
            states[staged.state.table] = staged.state
            changes |= {change.table: change for change in staged.changes}
            row_count += staged.row_count
    damaged = damaged_segments(lake.spark, [segment for _, segment in source.segments])
    raw = _stage_raw(source, content, label, damaged)
    if raw is not None:
        changes["raw"] = raw
        row_count += sum(file.rows for file in raw.added)
    changes |= stage_derived(lake, states, changes, label=label, at_once=at_once)
    return Plan(
        number=number,
        types=states,
        changes=tuple(changes.values()),
        notices=(*content.notices, *map(_damage_notice, sorted(damaged))),
        row_count=row_count,
        damaged=tuple(sorted(damaged)),
    )


def _damage_notice(name: str) -> str:
    return f"segment {name} is damaged; what is missing is a gap in the table raw"


def _stage_type(
    source: _Input, state: TypeState, numbers: Sequence[int], label: str
) -> Staged | None:
    rows = source.typed(state, numbers)
    intervals = source.intervals(state.schema.type_name)
    return stage_type(source.lake, state, rows, intervals, label=label)


def _stage_raw(
    source: _Input, content: Content, label: str, damaged: Iterable[str]
) -> Change | None:
    """Gaps, and rows that nobody described."""
    lake = source.lake
    undescribed = {name for name, _ in content.undescribed}
    names = set(damaged)
    for _, segment in source.segments:
        if "" in segment.types or not undescribed.isdisjoint(segment.types):
            names.add(segment.name)
    if not names:
        return None
    types = lake.spark.createDataFrame(list(content.undescribed), "type string, fingerprint bigint")
    rows = distinct_rows(with_identity(raw_rows(source.recorded(names, undescribed), types)))
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
