"""One batch, from segments to tables: the same for all there is and for what just came.

A batch reads its segments in one pass for all types together. A first look at a few columns decides
what the tasks have to do (`merging.judging`); then each row is read, placed in the slot of its
object, merged and written (`merging.running`). The driver sees counts and names of files only.
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
from skerry.spark.lake.buckets import HOUR_NS
from skerry.spark.lake.catalog import DIVIDED_BY, table_schema
from skerry.spark.lake.delta import DataFile, TableChange
from skerry.spark.lake.lake import Lake, Plan, TypeState, delta_schema
from skerry.spark.merging.files import hour_text
from skerry.spark.merging.identity import BY_CONTENT, BY_MULTICAST, BY_POSITION, BY_SENDER
from skerry.spark.merging.judging import (
    SKEW_NS,
    Judgement,
    KnownRows,
    advanced_clocks,
    advanced_marks,
    judged,
    unclear,
)
from skerry.spark.merging.running import Here, OnSpark, Runner
from skerry.spark.merging.survey import RAW, Counted, Placing, Survey
from skerry.spark.merging.work import SLOT_BYTES, SlotResult, TableWork, Work, slot_counts
from skerry.spark.source.options import ReadOptions, read_options
from skerry.spark.source.planning import Run, Wanted, dropped, pack, runs, segments
from skerry.spark.startup.session import is_in_this_process

__all__ = ["Range", "process_batch"]

_LOG = logging.getLogger(__name__)

Range = tuple[str, int, int]
"""A recording by its id, and lines of its manifest from the first up to the stop."""

_HERE_BYTES_MAX: Final = 24 * 1024 * 1024
"""So much is done sooner by the driver itself than by tasks."""
_TASK_BYTES: Final = 16 * 1024 * 1024
_SLOT_COUNT_MAX: Final = 256
_COUNTED: Final = (BY_MULTICAST, BY_SENDER, BY_CONTENT)


def process_batch(lake: Lake, paths: Sequence[str], ranges: Sequence[Range]) -> Plan:
    """Bring some lines of the recordings' manifests into the tables, exactly once.

    Lines that a plan has brought in before are passed over.
    """
    with lake.batch():
        last = lake.last_plan()
        if last.number >= 0:
            lake.carry_out(last)
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
        lake.carry_out(plan)
    for notice in plan.notices:
        # Whoever runs the job is told by its progress.
        _LOG.info("notice", extra={"detail": notice})
    _LOG.info("batch done", extra={"batch": plan.number, "rows": plan.row_count})
    return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One table in a batch."""

    number: int
    state: TypeState | None
    """None of `raw`."""
    counted: Counted
    known: KnownRows

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
        self.placing = _placing(self.content, self.tables)
        self.runner = self._runner()
        self.changes: dict[str, TableChange] = {}
        self.states = dict(self.content.states)

    def _runner(self) -> Runner:
        size = sum(segment.byte_count for _, segment in self.segments)
        master = self.lake.spark.sparkContext.master or ""
        is_little = size <= min(_HERE_BYTES_MAX, self.lake.config.here_bytes)
        return Here() if is_little and is_in_this_process(master) else OnSpark(self.lake.spark)

    def planned(self) -> Plan:
        """Write all files of the batch, and say what has to be done with them."""
        self.lake.trace("survey")
        survey = self.runner.survey(self.tasks, self.placing)
        parts = self._parts(survey)
        judgements = self._judged(parts)
        late = [part for part in parts if judgements[part.number].is_late]
        work = self._work([part for part in parts if part not in late], judgements)
        self.lake.trace("merge")
        results = self.runner.merge(work) if work.tables else []
        found_late = {result.table for result in results if result.is_late}
        rows = 0
        for part in parts:
            own = [result for result in results if result.table == part.number]
            if part in late or part.number in found_late:
                self._discard_files(own)
                rows += self._stage_late(part)
            else:
                rows += self._stage(part, own)
        raw = next((part.counted for part in parts if part.number == RAW), None)
        kinds = (BY_POSITION, *_COUNTED)
        marks = self.last.raw_marks
        return Plan(
            number=self.last.number + 1,
            types=self.states,
            changes=tuple(self.changes.values()),
            notices=(*self.content.notices, *map(_damage_notice, sorted(survey.damaged))),
            row_count=rows,
            read_count=sum(segment.rows for _, segment in self.segments),
            damaged=tuple(sorted(survey.damaged)),
            raw_marks=marks if raw is None else advanced_marks(marks, raw, kinds=kinds),
            stale_hours=self._stale_hours(),
        )

    # -- what is to be done

    def _parts(self, survey: Survey) -> list[_Part]:
        states = {number: self.states[table] for table, number in self.tables.items()}
        return [
            _Part(
                number=number,
                state=states.get(number),
                counted=counted,
                known=_known(states.get(number), self.last),
            )
            for number, counted in sorted(survey.tables.items())
        ]

    def _judged(self, parts: Iterable[_Part]) -> dict[int, Judgement]:
        files = {part.number: self.lake.table(part.updates).files() for part in parts}
        wanted = {}
        for part in parts:
            groups = unclear(part.counted, part.known, _rows_at(files[part.number]))
            if part.number != RAW and groups:
                wanted[part.number] = frozenset(groups)
        found = self.runner.details(self.tasks, self.placing, wanted) if wanted else {}
        judgements = {}
        for part in parts:
            if part.state is not None and is_widened(self.lake, part.state):
                judgements[part.number] = Judgement(is_late=True)
                continue
            judgements[part.number] = judged(
                part.counted,
                part.known,
                {group: detail for (table, group), detail in found.items() if table == part.number},
                files[part.number],
                self.lake.store,
                part.updates,
            )
        return judgements

    def _work(self, parts: Iterable[_Part], judgements: Mapping[int, Judgement]) -> Work:
        tables: dict[int, TableWork] = {}
        sizes: dict[int, int] = {}
        first = 0
        for part in parts:
            table = self._table_work(part, judgements[part.number], first)
            tables[part.number] = table
            for slot in range(first, first + table.slot_count):
                sizes[slot] = part.counted.bytes // table.slot_count
            first += table.slot_count
        return Work(
            root=self.lake.store.root,
            folder=self.folder,
            bucket_ns=self.lake.config.bucket_ns,
            placing=self.placing,
            tables=tables,
            tasks=self.tasks,
            partitions=_partitions(sizes),
        )

    def _table_work(self, part: _Part, judgement: Judgement, first: int) -> TableWork:
        slots = min(_SLOT_COUNT_MAX, slot_counts(part.counted.bytes))
        if part.state is None:
            return TableWork(
                name="raw",
                first_slot=first,
                slot_count=slots,
                known=self._known_raw(part),
                has_doubles=judgement.has_doubles,
            )
        state = part.state
        latest, gone = (self.lake.table(f"{k}/{state.table}").files() for k in ("latest", "gone"))
        count = 1
        if state.is_cached:
            count = max(state.part_count, slots)
            while count * self.lake.config.part_rows < sum(file.rows for file in latest):
                count *= 2
            # A slot holds its parts in memory.
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
            orders=judgement.orders,
            drops=judgement.drops,
            has_doubles=judgement.has_doubles,
        )

    def _known_raw(self, part: _Part) -> tuple[DataFile, ...]:
        """The files of `raw` that may have rows of this batch."""
        files = self.lake.table("raw").files()
        groups = unclear(part.counted, part.known, _rows_at(files))
        tallies = [part.counted.groups[group] for group in groups]
        if not tallies:
            return ()
        low = min(tally.time_min_ns for tally in tallies) - SKEW_NS
        high = max(tally.time_max_ns for tally in tallies) + SKEW_NS
        return tuple(file for file in files if file.may_have("time_ns", low, high))

    # -- what comes of it

    def _stage(self, part: _Part, results: Iterable[SlotResult]) -> int:
        """Take over what the tasks have written; how many rows are new."""
        added: dict[str, list[DataFile]] = defaultdict(list)
        removed: dict[str, dict[str, None]] = defaultdict(dict)
        rows = 0
        for result in results:
            rows += result.rows
            for kind, file in result.added:
                added[kind].append(file)
            for kind, path in result.removed:
                removed[kind][path] = None
        name = "" if part.state is None else part.state.table
        schema = None if part.state is None else part.state.schema
        for kind in dict.fromkeys((*added, *removed)):
            table = f"{kind}/{name}" if name else kind
            self.changes[table] = TableChange(
                table=table,
                schema=delta_schema(table_schema(kind, schema)),
                divided_by=DIVIDED_BY[kind],
                added=tuple(added[kind]),
                removed=tuple(removed[kind]),
            )
        if part.state is not None:
            self._advance(part, added)
        return rows

    def _advance(self, part: _Part, added: Mapping[str, Sequence[DataFile]]) -> None:
        """Note how far the table of a type has come."""
        assert part.state is not None
        table = part.state.table
        state = self.states[table]
        if state.is_cached and added["updates"]:
            self._drop_snapshots(state, min(file.low["order_ns"] for file in added["updates"]))
        self.states[table] = replace(
            state,
            clocks=advanced_clocks(state.clocks, part.counted),
            marks=advanced_marks(part.known.marks, part.counted, kinds=_COUNTED),
        )

    def _drop_snapshots(self, state: TypeState, since_ns: int) -> None:
        # What is not late for its own object may be so for a snapshot of all.
        stale = stale_snapshots(self.lake, state, since_ns)
        if stale:
            name = f"snapshots/{state.table}"
            self.changes[name] = TableChange(
                table=name,
                schema=delta_schema(table_schema("snapshots", state.schema)),
                divided_by=DIVIDED_BY["snapshots"],
                added=(),
                removed=stale,
            )

    def _stage_late(self, part: _Part) -> int:
        """Do what rows before known ones need, by jobs of their own."""
        assert part.state is not None
        state = replace(
            part.state, marks=advanced_marks(part.known.marks, part.counted, kinds=_COUNTED)
        )
        rows = typed_rows(self.lake, self.options, state, self.content.used[state.table])
        tallies = part.counted.groups.values()
        times = [(tally.time_min_ns, tally.time_max_ns) for tally in tallies]
        staged = stage_type(self.lake, state, rows, times, label=self.folder[:9])
        if staged is None:
            self.states[state.table] = state
            return 0
        self.states[state.table] = staged.state
        self.changes |= {change.table: change for change in staged.changes}
        return staged.row_count

    def _stale_hours(self) -> tuple[str, ...]:
        """Hours that derived tables have to be built for again."""
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
        """Delete what was written; a failure to do so is left to `vacuum`."""
        for table in self.tables:
            for kind in ("updates", "history", "latest", "gone"):
                self._delete(f"{kind}/{table}/{self.folder}")
        self._delete(f"raw/{self.folder}")

    def _delete(self, name: str) -> None:
        try:
            self.lake.store.delete_folder(name)
        except OSError as error:
            _LOG.warning("files of a failed batch stay", extra={"detail": str(error)})

    def _discard_files(self, results: Iterable[SlotResult]) -> None:
        for result in results:
            table = self.lake_name(result.table)
            for kind, file in result.added:
                self.lake.store.delete(f"{kind}/{table}/{file.path}")

    def lake_name(self, number: int) -> str:
        """The name of a table by its number."""
        return next(table for table, own in self.tables.items() if own == number)


def _is_gone(is_replacing: bool, paths: set[str]) -> Callable[[DataFile], bool]:
    return lambda file: is_replacing or file.path in paths


def _placing(content: TypeContent, tables: Mapping[str, int]) -> Placing:
    return Placing(
        numbers={
            (content.states[table].schema.type_name, fingerprint): tables[table]
            for table, fingerprints in content.used.items()
            for fingerprint in fingerprints
        }
    )


def _known(state: TypeState | None, last: Plan) -> KnownRows:
    if state is None:
        return KnownRows(clocks={}, marks=last.raw_marks, is_by_mark=True)
    return KnownRows(clocks=state.clocks, marks=state.marks)


def _rows_at(files: Sequence[DataFile]) -> Callable[[int, int], bool]:
    return lambda low, high: any(file.may_have("time_ns", low, high) for file in files)


def _partitions(sizes: Mapping[int, int]) -> dict[int, int]:
    """The writing task of each slot: small ones share a task."""
    placed: dict[int, int] = {}
    partition = size = 0
    for slot, own in sorted(sizes.items(), key=lambda item: item[1], reverse=True):
        if size and size + own > SLOT_BYTES:
            partition, size = partition + 1, 0
        placed[slot] = partition
        size += own
    return placed


def _damage_notice(name: str) -> str:
    return f"segment {name} is damaged; what is missing is a gap in the table raw"
