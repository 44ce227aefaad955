"""Merges the rows of one slot and writes the files of its tables.

A slot has all rows of its objects and no others, so it is merged independently. The previous states
are read from the parts of `latest` and `gone` that the slot owns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import CREATE, SNAPSHOT
from skerry.spark.lake.buckets import HOUR_NS, bucket_text, hour_text
from skerry.spark.lake.catalog import DIVIDED_BY, OBJECT, ORDER, field_columns, table_schema
from skerry.spark.lake.data_files import DataFile
from skerry.spark.lake.store import TableStore
from skerry.spark.merging.files import read_rows, time_parts, write_parts
from skerry.spark.merging.hashing import object_hashes, part_of
from skerry.spark.merging.identity import (
    BY_CONTENT,
    BY_POSITION,
    Numbers,
    RowIdentity,
    identity_of,
    is_run_start,
    numbers_of,
)
from skerry.spark.merging.raw import unseen_rows, write_raw
from skerry.spark.merging.states import MergedStates, StateSteps, steps_of_gone, steps_of_states
from skerry.spark.merging.survey import EARLIEST, LATEST
from skerry.spark.merging.work import SlotResult, TableWork, Work
from skerry.spark.source.columnar_decoder import decode_payloads
from skerry.spark.source.reading import pieces_of

_PARTED = ("latest", "gone")
_KNOWN_CONTENT = ("key", "operation", "present", "subject", "sent_ns")
_CONTENT = ("space", "key", "operation", "present", "subject", "sent_ns", "payload")


def merge_slot(work: Work, slot: int, batches: Sequence[pa.RecordBatch]) -> SlotResult:
    """Merge the rows of a slot and write its files."""
    number = work.table_of(slot)
    table = work.tables[number]
    store = TableStore(work.root)
    rows = None
    if batches:
        rows = _distinct(pa.Table.from_batches(batches).unify_dictionaries(), table)
    if table.schema is None:
        added = write_raw(store, work.folder, rows, table) if rows is not None else []
        count = sum(file.rows for file in added)
        named = tuple(("raw", file) for file in added)
        return SlotResult(table=number, rows=count, added=named)
    merging = LateSlot if table.decisions.is_late else Slot
    return merging(work, number, slot, store).merged(rows)


def _distinct(rows: pa.Table, table: TableWork) -> pa.Table:
    """Each update once, without those that the table has; an update precedes a snapshot row."""
    if not table.decisions.drops and not table.decisions.has_duplicates:
        return rows.combine_chunks()
    identity = identity_of(rows)
    is_kept = np.ones(rows.num_rows, bool)
    for group, numbers in table.decisions.drops.items():
        is_own = (identity.kind == group.kind) & (identity.node == group.node)
        is_own &= identity.sender == group.sender
        is_kept[is_own] &= ~np.isin(identity.number[is_own], numbers)
    if table.decisions.has_duplicates:
        is_kept &= _is_first(rows, identity)
    return rows.filter(pa.array(is_kept)).combine_chunks()


def _is_first(rows: pa.Table, identity: RowIdentity) -> Numbers:
    """Which rows are the first among equal updates."""
    is_snapshot = numbers_of(rows.column("operation")) == SNAPSHOT
    content = _contents(rows, identity)
    keys = (identity.kind, identity.node, identity.sender, identity.number, content)
    # The table `raw` has rows of many types, which share counters.
    order = np.lexsort((numbers_of(rows.column("time_ns")), is_snapshot, *reversed(keys)))
    found = np.zeros(len(order), bool)
    found[order] = is_run_start(*(key[order] for key in keys))
    return found


def _contents(rows: pa.Table, identity: RowIdentity) -> Numbers:
    """Equal numbers for equal contents of rows without a counter; 0 for all other rows."""
    contents = np.zeros(rows.num_rows, np.int64)
    uncounted = np.flatnonzero(identity.kind == BY_CONTENT)
    if len(uncounted):
        columns = rows.select([*_CONTENT, "type"]).take(pa.array(uncounted)).to_pydict()
        known: dict[tuple[object, ...], int] = {}
        values = zip(*columns.values(), strict=True)
        contents[uncounted] = [known.setdefault(row, len(known)) for row in values]
    return contents


class Slot:
    def __init__(self, work: Work, number: int, slot: int, store: TableStore) -> None:
        self.work = work
        self.number = number
        self.slot = slot
        self.store = store
        self.table = work.tables[number]
        assert self.table.schema is not None
        self.fields = field_columns(self.table.schema)
        self.added: list[tuple[str, DataFile]] = []
        self.removed: list[tuple[str, str]] = []

    def merged(self, rows: pa.Table | None) -> SlotResult:
        if rows is None or not rows.num_rows:
            if self.table.is_cached and self.table.part_count != self.table.part_count_before:
                self._write_states(None, None)
            return self._result(0)
        updates = self._updates(rows)
        if self.table.is_cached and not self._write_states(updates, _Objects(rows)):
            return SlotResult(table=self.number, is_late=True)
        self._write_updates(updates)
        return self._result(updates.num_rows)

    def _result(self, rows: int) -> SlotResult:
        return SlotResult(
            table=self.number,
            rows=rows,
            added=tuple(self.added),
            removed=tuple(self.removed),
        )

    # -- updates

    def _updates(self, rows: pa.Table) -> pa.Table:
        """Recorded rows, decoded to rows of `updates`."""
        table, schema = self.table, self._schema("updates")
        assert table.schema is not None
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            "order_ns": pa.array(self._order_ns(rows)),
            "payload_bytes": pc.binary_length(rows.column("payload")).cast(pa.int64()),
        }
        names = {field.source: field.name for field in self.fields}
        fields = pa.Table.from_batches(
            decode_payloads(table.schema.reader, piece.column("payload"))
            for batch in rows.select(["payload"]).to_batches()
            for piece in pieces_of(batch)
        )
        for name in fields.column_names:
            columns[names.get(name, name)] = fields.column(name)
        for column in schema:
            if column.name not in columns:
                found = rows.column(column.name)
                columns[column.name] = (
                    found if found.type == column.type else found.cast(column.type)
                )
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _order_ns(self, rows: pa.Table) -> Numbers:
        times = numbers_of(rows.column("time_ns"))
        if not self.table.decisions.orders:
            return times
        identity = identity_of(rows)
        order = times.copy()
        for node, (positions, order_ns) in self.table.decisions.orders.items():
            own = np.flatnonzero((identity.kind == BY_POSITION) & (identity.node == node))
            order[own] = order_ns[np.searchsorted(positions, identity.number[own])]
        return order

    def _write_updates(self, updates: pa.Table) -> None:
        keys = [numbers_of(updates.column(name)) for name in ORDER]
        order_ns = keys[0]
        if (order_ns[1:] <= order_ns[:-1]).any():
            perm = np.lexsort(tuple(reversed(keys)))
            updates, order_ns = updates.take(pa.array(perm)), order_ns[perm]
        self._write("updates", updates, ("hour",), time_parts(order_ns, HOUR_NS, hour_text))

    # -- states

    def _write_states(self, updates: pa.Table | None, objects: _Objects | None) -> bool:
        """Write states; False, without writing, if a row precedes a known state of its object."""
        table = self.table
        is_repartitioned = table.part_count != table.part_count_before
        touched = None
        if objects is not None and not is_repartitioned:
            touched = set(part_of(objects.hashes(), table.part_count).tolist())
        seeds: list[StateSteps] = []
        kept: dict[str, pa.Table] = {}
        files = {kind: self._files(kind, touched) for kind in _PARTED}
        for kind in _PARTED:
            kept[kind] = rows = self._known(kind, files[kind])
            if objects is None or not rows.num_rows:
                continue
            numbers = objects.numbers_in(rows)
            is_touched = numbers >= 0
            kept[kind] = rows.filter(pa.array(~is_touched))
            steps_of = steps_of_states if kind == "latest" else steps_of_gone
            seeds.append(steps_of(numbers[is_touched], rows.filter(pa.array(is_touched))))
        new: dict[str, pa.Table] = {}
        if updates is not None and objects is not None:
            found = MergedStates(
                [*seeds, StateSteps.of_updates(objects.numbers, updates)], self.fields
            )
            if found.has_seed_after_new(sum(len(steps.objects) for steps in seeds)):
                return False
            self._write_history(
                found.states(found.closed(), self._schema("history"), is_open=False)
            )
            new["latest"] = found.states(found.open(), kept["latest"].schema, is_open=True)
            new["gone"] = found.removals(found.gone(), kept["gone"].schema)
        for kind in _PARTED:
            rows = [kept[kind], new[kind]] if kind in new else [kept[kind]]
            self._write_parts(kind, pa.concat_tables(rows))
            self.removed += [(kind, file.path) for file in files[kind]]
        return True

    def _files(self, kind: str, parts: set[int] | None) -> list[DataFile]:
        """The files of this slot, optionally only those of some parts."""
        table = self.table
        index = self.slot - table.first_slot
        step = min(table.slot_count, table.part_count_before)
        found = table.latest if kind == "latest" else table.gone
        placed = ((int(file.parts["part"] or 0), file) for file in found)
        return [
            file
            for part, file in placed
            if part % step == index % step and (parts is None or part in parts)
        ]

    def _known(self, kind: str, files: list[DataFile]) -> pa.Table:
        """The rows of these files that belong to this slot."""
        table, schema, name = self.table, self._schema(kind), f"{kind}/{self.table.name}"
        found = [read_rows(self.store, name, file, schema) for file in files]
        rows = pa.concat_tables([schema.empty_table(), *found]).combine_chunks()
        if table.slot_count > (table.part_count_before if kind in _PARTED else 1):
            rows = rows.filter(self._is_own(rows))
        return rows

    def _schema(self, kind: str) -> pa.Schema:
        """The columns of the files of a table."""
        assert self.table.schema is not None
        whole = table_schema(kind, self.table.schema)
        return pa.schema([column for column in whole if column.name not in DIVIDED_BY[kind]])

    def _is_own(self, rows: pa.Table) -> pa.Array:
        """Which rows belong to this slot."""
        if not rows.num_rows:
            return pa.array([], pa.bool_())
        slots = part_of(_hashes(rows), self.table.slot_count)
        return pa.array(slots == self.slot - self.table.first_slot)

    def _write_history(self, rows: pa.Table) -> None:
        """Write past states, which are in order within each object."""
        begun = numbers_of(rows.column("valid_from_ns"))
        buckets = np.floor_divide(begun, self.work.bucket_ns)
        if (buckets[1:] < buckets[:-1]).any():
            order = np.argsort(buckets, kind="stable")
            rows, begun = rows.take(pa.array(order)), begun[order]
        parts = time_parts(begun, self.work.bucket_ns, bucket_text)
        self._write("history", rows, ("bucket",), parts)

    def _write_parts(self, kind: str, rows: pa.Table) -> None:
        """Write rows of `latest` or `gone`, one file per part, sorted by object."""
        if not rows.num_rows:
            return
        count = self.table.part_count
        parts = part_of(_hashes(rows), count) if count > 1 else np.zeros(rows.num_rows, np.int64)
        keys = [("part", "ascending"), *((name, "ascending") for name in OBJECT)]
        order = pc.sort_indices(
            pa.table({"part": parts, "space": rows.column("space"), "key": rows.column("key")}),
            sort_keys=keys,
        )
        placed = parts[order.to_numpy()]
        starts = np.flatnonzero(is_run_start(placed)).tolist()
        cuts = zip(starts, [*starts[1:], len(placed)], strict=True)
        runs = [((str(placed[start]),), start, stop) for start, stop in cuts]
        self._write(kind, rows.take(order), ("part",), runs)

    def _write(
        self,
        kind: str,
        rows: pa.Table,
        part_names: tuple[str, ...],
        parts: Iterable[tuple[tuple[str | None, ...], int, int]],
    ) -> None:
        name = f"{kind}/{self.table.name}"
        for file in write_parts(self.store, name, self.work.folder, rows, part_names, parts):
            self.added.append((kind, file))


class LateSlot(Slot):
    """Merges rows that precede known ones.

    An object is *touched* if it has new rows, or known updates whose `order_ns` changes. It is
    rewound to the instant before the first of these, and all its later updates are merged again.
    """

    def merged(self, rows: pa.Table | None) -> SlotResult:
        known, is_rewritten = self._known_updates()
        new = self._schema("updates").empty_table()
        if rows is not None and rows.num_rows:
            new = self._updates(rows)
            if (identity_of(new).kind == BY_CONTENT).any():
                is_uncounted = pa.array(identity_of(known).kind == BY_CONTENT)
                new = unseen_rows(new, [known.filter(is_uncounted)], _KNOWN_CONTENT)
        before_ns = numbers_of(known.column("order_ns"))
        after_ns = self._shifted(known, before_ns)
        known = known.set_column(0, known.schema.field(0), pa.array(after_ns))
        updates = pa.concat_tables([known, new])
        if self.table.is_cached:
            self._rebuild(updates, before_ns)
        is_written = np.concatenate([is_rewritten, np.ones(new.num_rows, bool)])
        self._write_updates(updates.filter(pa.array(is_written)))
        self.removed += [("updates", path) for path in self.table.decisions.shifted]
        return self._result(new.num_rows)

    def _known_updates(self) -> tuple[pa.Table, Numbers]:
        """The known updates that may be merged again, and which of them are written again."""
        found = [self._known("updates", [file]) for file in self.table.updates]
        is_rewritten = [file.path in self.table.decisions.shifted for file in self.table.updates]
        counts = [rows.num_rows for rows in found]
        known = pa.concat_tables([self._schema("updates").empty_table(), *found])
        return known, np.repeat(np.array(is_rewritten, bool), counts)

    def _shifted(self, known: pa.Table, order_ns: Numbers) -> Numbers:
        """The `order_ns` of known updates, which new ones with lower positions may raise."""
        identity = identity_of(known)
        after = order_ns.copy()
        for node, (positions, times_ns) in self.table.decisions.shifts.items():
            is_own = (identity.kind == BY_POSITION) & (identity.node == node)
            index = np.searchsorted(positions, identity.number[is_own]) - 1
            latest = np.where(index >= 0, times_ns[index], EARLIEST)
            after[is_own] = np.maximum(after[is_own], latest)
        return after

    def _rebuild(self, updates: pa.Table, before_ns: Numbers) -> None:
        """Write the states of touched objects again, from the instant `since` of each.

        `updates` are known ones, of which `before_ns` is the former `order_ns`, and then new ones.
        """
        objects, known_count = _Objects(updates), len(before_ns)
        order_ns = numbers_of(updates.column("order_ns"))
        placed_ns = np.concatenate([before_ns, order_ns[known_count:]])
        is_touching = order_ns != placed_ns
        is_touching[known_count:] = True
        since = np.full(objects.count, LATEST)
        np.minimum.at(since, objects.index, np.where(is_touching, placed_ns, LATEST))
        is_step = (placed_ns >= since[objects.index]) & (since[objects.index] != LATEST)
        steps = StateSteps.of_updates(objects.numbers[is_step], updates.filter(pa.array(is_step)))
        # An object that is there now, or was, had fewer lives before the known steps.
        is_begun = is_step & (numbers_of(updates.column("operation")) == CREATE)
        is_begun[known_count:] = False
        lives = -np.bincount(objects.index[is_begun], minlength=objects.count)
        has_known = np.zeros(objects.count, bool)
        has_state = np.zeros(objects.count, bool)
        seeds: list[StateSteps] = []
        kept: dict[str, pa.Table] = {}
        touched = set(part_of(objects.hashes()[since != LATEST], self.table.part_count).tolist())
        is_repartitioned = self.table.part_count != self.table.part_count_before
        files = {kind: self._files(kind, None if is_repartitioned else touched) for kind in _PARTED}
        files["history"] = list(self.table.history)
        for kind, own in files.items():
            rows = self._known(kind, own)
            index = objects.index_in(rows)
            bounds = np.append(since, LATEST)[index]
            is_kept = bounds == LATEST
            if kind != "gone":
                is_seed = ~is_kept & (numbers_of(rows.column("valid_from_ns")) < bounds)
                if kind == "history":
                    is_kept |= numbers_of(rows.column("valid_to_ns")) < bounds
                    is_seed &= ~is_kept
                has_state[index[is_seed]] = True
                numbers = objects.distinct[index[is_seed]]
                seeds.append(steps_of_states(numbers, rows.filter(pa.array(is_seed))))
            if kind != "history":
                lives[index[~is_kept]] += numbers_of(rows.column("life"))[~is_kept]
                has_known[index[~is_kept]] = True
            kept[kind] = rows.filter(pa.array(is_kept))
        seeds.append(_ended_before(objects.distinct, lives, has_known & ~has_state))
        found = MergedStates([*seeds, steps], self.fields)
        closed = found.states(found.closed(), kept["history"].schema, is_open=False)
        self._write_history(pa.concat_tables([kept["history"], closed]))
        new = {
            "latest": found.states(found.open(), kept["latest"].schema, is_open=True),
            "gone": found.removals(found.gone(), kept["gone"].schema),
        }
        for kind in _PARTED:
            self._write_parts(kind, pa.concat_tables([kept[kind], new[kind]]))
        self.removed += [(kind, file.path) for kind, own in files.items() for file in own]


def _ended_before(numbers: Numbers, lives: Numbers, is_wanted: Numbers) -> StateSteps:
    """Objects that did not exist at the instant to which they are rewound, as first steps."""
    count = int(is_wanted.sum())
    columns = {name: np.zeros(count, np.int64) for name in ORDER}
    columns["removed_ns"] = np.full(count, EARLIEST)
    del columns["order_ns"]
    rows = pa.table({**columns, "life": lives[is_wanted]})
    return steps_of_gone(numbers[is_wanted], rows)


class _Objects:
    """The objects of rows as numbers that sort by space and key."""

    def __init__(self, rows: pa.Table) -> None:
        self._spaces = _Names(_one(rows.column("space").cast(pa.string())))
        self._keys = _Names(_one(rows.column("key")))
        self.numbers = self._number(self._spaces.codes, self._keys.codes)
        """The number of the object of each row."""
        self.distinct, self._first, self.index = np.unique(
            self.numbers, return_index=True, return_inverse=True
        )
        self._rows = rows

    @property
    def count(self) -> int:
        return len(self.distinct)

    def hashes(self) -> Numbers:
        return _hashes(self._rows.select(OBJECT).take(pa.array(self._first)))

    def numbers_in(self, rows: pa.Table) -> Numbers:
        """The numbers of the objects of other rows; -1 for objects that are not among these."""
        space, key = (
            names.codes_in(rows.column(name))
            for names, name in ((self._spaces, "space"), (self._keys, "key"))
        )
        numbers = self._number(space, key)
        is_known = (space >= 0) & (key >= 0) & np.isin(numbers, self.distinct)
        return np.where(is_known, numbers, -1)

    def index_in(self, rows: pa.Table) -> Numbers:
        """The index among `distinct` of the objects of other rows; -1 for other objects."""
        numbers = self.numbers_in(rows)
        return np.where(numbers < 0, -1, np.searchsorted(self.distinct, numbers))

    def _number(self, spaces: Numbers, keys: Numbers) -> Numbers:
        return spaces * self._keys.count + keys


class _Names:
    """Distinct values as numbers that sort as the values do."""

    def __init__(self, values: pa.Array) -> None:
        encoded = values.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary)
        self._sorted = encoded.dictionary.take(order)
        ranks = np.empty(len(order), np.int64)
        ranks[order.to_numpy()] = np.arange(len(order))
        self.codes = ranks[encoded.indices.to_numpy(zero_copy_only=False)]
        self.count = len(order)

    def codes_in(self, values: pa.ChunkedArray) -> Numbers:
        found = pc.index_in(_one(values), value_set=self._sorted)
        return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def _hashes(rows: pa.Table) -> Numbers:
    space = _one(rows.column("space").cast(pa.string())).dictionary_encode()
    return object_hashes(space, _one(rows.column("key")))


def _one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
