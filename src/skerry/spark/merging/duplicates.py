"""Decides which rows of a batch a table already has, and the order of the others.

Almost all counters continue from where the table ends. The rows of the other counters are examined
one by one: numbers that the table has are dropped, and if a clock went back or rows are out of
order, `order_ns` is computed from all of them. Rows that precede known ones make a table *late*:
its slots also merge the known rows after them again (`merging.slots.LateSlot`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from skerry.codec.envelope import SNAPSHOT
from skerry.spark.lake.catalog import table_schema
from skerry.spark.lake.data_files import DataFile
from skerry.spark.lake.plans import Clock
from skerry.spark.lake.store import TableStore
from skerry.spark.merging.files import read_rows
from skerry.spark.merging.identity import (
    BY_CONTENT,
    BY_MULTICAST,
    BY_POSITION,
    CounterGroup,
    Numbers,
    identity_of,
    is_run_start,
    numbers_of,
)
from skerry.spark.merging.survey import EARLIEST, LATEST, CounterTally, Detail, TableTally

PIPELINE_CLOCK_COUNT_MAX: Final = 10_000
"""Nodes whose clocks the pipeline remembers for each type. A node has a new number with each start.
Updates of a forgotten node are ordered by their own times."""
SKEW_NS: Final = 300_000_000_000
"""Maximum difference of the times that receivers stamp on one multicast update."""
_IDENTITY: Final = ("time_ns", "sender", "node", "sequence", "position", "source")

_Details = Mapping[CounterGroup, Detail]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCounters:
    """The highest known number of each counter of a table."""

    clocks: Mapping[int, Clock]
    """By node, for rows that have a position."""
    marks: Mapping[CounterGroup, int] | None
    """Highest numbers of all other counters; None if they were never recorded."""
    is_by_mark: bool = False
    """Whether rows with a position also have marks instead of clocks."""

    def highest(self, group: CounterGroup) -> int | None:
        """The highest number of a counter, or None if it is unknown."""
        if group.kind == BY_POSITION and not self.is_by_mark:
            clock = self.clocks.get(group.node)
            return None if clock is None else clock.position
        return None if self.marks is None else self.marks.get(group)

    @property
    def is_incomplete(self) -> bool:
        """Whether the table may have rows of unknown counters."""
        if self.marks is None:
            return True
        return max(len(self.clocks), len(self.marks)) >= PIPELINE_CLOCK_COUNT_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDecisions:
    """How the rows of one table are merged."""

    orders: Mapping[int, tuple[Numbers, Numbers]] = field(default_factory=dict)
    """By node, ascending positions with their `order_ns`; for other nodes it is the time."""
    drops: Mapping[CounterGroup, Numbers] = field(default_factory=dict)
    """Numbers of rows that are already in the table, ascending."""
    has_duplicates: bool = False
    """Whether the batch may have the same row more than once."""
    is_late: bool = False
    since_ns: int = EARLIEST
    """No new row and no shifted one has an earlier `order_ns`."""
    shifts: Mapping[int, tuple[Numbers, Numbers]] = field(default_factory=dict)
    """By node, ascending positions of new rows that precede known ones, each with the latest time
    so far: the lowest `order_ns` of known rows with a higher position."""
    shifted: frozenset[str] = frozenset()
    """Paths of the files that may have such known rows."""


def groups_to_check(
    counted: TableTally, known: KnownCounters, has_rows_at: Callable[[int, int], bool]
) -> list[CounterGroup]:
    """The groups whose rows have to be examined one by one.

    `has_rows_at` returns whether the table may have rows between two times.
    """
    return [
        group
        for group, tally in counted.groups.items()
        if _may_be_known(group, tally, known, has_rows_at) or _needs_order(group, tally, known)
    ]


def _may_be_known(
    group: CounterGroup,
    tally: CounterTally,
    known: KnownCounters,
    has_rows_at: Callable[[int, int], bool],
) -> bool:
    """Whether the table may have some of the rows, or later rows of the group."""
    highest = known.highest(group)
    if highest is not None:
        return tally.number_min <= highest
    skew_ns = SKEW_NS if group.kind == BY_MULTICAST else 0
    return known.is_incomplete and has_rows_at(
        tally.time_min_ns - skew_ns, tally.time_max_ns + skew_ns
    )


def _needs_order(group: CounterGroup, tally: CounterTally, known: KnownCounters) -> bool:
    """Whether `order_ns` may differ from `time_ns`."""
    if group.kind != BY_POSITION:
        return False
    clock = known.clocks.get(group.node)
    return not tally.is_ascending or (clock is not None and tally.time_min_ns < clock.order_ns)


def decide_rows(
    counted: TableTally,
    known: KnownCounters,
    found: _Details,
    files: Iterable[DataFile],
    store: TableStore,
    table: str,
) -> RowDecisions:
    """Decide from the details of the groups to check; `files` are those of `updates`."""
    orders: dict[int, tuple[Numbers, Numbers]] = {}
    drops: dict[CounterGroup, Numbers] = {}
    shifts: dict[int, tuple[Numbers, Numbers]] = {}
    # A row of any other group has its time as `order_ns`.
    since = [tally.time_min_ns for group, tally in counted.groups.items() if group not in found]
    has_duplicates = any(not tally.is_ascending for tally in counted.groups.values())
    is_late = False
    all_files = list(files)
    for group, detail in found.items():
        highest = known.highest(group)
        suspects = detail if highest is None else _only(detail, detail.numbers <= highest)
        left = detail
        if len(suspects.numbers) and all_files:
            seen: Numbers = np.zeros(0, np.int64)
            if group.kind == BY_CONTENT:
                # Known rows can only be recognized by their content, which the slots compare.
                is_late = True
            else:
                seen = _seen(group, suspects, all_files, store, table)
            if len(seen):
                drops[group] = seen
                left = _only(detail, ~np.isin(detail.numbers, seen))
            is_late |= highest is not None and bool(len(np.setdiff1d(suspects.numbers, seen)))
        times = left.times_ns
        if group.kind == BY_POSITION:
            clock = known.clocks.get(group.node)
            before: Numbers | int = EARLIEST if clock is None else clock.order_ns
            late = left if clock is None else _only(left, left.numbers <= clock.position)
            if clock is not None and len(late.numbers):
                before = _known_before(group, left.numbers, all_files, store, table)
                before[left.numbers > clock.position] = clock.order_ns
                stamped = _stamped(late)
                if len(stamped[0]):
                    shifts[group.node] = stamped
            orders[group.node] = _ordered(left, before)
            times = orders[group.node][1]
        since += [int(times.min())] if len(times) else []
    shifted = [file for file in all_files if _is_shifted(file, shifts)]
    since += [file.low.get("order_ns", EARLIEST) for file in shifted]
    return RowDecisions(
        orders=orders,
        drops=drops,
        has_duplicates=has_duplicates,
        is_late=is_late,
        since_ns=min(since, default=EARLIEST),
        shifts=shifts,
        shifted=frozenset(file.path for file in shifted),
    )


def _only(detail: Detail, mask: Numbers) -> Detail:
    return Detail(*(column[mask] for column in detail))


def _stamped(detail: Detail) -> tuple[Numbers, Numbers]:
    """The positions of updates, ascending, each with the latest time so far."""
    stamped = _only(detail, ~detail.is_snapshot)
    order = np.argsort(stamped.numbers)
    return stamped.numbers[order], np.maximum.accumulate(stamped.times_ns[order])


def _is_shifted(file: DataFile, shifts: Mapping[int, tuple[Numbers, Numbers]]) -> bool:
    return any(
        file.may_have("node", node, node)
        and file.may_have("position", int(positions[0]) + 1, LATEST)
        and file.may_have("order_ns", EARLIEST, int(times_ns[-1]) - 1)
        for node, (positions, times_ns) in shifts.items()
    )


def _known_before(
    group: CounterGroup,
    positions: Numbers,
    files: Iterable[DataFile],
    store: TableStore,
    table: str,
) -> Numbers:
    """For each position, the `order_ns` of the last known update before it; EARLIEST if none."""
    found = np.full(len(positions), EARLIEST)
    last = int(positions.max())
    for file in files:
        is_near = file.may_have("node", group.node, group.node)
        if is_near and file.may_have("position", 0, last):
            columns = (*_IDENTITY, "operation", "order_ns")
            rows = read_rows(store, table, file, table_schema("raw"), columns=columns)
            identity = identity_of(rows)
            is_own = (identity.kind == group.kind) & (identity.node == group.node)
            is_own &= numbers_of(rows.column("operation")) != SNAPSHOT
            order = np.argsort(identity.number[is_own])
            known = identity.number[is_own][order]
            order_ns = numbers_of(rows.column("order_ns"))[is_own][order]
            latest: Numbers = np.maximum.accumulate(order_ns)
            index: Numbers = np.searchsorted(known, positions) - 1
            has = index >= 0
            found[has] = np.maximum(found[has], latest[index[has]])
    return found


def _ordered(detail: Detail, before: Numbers | int) -> tuple[Numbers, Numbers]:
    """Positions with their `order_ns`: the latest time that the node had stamped so far.

    `before` is the latest known one before each row of `detail`, or before all of them.
    """
    order = np.lexsort((detail.times_ns, detail.is_snapshot, detail.numbers))
    order = order[is_run_start(detail.numbers[order])]
    numbers, times, is_snapshot = (column[order] for column in detail)
    stamped = np.maximum.accumulate(np.where(is_snapshot, EARLIEST, times))
    floors = np.broadcast_to(before, len(detail.numbers))[order]
    return numbers, np.maximum(np.maximum(times, stamped), floors)


def _seen(
    group: CounterGroup, suspects: Detail, files: Iterable[DataFile], store: TableStore, table: str
) -> Numbers:
    """The suspected numbers of a counter that the table has."""
    low, high = int(suspects.numbers.min()), int(suspects.numbers.max())
    first_ns, last_ns = int(suspects.times_ns.min()), int(suspects.times_ns.max())
    skew_ns = SKEW_NS if group.kind == BY_MULTICAST else 0
    found: list[Numbers] = []
    schema = table_schema("raw")
    for file in files:
        if group.kind == BY_POSITION:
            is_near = file.may_have("node", group.node, group.node)
            is_near = is_near and file.may_have("position", low, high)
        else:
            is_near = file.may_have("time_ns", first_ns - skew_ns, last_ns + skew_ns)
        if not is_near:
            continue
        rows = read_rows(store, table, file, schema, columns=_IDENTITY)
        identity = identity_of(rows)
        is_own = (identity.kind == group.kind) & (identity.node == group.node)
        is_own &= identity.sender == group.sender
        own = identity.number[is_own]
        found.append(own[np.isin(own, suspects.numbers)])
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)


# -- counters after a batch


def advanced_clocks(
    clocks: Mapping[int, Clock],
    counted: TableTally,
    *,
    count_max: int = PIPELINE_CLOCK_COUNT_MAX,
) -> dict[int, Clock]:
    """The clocks after a batch; the latest `count_max` are kept."""
    after = dict(clocks)
    for group, tally in counted.groups.items():
        if group.kind == BY_POSITION:
            was = after.get(group.node, Clock(position=0, order_ns=EARLIEST))
            after[group.node] = Clock(
                position=max(was.position, tally.number_max),
                order_ns=max(was.order_ns, tally.stamped_max_ns),
            )
    if len(after) <= count_max:
        return after
    newest = sorted(after, key=lambda node: after[node].order_ns, reverse=True)
    return {node: after[node] for node in newest[:count_max]}


def advanced_marks(
    marks: Mapping[CounterGroup, int] | None,
    counted: TableTally,
    *,
    kinds: Iterable[int],
    count_max: int = PIPELINE_CLOCK_COUNT_MAX,
) -> dict[CounterGroup, int] | None:
    """The highest numbers after a batch; the `count_max` that changed last are kept."""
    if marks is None:
        return None
    after = dict(marks)
    wanted = frozenset(kinds)
    for group, tally in counted.groups.items():
        if group.kind in wanted:
            # The dictionary is ordered by the last change.
            highest = max(after.pop(group, tally.number_max), tally.number_max)
            after[group] = highest
    return dict(list(after.items())[-count_max:])
