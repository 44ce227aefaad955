"""Merges updates into states: the fields of each object, and from when to when they were valid.

An update sets the fields in its property set (`present`) and no others; a field in the set without
a value is cleared. A create begins a life with its own fields only. A snapshot row has the whole
object. After a remove all fields are unset, also for an update that follows.

All objects of a slot are merged at once: rows are sorted by object and order, and for each field a
running maximum over row numbers finds the row that its value comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skerry.codec.envelope import CREATE, REMOVE, SNAPSHOT
from skerry.spark.lake.catalog import OBJECT, ORDER, FieldColumn
from skerry.spark.merging.files import timestamps
from skerry.spark.merging.identity import Numbers, is_run_start, numbers_of

ALL_TAGS = 0xFFFF_FFFF
"""Property set of every field."""
_COPIED = ("node", "position", "sender", "sequence")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSteps:
    """Rows that change objects, in any order."""

    objects: Numbers
    """The number of the object of each row."""
    rows: pa.Table
    """With the columns of ORDER and OBJECT, `subject` and the fields."""
    operation: Numbers
    present: Numbers
    lives: Numbers

    @classmethod
    def of_updates(cls, objects: Numbers, updates: pa.Table) -> StateSteps:
        operation = numbers_of(updates.column("operation"))
        return cls(
            objects=objects,
            rows=updates,
            operation=operation,
            present=numbers_of(updates.column("present")),
            lives=(operation == CREATE).astype(np.int64),
        )


def steps_of_states(objects: Numbers, states: pa.Table) -> StateSteps:
    """Previous states, at most one per object, as first steps."""
    count = len(objects)
    return StateSteps(
        objects=objects,
        rows=states.append_column("order_ns", states.column("valid_from_ns")),
        operation=np.full(count, SNAPSHOT, np.int8),
        present=np.full(count, ALL_TAGS, np.int64),
        lives=numbers_of(states.column("life")),
    )


def steps_of_gone(objects: Numbers, gone: pa.Table) -> StateSteps:
    """Removed objects as first steps."""
    count = len(objects)
    return StateSteps(
        objects=objects,
        rows=gone.append_column("order_ns", gone.column("removed_ns")),
        operation=np.full(count, REMOVE, np.int8),
        present=np.zeros(count, np.int64),
        lives=numbers_of(gone.column("life")),
    )


class MergedStates:
    """The states that result from steps, of any number of objects."""

    def __init__(self, several: Sequence[StateSteps], fields: Sequence[FieldColumn]) -> None:
        self._fields = fields
        self._rows = [steps.rows for steps in several]
        self._columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        objects = np.concatenate([steps.objects for steps in several])
        order = [self._numbers(name) for name in ORDER]
        self._perm = np.lexsort((*reversed(order), objects))
        self._objects = objects[self._perm]
        self._order_ns = order[0][self._perm]
        count = len(self._perm)
        self._begins = is_run_start(self._objects)
        self._is_last = np.ones(count, bool)
        self._is_last[:-1] = self._begins[1:]
        self._operation, self._present, lives = (
            np.concatenate([getattr(steps, name) for steps in several])[self._perm]
            for name in ("operation", "present", "lives")
        )
        self._life = _sums(lives, self._begins)
        self._is_remove = self._operation == REMOVE

    def has_seed_after_new(self, seed_count: int) -> bool:
        """Whether one of the first `seed_count` steps is not the first of its object."""
        return bool((~self._begins & (self._perm < seed_count)).any())

    def closed(self) -> Numbers:
        """Indices of past states, sorted by object and time."""
        return np.flatnonzero(~self._is_remove & ~self._is_last)

    def open(self) -> Numbers:
        """Indices of current states, sorted by object."""
        return np.flatnonzero(~self._is_remove & self._is_last)

    def gone(self) -> Numbers:
        """Indices of removes that are the last step of their object."""
        return np.flatnonzero(self._is_remove & self._is_last)

    def states(self, indices: Numbers, schema: pa.Schema, *, is_open: bool) -> pa.Table:
        """The states at these indices; columns of `schema` that are not of a state are left out."""
        begun = self._order_ns[indices]
        if is_open:
            ends, mask = np.zeros(len(indices), np.int64), np.ones(len(indices), bool)
        else:
            ends, mask = self._order_ns[indices + 1], None
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            "valid_from_ns": pa.array(begun),
            "valid_to_ns": pa.array(ends, pa.int64(), mask=mask),
            "valid_from": timestamps(begun),
            "valid_to": timestamps(ends, mask),
            "life": pa.array(self._life[indices]),
        }
        rows = self._perm[indices]
        for name in (*OBJECT, "subject", *_COPIED):
            columns[name] = self._column(name, schema.field(name).type).take(pa.array(rows))
        for field in self._fields:
            columns[field.name] = self._values(field, indices, schema.field(field.name).type)
        chosen = [column for column in schema if column.name in columns]
        return pa.Table.from_arrays(
            [columns[column.name] for column in chosen], schema=pa.schema(chosen)
        )

    def removals(self, indices: Numbers, schema: pa.Schema) -> pa.Table:
        """The removes at these indices, as rows of `gone`."""
        removed = self._order_ns[indices]
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            "life": pa.array(self._life[indices]),
            "removed_ns": pa.array(removed),
            "removed": timestamps(removed),
        }
        rows = pa.array(self._perm[indices])
        for name in (*OBJECT, *_COPIED):
            columns[name] = self._column(name, schema.field(name).type).take(rows)
        chosen = [column for column in schema if column.name in columns]
        return pa.Table.from_arrays(
            [columns[column.name] for column in chosen], schema=pa.schema(chosen)
        )

    def _values(self, field: FieldColumn, indices: Numbers, kind: pa.DataType) -> pa.ChunkedArray:
        """The value of a field at these indices: the last one set, null if it was cleared."""
        is_set = (self._present >> field.tag & 1).astype(bool) & ~self._is_remove
        is_decided = is_set | self._begins | np.isin(self._operation, (CREATE, REMOVE, SNAPSHOT))
        numbers = np.arange(len(is_set))
        origins = np.maximum.accumulate(np.where(is_decided, numbers, 0))[indices]
        sources = pa.array(self._perm[origins], mask=~is_set[origins])
        return self._column(field.name, kind).take(sources)

    def _column(self, name: str, kind: pa.DataType) -> pa.ChunkedArray:
        """A column of all steps in their given order; null for steps without the column."""
        if name in self._columns:
            return self._columns[name]
        chunks: list[pa.Array] = []
        for rows in self._rows:
            if name in rows.column_names:
                found = rows.column(name)
                chunks += (found if found.type == kind else found.cast(kind)).chunks
            else:
                chunks.append(pa.nulls(rows.num_rows, kind))
        self._columns[name] = found = pa.chunked_array(chunks, kind).combine_chunks()
        return found

    def _numbers(self, name: str) -> Numbers:
        return np.concatenate([numbers_of(rows.column(name)) for rows in self._rows])


def _sums(numbers: Numbers, begins: Numbers) -> Numbers:
    """Running sums per object."""
    sums = np.cumsum(numbers)
    starts = np.flatnonzero(begins)
    before = sums[starts] - numbers[starts]
    return sums - np.repeat(before, np.diff(np.append(starts, len(numbers))))
