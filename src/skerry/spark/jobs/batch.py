"""One batch, from segments to committed tables; used by `run` and `follow` alike.

A batch reads its segments in one pass for all types together. A survey of a few columns decides
what the tasks have to do (`merging.duplicates`); then each row is read, assigned to the slot of its
object, merged and written (`merging.runners`). The driver handles only counts and names of files.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa

from skerry.recording.index import Segment
from skerry.runtime.recordings.reader import Recording
from skerry.spark.jobs.definitions import TypeContent, content_of_segments
from skerry.spark.lake.buckets import HOUR_NS, hour_text
from skerry.spark.lake.catalog import DIVIDED_BY, table_schema
from skerry.spark.lake.data_files import DataFile, TableChange
from skerry.spark.lake.lake import Lake, change_of
from skerry.spark.lake.plans import Plan, TypeState
from skerry.spark.lake.schema import spark_schema
from skerry.spark.merging.duplicates import (
    SKEW_NS,
    KnownCounters,
    RowDecisions,
    advanced_clocks,
    advanced_marks,
    decide_rows,
    groups_to_check,
)
from skerry.spark.merging.files import read_rows, write_file
from skerry.spark.merging.identity import BY_CONTENT, BY_MULTICAST, BY_POSITION, BY_SENDER
from skerry.spark.merging.runners import InProcess, SparkTasks
from skerry.spark.merging.survey import LATEST, RAW, Survey, TableAssignment, TableTally
from skerry.spark.merging.work import SLOT_BYTES, SlotResult, TableWork, Work, slot_count_for
from skerry.spark.source.options import ReadOptions, read_options
from skerry.spark.source.planning import Run, Wanted, dropped, pack, runs, segments
from skerry.spark.startup.session import is_in_this_process

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_LOG = logging.getLogger(__name__)

Range = tuple[str, int, int]
"""A recording id with the first and the stop line of its manifest."""

_HERE_BYTES_MAX: Final = 24 * 1024 * 1024
"""Up to this size the driver itself is faster than Spark tasks."""
_TASK_BYTES: Final = 16 * 1024 * 1024
_SLOT_COUNT_MAX: Final = 256
_FILE_FACTOR: Final = 4
"""Recorded bytes for each byte of a compressed file."""
_WIDENED: Final = ("updates", "history", "latest", "snapshots")
_COUNTED: Final = (BY_MULTICAST, BY_SENDER, BY_CONTENT)


def process_batch(lake: Lake, paths: Sequence[str], ranges: Sequence[Range]) -> Plan:
    """Merge some manifest lines of recordings into the tables, exactly once.

    Lines that an earlier plan includes are skipped.
    """
    with lake.batch():
        last = lake.last_plan()
        if last.number >= 0:
            lake.commit_plan(last)
        left = [
            (name, max(first, last.offsets.get(name, 0)), stop)
            for name, first, stop in ranges
            if stop > last.offsets.get(name, 0)
        ]
        if not left:
            return last
        options = read_options({"paths": json.dumps(paths), "range": json.dumps(left)})
        batch = _Batch(lake, last, options)
        try:
            plan = batch.planned()
        except BaseException:
            batch.discard()
            raise
        offsets = {**last.offsets, **{name: stop for name, _, stop in left}}
        notices = (*plan.notices, *dropped(options))
        plan = replace(plan, offsets=offsets, notices=notices)
        lake.write_plan(plan)
        lake.commit_plan(plan)
    for notice in plan.notices:
        # The user sees notices in the progress of the job.
        _LOG.info("notice", extra={"detail": notice})
    _LOG.info("batch done", extra={"batch": plan.number, "rows": plan.row_count})
    return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class _TargetTable:
    number: int
    state: TypeState | None
    """None for `raw`."""
    tally: TableTally
    known: KnownCounters

    @property
    def updates(self) -> str:
        return "raw" if self.state is None else f"updates/{self.state.table}"


class _Batch:
    def __init__(self, lake: Lake, last: Plan, options: ReadOptions) -> None:
        self.lake = lake
        self.last = last
        self.options = options
        self.segments: list[tuple[Recording, Segment]] = list(segments(options))
        self.folder = f"b{last.number + 1:08}-{uuid4().hex[:12]}"
        self.content = content_of_segments((segment for _, segment in self.segments), last.types)
        self.tables = {table: number for number, table in enumerate(self.content.used, RAW + 1)}
        self.tasks: list[tuple[Run, ...]] = pack(runs(self.segments, Wanted()), _TASK_BYTES)
        self.assignment = _assignment(self.content, self.tables)
        self.runner = self._runner(0)
        self.changes: dict[str, TableChange] = {}
        self.states = dict(self.content.states)

    def _runner(self, more_bytes: int) -> InProcess | SparkTasks:
        """The runner for the rows of the batch and this many bytes of known ones."""
        size = more_bytes + sum(segment.byte_count for _, segment in self.segments)
        master = self.lake.spark.sparkContext.master or ""
        is_little = size <= min(_HERE_BYTES_MAX, self.lake.config.here_bytes)
        return (
            InProcess() if is_little and is_in_this_process(master) else SparkTasks(self.lake.spark)
        )

    def planned(self) -> Plan:
        """Write all files of the batch and return the plan to commit them."""
        self.lake.trace("survey")
        survey = self.runner.survey(self.tasks, self.assignment)
        targets = self._targets(survey)
        decisions = self._decided(targets)
        results = self._merged(targets, decisions)
        # Whether a row precedes a known state of its object is found by merging.
        late = {result.table for result in results if result.is_late}
        if late:
            self._discard_files(result for result in results if result.table in late)
            decisions |= {number: replace(decisions[number], is_late=True) for number in late}
            again = self._merged([t for t in targets if t.number in late], decisions)
            results = [result for result in results if result.table not in late] + again
        rows = 0
        for target in targets:
            own = [result for result in results if result.table == target.number]
            rows += self._stage(target, own, decisions[target.number])
        raw = next((target.tally for target in targets if target.number == RAW), None)
        kinds = (BY_POSITION, *_COUNTED)
        marks = self.last.raw_marks
        damaged = tuple(sorted(survey.damaged))
        damage_notices = [
            f"segment {name} is damaged; the table raw has a gap row for the missing updates"
            for name in damaged
        ]
        return Plan(
            number=self.last.number + 1,
            types=self.states,
            changes=tuple(self.changes.values()),
            notices=(*self.content.notices, *damage_notices),
            row_count=rows,
            read_count=sum(segment.rows for _, segment in self.segments),
            damaged=damaged,
            raw_marks=marks if raw is None else advanced_marks(marks, raw, kinds=kinds),
            stale_hours=self._stale_hours(),
        )

    # -- the work

    def _targets(self, survey: Survey) -> list[_TargetTable]:
        states = {number: self.states[table] for table, number in self.tables.items()}
        return [
            _TargetTable(
                number=number,
                state=states.get(number),
                tally=tally,
                known=_known(states.get(number), self.last),
            )
            for number, tally in sorted(survey.tables.items())
        ]

    def _decided(self, targets: Iterable[_TargetTable]) -> dict[int, RowDecisions]:
        files = {target.number: self.lake.table(target.updates).files() for target in targets}
        wanted = {}
        for target in targets:
            groups = groups_to_check(target.tally, target.known, _rows_at(files[target.number]))
            if target.number != RAW and groups:
                wanted[target.number] = frozenset(groups)
        found = self.runner.details(self.tasks, self.assignment, wanted) if wanted else {}
        decisions = {}
        for target in targets:
            decisions[target.number] = decide_rows(
                target.tally,
                target.known,
                {
                    group: detail
                    for (table, group), detail in found.items()
                    if table == target.number
                },
                files[target.number],
                self.lake.store,
                target.updates,
            )
        return decisions

    def _merged(
        self, targets: Iterable[_TargetTable], decisions: Mapping[int, RowDecisions]
    ) -> list[SlotResult]:
        self.lake.trace("merge")
        work = self._work(targets, decisions)
        more_bytes = sum(_known_bytes(table) for table in work.tables.values())
        return self._runner(more_bytes).merge(work) if work.tables else []

    def _work(self, targets: Iterable[_TargetTable], decisions: Mapping[int, RowDecisions]) -> Work:
        tables: dict[int, TableWork] = {}
        sizes: dict[int, int] = {}
        first = 0
        for target in targets:
            table = self._table_work(target, decisions[target.number], first)
            tables[target.number] = table
            for slot in range(first, first + table.slot_count):
                size = target.tally.bytes + _known_bytes(table)
                sizes[slot] = size // table.slot_count
            first += table.slot_count
        return Work(
            root=self.lake.store.root,
            folder=self.folder,
            bucket_ns=self.lake.config.bucket_ns,
            assignment=self.assignment,
            tables=tables,
            tasks=self.tasks,
            partitions=_partitions(sizes),
        )

    def _table_work(self, target: _TargetTable, decisions: RowDecisions, first: int) -> TableWork:
        if target.state is None:
            table = TableWork(name="raw", known=self._known_raw(target), decisions=decisions)
            slots = min(_SLOT_COUNT_MAX, slot_count_for(target.tally.bytes))
            return replace(table, first_slot=first, slot_count=slots)
        state = target.state
        updates, history = self._late_files(state, decisions) if decisions.is_late else ((), ())
        table = TableWork(name=state.table, decisions=decisions, updates=updates, history=history)
        slots = slot_count_for(target.tally.bytes + _known_bytes(table))
        slots = min(_SLOT_COUNT_MAX, slots)
        latest, gone = (self.lake.table(f"{k}/{state.table}").files() for k in ("latest", "gone"))
        count = 1
        if state.is_cached:
            count = max(state.part_count, slots)
            while count * self.lake.config.part_rows < sum(file.rows for file in latest):
                count *= 2
            # A slot loads its parts into memory.
            slots = max(slots, count // 2)
            self.states[state.table] = replace(state, part_count=count)
        return replace(
            table,
            schema=state.schema,
            is_cached=state.is_cached,
            first_slot=first,
            slot_count=slots,
            part_count=count,
            part_count_before=state.part_count,
            latest=tuple(latest),
            gone=tuple(gone),
        )

    def _late_files(
        self, state: TypeState, decisions: RowDecisions
    ) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        """The files with updates and with states that late rows may affect."""
        since_ns = decisions.since_ns
        updates, history = (
            self.lake.table(f"{kind}/{state.table}").files(
                lambda file, time=time: file.may_have(time, since_ns, LATEST)  # type: ignore[misc]
            )
            for kind, time in (("updates", "order_ns"), ("history", "valid_to_ns"))
        )
        return tuple(updates), tuple(history)

    def _known_raw(self, target: _TargetTable) -> tuple[DataFile, ...]:
        """The files of `raw` that may have rows of this batch."""
        files = self.lake.table("raw").files()
        groups = groups_to_check(target.tally, target.known, _rows_at(files))
        tallies = [target.tally.groups[group] for group in groups]
        if not tallies:
            return ()
        low = min(tally.time_min_ns for tally in tallies) - SKEW_NS
        high = max(tally.time_max_ns for tally in tallies) + SKEW_NS
        return tuple(file for file in files if file.may_have("time_ns", low, high))

    # -- the changes

    def _stage(
        self, target: _TargetTable, results: Iterable[SlotResult], decisions: RowDecisions
    ) -> int:
        """Add the files of the tasks to the plan; returns the number of new rows."""
        added: dict[str, list[DataFile]] = defaultdict(list)
        removed: dict[str, dict[str, None]] = defaultdict(dict)
        rows = 0
        for result in results:
            rows += result.rows
            for kind, file in result.added:
                added[kind].append(file)
            for kind, path in result.removed:
                removed[kind][path] = None
        for kind in dict.fromkeys((*added, *removed)):
            change = change_of(kind, target.state, added[kind], removed[kind])
            self.changes[change.table] = change
        if target.state is None:
            return rows
        state = self.states[target.state.table]
        if state.is_cached and added["updates"]:
            # A row that is not late for its object may still be late for a snapshot.
            stale = stale_snapshots(self.lake, state, decisions.since_ns)
            if stale:
                self.changes[f"snapshots/{state.table}"] = change_of("snapshots", state, (), stale)
        self._widen(state)
        self.states[state.table] = replace(
            state,
            clocks=advanced_clocks(state.clocks, target.tally),
            marks=advanced_marks(target.known.marks, target.tally, kinds=_COUNTED),
        )
        return rows

    def _widen(self, state: TypeState) -> None:
        """Write the tables again in which a column has another type now."""
        store = self.lake.store
        for kind in _WIDENED:
            name, wanted = f"{kind}/{state.table}", table_schema(kind, state.schema)
            contents = self.lake.table(name).contents()
            if contents is None or not _is_wider(
                spark_schema(wanted), spark_schema(contents.schema)
            ):
                continue
            change = self.changes.get(name) or change_of(kind, state)
            inside = pa.schema([field for field in wanted if field.name not in DIVIDED_BY[kind]])
            added = [
                write_file(
                    store, name, self.folder, read_rows(store, name, file, inside), file.parts
                )
                for file in contents.files
                if file.path not in change.removed
            ]
            self.changes[name] = replace(
                change, added=(*change.added, *added), removed=(), is_replacing=True
            )

    def _stale_hours(self) -> tuple[str, ...]:
        """The hours for which derived tables have to be built again."""
        hours = set(self.last.stale_hours)
        for name, change in self.changes.items():
            if name.startswith("updates/"):
                gone = set(change.removed)
                old = self.lake.table(name).files(_is_gone(change.is_replacing, gone))
                hours |= {file.parts["hour"] or "" for file in (*change.added, *old)}
            elif name == "raw":
                for file in change.added:
                    first = file.low["order_ns"] // HOUR_NS
                    last = file.high["order_ns"] // HOUR_NS
                    hours |= {hour_text(n * HOUR_NS) for n in range(first, last + 1)}
        return tuple(sorted(hours))

    # -- failures

    def discard(self) -> None:
        """Delete the files of a failed batch; files that cannot be deleted are left to `vacuum`."""
        for table in self.tables:
            for kind in ("gone", *_WIDENED):
                self._delete(f"{kind}/{table}/{self.folder}")
        self._delete(f"raw/{self.folder}")

    def _delete(self, name: str) -> None:
        try:
            self.lake.store.delete_folder(name)
        except OSError as error:
            _LOG.warning("cannot delete files of a failed batch", extra={"detail": str(error)})

    def _discard_files(self, results: Iterable[SlotResult]) -> None:
        for result in results:
            table = next(name for name, own in self.tables.items() if own == result.table)
            for kind, file in result.added:
                self.lake.store.delete(f"{kind}/{table}/{file.path}")


def _is_gone(is_replacing: bool, paths: set[str]) -> Callable[[DataFile], bool]:
    return lambda file: is_replacing or file.path in paths


def _assignment(content: TypeContent, tables: Mapping[str, int]) -> TableAssignment:
    return TableAssignment(
        numbers={
            (content.states[table].schema.type_name, fingerprint): tables[table]
            for table, fingerprints in content.used.items()
            for fingerprint in fingerprints
        }
    )


def _known(state: TypeState | None, last: Plan) -> KnownCounters:
    if state is None:
        return KnownCounters(clocks={}, marks=last.raw_marks, is_by_mark=True)
    return KnownCounters(clocks=state.clocks, marks=state.marks)


def _rows_at(files: Sequence[DataFile]) -> Callable[[int, int], bool]:
    return lambda low, high: any(file.may_have("time_ns", low, high) for file in files)


def stale_snapshots(lake: Lake, state: TypeState, since_ns: int) -> tuple[str, ...]:
    """The snapshot files that become wrong if states change from an instant.

    This includes states of objects that are new: a snapshot lacks them.
    """
    table = lake.table(f"snapshots/{state.table}")
    found = table.files(lambda file: int(file.parts["until_ns"] or 0) > since_ns)
    return tuple(file.path for file in found)


def _is_wider(wanted: StructType, known: StructType) -> bool:
    """Whether an existing column has another type now."""
    kinds = {field.name: field.dataType.simpleString() for field in known}
    wide = ((field.name, field.dataType.simpleString()) for field in wanted)
    return any(kinds.get(name, kind) != kind for name, kind in wide)


def _known_bytes(table: TableWork) -> int:
    """The approximate recorded bytes of the known rows that are merged again."""
    return _FILE_FACTOR * sum(file.byte_count for file in (*table.updates, *table.history))


def _partitions(sizes: Mapping[int, int]) -> dict[int, int]:
    """The writing task of each slot; small slots share a task."""
    placed: dict[int, int] = {}
    partition = size = 0
    for slot, own in sorted(sizes.items(), key=lambda item: item[1], reverse=True):
        if size and size + own > SLOT_BYTES:
            partition, size = partition + 1, 0
        placed[slot] = partition
        size += own
    return placed
