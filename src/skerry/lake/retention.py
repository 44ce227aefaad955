"""Deletes rows by age, and keeps figures by the minute.

Each type has a cutoff, a full hour, before which its rows are deleted in three steps:

1. The per-minute figures of these updates are added to `rollups/T`.
2. The cutoff is stored (`skerry.spark.lake.retention_limits`), which rejects queries about earlier
   times.
3. The rows are deleted, one commit per table.

A killed run leaves each step done or not done, and the next run does the rest. `history` keeps the
states that were valid at the cutoff, so every later query has the same answer as before. `latest`,
`gone`, `raw` and the derived tables do not change. `vacuum` deletes the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Final, cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import REMOVE, SNAPSHOT
from skerry.lake.scanning import dataset_of, scan
from skerry.lake.series import key_columns, with_numbers
from skerry.lake.updates import TIMESTAMP, floor_ns, in_slices, timestamps
from skerry.spark.lake.buckets import HOUR_NS, MINUTE_NS, bucket_start_ns
from skerry.spark.lake.catalog import OBJECT, ORDER, field_columns, table_schema
from skerry.spark.lake.data_files import Contents, DataFile, TableChange
from skerry.spark.lake.delta import Table
from skerry.spark.lake.plans import TypeState
from skerry.spark.lake.retention_limits import kept_from, write_kept
from skerry.spark.lake.store import TableStore
from skerry.spark.merging.files import write_file

_APPLICATION: Final = "skerry-retention"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """The number of deleted rows of one type."""

    type_name: str
    before_ns: int
    updates: int
    states: int
    rollups: int
    """Number of rows added to `rollups/T`."""


def retain(
    path: str | PathLike[str],
    ages_ns: Mapping[str, int],
    *,
    now_ns: int,
    dry_run: bool = False,
) -> list[Dropped]:
    """Delete rows that are older than the age of their type; keys are names of tables of types.

    With `dry_run`, rows are only counted. PipelineError if another job is writing.
    """
    from skerry.spark.lake.lake import Lake

    lake = Lake(cast("Any", None), path)
    found = []
    with lake.writing():
        # An uncommitted plan refers to files that retention would remove.
        plan = lake.last_plan()
        lake.commit_plan(plan)
        for name in sorted(ages_ns.keys() & plan.types.keys()):
            before_ns = bucket_start_ns(now_ns - ages_ns[name], HOUR_NS)
            found.append(_Retention(lake.store, plan.types[name], before_ns).run(dry_run=dry_run))
    return [dropped for dropped in found if dropped.updates or dropped.states]


class _Retention:
    """Retention of one type, with the instant before which its rows are deleted."""

    def __init__(self, store: TableStore, state: TypeState, before_ns: int) -> None:
        self._store = store
        self._state = state
        # Rows before an earlier cutoff are already deleted, even if the age is longer now.
        self._before_ns = max(before_ns, kept_from(store).get(state.table, before_ns))

    def run(self, *, dry_run: bool) -> Dropped:
        updates = self._contents("updates", lambda file: _is_before(file, self._before_ns))
        history = self._contents("history", self._has_ended_states)
        row_count = 0 if updates is None else sum(file.rows for file in updates.files)
        counts = {"updates": row_count, "states": self._ended_count(history), "rollups": 0}
        if not dry_run and (counts["updates"] or counts["states"]):
            counts["rollups"] = 0 if updates is None else self._roll_up(updates)
            kept = kept_from(self._store)
            write_kept(self._store, {**kept, self._state.table: self._before_ns})
            self._drop("updates", updates)
            self._drop("history", history, is_kept=pc.field("valid_to_ns") > self._before_ns)
            self._drop("snapshots", self._contents("snapshots", self._is_old_snapshot))
        return Dropped(type_name=self._state.table, before_ns=self._before_ns, **counts)

    def _contents(self, kind: str, wanted: Any) -> Contents | None:
        contents = Table(self._store, f"{kind}/{self._state.table}").contents()
        return None if contents is None else contents.only(wanted)

    def _has_ended_states(self, file: DataFile) -> bool:
        return bool(file.low.get("valid_to_ns", self._before_ns) <= self._before_ns)

    def _is_old_snapshot(self, file: DataFile) -> bool:
        return int(file.parts["until_ns"] or 0) <= self._before_ns

    def _ended_count(self, history: Contents | None) -> int:
        if history is None:
            return 0
        dataset = dataset_of(self._store, f"history/{self._state.table}", history)
        return int(dataset.count_rows(filter=pc.field("valid_to_ns") <= self._before_ns))

    def _roll_up(self, updates: Contents) -> int:
        """Add the figures of these updates; replaces those of an interrupted run."""
        name = f"rollups/{self._state.table}"
        schema = rollup_schema(self._state)
        folder = f"r-{uuid4().hex[:12]}"
        added: list[DataFile] = []
        for table in rolled_up(self._store, self._state, updates):
            for hour in pc.unique(table["hour"]).to_pylist():
                rows = table.filter(pc.equal(table["hour"], hour)).drop_columns(["hour"])
                added.append(write_file(self._store, name, folder, rows, {"hour": hour}))
        hours = {file.parts["hour"] for file in added}
        old = Table(self._store, name).contents()
        again = () if old is None else old.only(lambda file: file.parts["hour"] in hours).files
        if added:
            self._commit(name, schema, ("hour",), added, again)
        return sum(file.rows for file in added)

    def _drop(self, kind: str, found: Contents | None, is_kept: Any = None) -> None:
        """Remove files from a table; rows for which `is_kept` is true are written to new files."""
        if found is None or not found.files:
            return
        name = f"{kind}/{self._state.table}"
        added = [] if is_kept is None else self._rewritten(name, found, is_kept)
        self._commit(name, found.schema, found.divided_by, added, found.files)

    def _rewritten(self, name: str, found: Contents, is_kept: pc.Expression) -> list[DataFile]:
        folder = f"r-{uuid4().hex[:12]}"
        inside = [field.name for field in found.schema if field.name not in found.divided_by]
        added = []
        for file in found.files:
            if file.high.get("valid_to_ns", self._before_ns + 1) <= self._before_ns:
                continue
            dataset = dataset_of(self._store, name, replace(found, files=(file,)))
            schema = pa.schema([dataset.schema.field(column) for column in inside])
            rows = pa.Table.from_batches(scan(dataset, inside, is_kept), schema)
            if rows.num_rows:
                added.append(write_file(self._store, name, folder, rows, file.parts))
        return added

    def _commit(
        self,
        name: str,
        schema: pa.Schema,
        divided_by: tuple[str, ...],
        added: list[DataFile],
        removed: tuple[DataFile, ...],
    ) -> None:
        from skerry.spark.lake.lake import delta_schema

        change = TableChange(
            table=name,
            schema=delta_schema(schema),
            divided_by=divided_by,
            added=tuple(added),
            removed=tuple(file.path for file in removed),
        )
        table = Table(self._store, name)
        version = table.version_of(_APPLICATION) + 1
        table.commit(change, application=_APPLICATION, version=version)


def _is_before(file: DataFile, before_ns: int) -> bool:
    return bool(file.high.get("order_ns", before_ns) < before_ns)


# -- rollups: the figures of each object by the minute


_NUMBERS: Final = ("mean", "min", "max")
_OWN: Final = ("minute", "minute_ns", "update_count")


def rollup_schema(state: TypeState) -> pa.Schema:
    """The columns of `rollups/T`: each field is a struct of its figures in a minute."""
    wanted = table_schema("updates", state.schema)
    keys = key_columns(state)
    fields = [
        pa.field(_named(name), pa.struct(_figures(wanted.field(name).type)))
        for name in _fields(state)
    ]
    return pa.schema(
        [
            ("minute", TIMESTAMP),
            ("minute_ns", pa.int64()),
            *(wanted.field(name) for name in OBJECT),
            *(pa.field(_named(name), wanted.field(name).type) for name in keys),
            ("update_count", pa.int64()),
            *fields,
            ("hour", pa.string()),
        ]
    )


def rolled_up(store: TableStore, state: TypeState, contents: Contents) -> Iterator[pa.Table]:
    """The figures of some files of updates, in tables of whole minutes, in order."""
    columns = list(dict.fromkeys((*ORDER, *OBJECT, *key_columns(state), *_fields(state))))
    # Snapshot rows repeat earlier updates.
    is_update = ~pc.field("operation").isin([REMOVE, SNAPSHOT])
    found = in_slices(
        store, state, contents, [*columns, "operation"], step_ns=MINUTE_NS, where=is_update
    )
    schema = rollup_schema(state)
    for table in found:
        if table.num_rows:
            yield _aggregated(table, state, schema)


def _fields(state: TypeState) -> list[str]:
    """Columns of single values that are not keys."""
    wanted = table_schema("updates", state.schema)
    names = [column.name for column in field_columns(state.schema)]
    keys = set(key_columns(state))
    return [n for n in names if n not in keys and not pa.types.is_nested(wanted.field(n).type)]


def _named(column: str) -> str:
    """The column of a field, renamed if another column has its name."""
    return f"{column}_" if column in _OWN else column


def _figures(kind: pa.DataType) -> list[pa.Field]:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    numbers = [pa.field(n, pa.float64() if n == "mean" else kind) for n in _NUMBERS if is_number]
    return [pa.field("count", pa.int64()), pa.field("last", kind), *numbers]


def _aggregated(table: pa.Table, state: TypeState, schema: pa.Schema) -> pa.Table:
    fields, keys = _fields(state), key_columns(state)
    rows = with_numbers(table, ["order_ns", *fields])
    rows = rows.append_column("minute_of_row", floor_ns(table.column("order_ns"), MINUTE_NS))
    figures = {name: _figures(table.schema.field(name).type) for name in fields}
    groups = rows.group_by(["minute_of_row", *OBJECT], use_threads=False)
    # Nulls, which are fields not in an update, are not counted.
    made = groups.aggregate(
        [
            ("order_ns", "count"),
            *((f"number_of_{name}", "max") for name in ("order_ns", *fields)),
            *((name, f.name) for name in fields for f in figures[name] if f.name != "last"),
        ]
    )
    last = rows.take(made["number_of_order_ns_max"])
    minutes = timestamps(made["minute_of_row"])
    columns = {
        "minute": minutes,
        "minute_ns": made["minute_of_row"],
        **{name: made[name] for name in OBJECT},
        **{_named(name): last[name] for name in keys},
        "update_count": made["order_ns_count"],
        "hour": pc.strftime(minutes, "%Y-%m-%dT%H"),
    }
    for name in fields:
        arrays = []
        for figure in figures[name]:
            if figure.name == "last":
                values = table[name].take(made[f"number_of_{name}_max"])
            else:
                values = made[f"{name}_{figure.name}"]
            arrays.append(values.cast(figure.type).combine_chunks())
        columns[_named(name)] = pa.StructArray.from_arrays(arrays, fields=figures[name])
    return pa.table([columns[field.name] for field in schema], schema=schema)
