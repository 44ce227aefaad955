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
from typing import Final
from uuid import uuid4

from skerry.recording.index import Segment
from skerry.runtime.recordings.reader import Recording
from skerry.spark.jobs.definitions import TypeContent, content_of_segments
from skerry.spark.jobs.late_type import is_widened, stage_type, typed_rows
from skerry.spark.jobs.lateness import stale_snapshots
from skerry.spark.lake.buckets import HOUR_NS, hour_text
from skerry.spark.lake.data_files import DataFile, TableChange
from skerry.spark.lake.lake import Lake, change_of
from skerry.spark.lake.plans import Plan, TypeState
from skerry.spark.merging.duplicates import (
    SKEW_NS,
    KnownCounters,
    RowDecisions,
    advanced_clocks,
    advanced_marks,
    decide_rows,
    groups_to_check,
)
from skerry.spark.merging.identity import BY_CONTENT, BY_MULTICAST, BY_POSITION, BY_SENDER
from skerry.spark.merging.runners import InProcess, SparkTasks
from skerry.spark.merging.survey import RAW, Survey, TableAssignment, TableTally
from skerry.spark.merging.work import SLOT_BYTES, SlotResult, TableWork, Work, slot_count_for
from skerry.spark.source.options import ReadOptions, read_options
from skerry.spark.source.planning import Run, Wanted, dropped, pack, runs, segments
from skerry.spark.startup.session import is_in_this_process

_LOG = logging.getLogger(__name__)

Range = tuple[str, int, int]
"""A recording id with the first and the stop line of its manifest."""

_HERE_BYTES_MAX: Final = 24 * 1024 * 1024
"""Up to this size the driver itself is faster than Spark tasks."""
_TASK_BYTES: Final = 16 * 1024 * 1024
_SLOT_COUNT_MAX: Final = 256
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
        self.runner = self._runner()
        self.changes: dict[str, TableChange] = {}
        self.states = dict(self.content.states)

    def _runner(self) -> InProcess | SparkTasks:
        size = sum(segment.byte_count for _, segment in self.segments)
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
        late = [target for target in targets if decisions[target.number].is_late]
        work = self._work([target for target in targets if target not in late], decisions)
        self.lake.trace("merge")
        results = self.runner.merge(work) if work.tables else []
        found_late = {result.table for result in results if result.is_late}
        rows = 0
        for target in targets:
            own = [result for result in results if result.table == target.number]
            if target in late or target.number in found_late:
                self._discard_files(own)
                rows += self._stage_late(target)
            else:
                rows += self._stage(target, own)
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
            if target.state is not None and is_widened(self.lake, target.state):
                decisions[target.number] = RowDecisions(is_late=True)
                continue
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

    def _work(self, targets: Iterable[_TargetTable], decisions: Mapping[int, RowDecisions]) -> Work:
        tables: dict[int, TableWork] = {}
        sizes: dict[int, int] = {}
        first = 0
        for target in targets:
            table = self._table_work(target, decisions[target.number], first)
            tables[target.number] = table
            for slot in range(first, first + table.slot_count):
                sizes[slot] = target.tally.bytes // table.slot_count
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
        slots = min(_SLOT_COUNT_MAX, slot_count_for(target.tally.bytes))
        if target.state is None:
            known = self._known_raw(target)
            return TableWork(
                name="raw", first_slot=first, slot_count=slots, known=known, decisions=decisions
            )
        state = target.state
        latest, gone = (self.lake.table(f"{k}/{state.table}").files() for k in ("latest", "gone"))
        count = 1
        if state.is_cached:
            count = max(state.part_count, slots)
            while count * self.lake.config.part_rows < sum(file.rows for file in latest):
                count *= 2
            # A slot loads its parts into memory.
            slots = max(slots, count // 2)
            self.states[state.table] = replace(state, part_count=count)
        return TableWork(
            name=state.table,
            schema=state.schema,
            is_cached=state.is_cached,
            first_slot=first,
            slot_count=slots,
            part_count=count,
            part_count_before=state.part_count,
            latest=tuple(latest),
            gone=tuple(gone),
            decisions=decisions,
        )

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

    def _stage(self, target: _TargetTable, results: Iterable[SlotResult]) -> int:
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
        if target.state is not None:
            self._advance(target, added)
        return rows

    def _advance(self, target: _TargetTable, added: Mapping[str, Sequence[DataFile]]) -> None:
        """Advance the clocks and marks of a type."""
        assert target.state is not None
        table = target.state.table
        state = self.states[table]
        if state.is_cached and added["updates"]:
            self._drop_snapshots(state, min(file.low["order_ns"] for file in added["updates"]))
        self.states[table] = replace(
            state,
            clocks=advanced_clocks(state.clocks, target.tally),
            marks=advanced_marks(target.known.marks, target.tally, kinds=_COUNTED),
        )

    def _drop_snapshots(self, state: TypeState, since_ns: int) -> None:
        # A row that is not late for its object may still be late for a snapshot.
        stale = stale_snapshots(self.lake, state, since_ns)
        if stale:
            self.changes[f"snapshots/{state.table}"] = change_of("snapshots", state, (), stale)

    def _stage_late(self, target: _TargetTable) -> int:
        """Merge late rows with separate Spark jobs; returns the number of new rows."""
        assert target.state is not None
        state = replace(
            target.state,
            marks=advanced_marks(target.known.marks, target.tally, kinds=_COUNTED),
        )
        rows = typed_rows(self.lake, self.options, state, self.content.used[state.table])
        tallies = target.tally.groups.values()
        times = [(tally.time_min_ns, tally.time_max_ns) for tally in tallies]
        staged = stage_type(self.lake, state, rows, times, label=self.folder[:9])
        if staged is None:
            self.states[state.table] = state
            return 0
        self.states[state.table] = staged.state
        self.changes |= {change.table: change for change in staged.changes}
        return staged.row_count

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
            for kind in ("updates", "history", "latest", "gone"):
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
