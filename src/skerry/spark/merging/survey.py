"""Counts the rows of a batch per table and counter, to find which are new and in order.

It reads a few columns and decodes no payload. Nearly always each counter continues from where the
table ends, and its times do not go back; then each row is new, and its `order_ns` is its time. Only
for the other groups `details` lists all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import GAP, SNAPSHOT
from skerry.recording.columns import DESCRIPTOR_TYPES
from skerry.spark.merging.identity import (
    CounterGroup,
    Numbers,
    RowIdentity,
    identity_of,
    is_run_start,
    numbers_of,
)

EARLIEST = -(2**63)
LATEST = 2**63 - 1
RAW = 0
"""The number of the table `raw`; the numbers of the types follow."""
SKIPPED = -1
"""The number for rows that describe types, which are in no table."""

_ENVELOPE_BYTES = 96
"""Estimated size of a row without its payload, key and subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAssignment:
    """The number of the table of each type and definition."""

    numbers: Mapping[tuple[str, int], int]
    """By type and fingerprint; rows of any other definition belong to `raw`."""

    def of(self, rows: pa.RecordBatch) -> Numbers:
        """The number of the table of each row."""
        types = rows.column("type")
        codes = numbers_of(types.indices)
        prints, inverse = np.unique(numbers_of(rows.column("fingerprint")), return_inverse=True)
        names = types.dictionary.to_pylist()
        pairs = codes.astype(np.int64) * len(prints) + inverse
        found = np.full(len(names) * len(prints), RAW, np.int32)
        for pair in np.unique(pairs).tolist():
            name, number = names[pair // len(prints)], int(prints[pair % len(prints)])
            found[pair] = (
                SKIPPED if name in DESCRIPTOR_TYPES else self.numbers.get((name, number), RAW)
            )
        tables = found[pairs]
        tables[numbers_of(rows.column("operation")) == GAP] = RAW
        return tables


class CounterTally(NamedTuple):
    """Extremes of numbers and times of some rows of one group."""

    number_min: int
    number_max: int
    time_min_ns: int
    time_max_ns: int
    stamped_max_ns: int
    """Latest time of updates; snapshot rows do not advance a clock."""
    is_ascending: bool
    """Whether numbers ascend strictly, and times do not go back."""

    def followed_by(self, later: CounterTally) -> CounterTally:
        """The tally of these rows followed by others."""
        is_next = later.number_min > self.number_max and later.time_min_ns >= self.time_max_ns
        return CounterTally(
            min(self.number_min, later.number_min),
            max(self.number_max, later.number_max),
            min(self.time_min_ns, later.time_min_ns),
            max(self.time_max_ns, later.time_max_ns),
            max(self.stamped_max_ns, later.stamped_max_ns),
            self.is_ascending and later.is_ascending and is_next,
        )


@dataclass(slots=True)
class TableTally:
    """The rows of one table: their number, size and groups."""

    rows: int = 0
    bytes: int = 0
    groups: dict[CounterGroup, CounterTally] = field(default_factory=dict)


@dataclass(slots=True)
class Survey:
    """The tallies of a batch by table number."""

    tables: dict[int, TableTally] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    """Names of segments with a damaged batch."""

    def add(self, rows: pa.RecordBatch, assignment: TableAssignment) -> None:
        tables = assignment.of(rows)
        identity = identity_of(rows)
        times = numbers_of(rows.column("time_ns"))
        operations = numbers_of(rows.column("operation"))
        self._count(tables, rows)
        order = np.lexsort((identity.sender, identity.node, identity.kind, tables))
        keys = [tables[order], *(column[order] for column in identity[:3])]
        starts = np.flatnonzero(is_run_start(*keys))
        numbers, times = identity.number[order], times[order]
        stamped = np.where(operations[order] != SNAPSHOT, times, EARLIEST)
        is_back = np.zeros(len(order), bool)
        is_back[1:] = (numbers[1:] <= numbers[:-1]) | (times[1:] < times[:-1])
        is_back[starts] = False
        facts = zip(
            *(key[starts].tolist() for key in keys),
            np.minimum.reduceat(numbers, starts).tolist(),
            np.maximum.reduceat(numbers, starts).tolist(),
            np.minimum.reduceat(times, starts).tolist(),
            np.maximum.reduceat(times, starts).tolist(),
            np.maximum.reduceat(stamped, starts).tolist(),
            (~np.logical_or.reduceat(is_back, starts)).tolist(),
            strict=True,
        )
        for table, kind, node, sender, *tally in facts:
            if table != SKIPPED:
                groups = self.tables[table].groups
                group, found = CounterGroup(kind, node, sender), CounterTally(*tally)
                before = groups.get(group)
                groups[group] = found if before is None else before.followed_by(found)

    def _count(self, tables: Numbers, rows: pa.RecordBatch) -> None:
        sizes = _ENVELOPE_BYTES + sum(
            numbers_of(pc.binary_length(rows.column(name)).cast(pa.int64()))
            for name in ("payload", "key", "subject")
        )
        placed = tables + 1
        counts = np.bincount(placed)
        weights = np.bincount(placed, weights=sizes)
        for number in np.flatnonzero(counts).tolist():
            if number - 1 != SKIPPED:
                counted = self.tables.setdefault(number - 1, TableTally())
                counted.rows += int(counts[number])
                counted.bytes += int(weights[number])

    @classmethod
    def of_all(cls, surveys: Iterable[Survey]) -> Survey:
        """The survey of all tasks, in any order."""
        whole = cls()
        tallies: dict[tuple[int, CounterGroup], list[CounterTally]] = {}
        for each in surveys:
            whole.damaged |= each.damaged
            for number, counted in each.tables.items():
                known = whole.tables.setdefault(number, TableTally())
                known.rows += counted.rows
                known.bytes += counted.bytes
                for group, tally in counted.groups.items():
                    tallies.setdefault((number, group), []).append(tally)
        for (number, group), found in tallies.items():
            first, *others = sorted(found)
            for tally in others:
                first = first.followed_by(tally)
            whole.tables[number].groups[group] = first
        return whole


def survey(batches: Iterable[pa.RecordBatch], assignment: TableAssignment) -> Survey:
    found = Survey()
    for rows in batches:
        if rows.num_rows:
            found.add(rows, assignment)
    return found


class Detail(NamedTuple):
    """All rows of one group."""

    numbers: Numbers
    times_ns: Numbers
    is_snapshot: Numbers

    def joined(self, other: Detail) -> Detail:
        return Detail(*(np.concatenate(both) for both in zip(self, other, strict=True)))


def details(
    batches: Iterable[pa.RecordBatch],
    assignment: TableAssignment,
    wanted: Mapping[int, frozenset[CounterGroup]],
) -> dict[tuple[int, CounterGroup], Detail]:
    """All rows of the wanted groups, by table number and group."""
    found: dict[tuple[int, CounterGroup], list[Detail]] = {}
    for rows in batches:
        tables = assignment.of(rows)
        if not np.isin(tables, list(wanted)).any():
            continue
        identity = identity_of(rows)
        times = numbers_of(rows.column("time_ns"))
        is_snapshot = numbers_of(rows.column("operation")) == SNAPSHOT
        for number, group, indices in _group_indices(tables, identity, wanted):
            detail = Detail(identity.number[indices], times[indices], is_snapshot[indices])
            found.setdefault((number, group), []).append(detail)
    return {
        key: Detail(*(np.concatenate(column) for column in zip(*several, strict=True)))
        for key, several in found.items()
    }


def _group_indices(
    tables: Numbers, identity: RowIdentity, wanted: Mapping[int, frozenset[CounterGroup]]
) -> Iterator[tuple[int, CounterGroup, Numbers]]:
    order = np.lexsort((identity.sender, identity.node, identity.kind, tables))
    keys = [tables[order], *(column[order] for column in identity[:3])]
    starts = np.flatnonzero(is_run_start(*keys))
    stops = np.append(starts[1:], len(order))
    facts = (key[starts].tolist() for key in keys)
    for table, kind, node, sender, start, stop in zip(
        *facts, starts.tolist(), stops.tolist(), strict=True
    ):
        group = CounterGroup(kind, node, sender)
        if group in wanted.get(table, ()):
            yield table, group, order[start:stop]
