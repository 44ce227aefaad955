"""Rollups: the figures of each object by the minute that retention keeps of deleted updates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import REMOVE, SNAPSHOT
from skerry.lake.series import key_columns, with_numbers
from skerry.lake.updates import TIMESTAMP, floor_ns, in_slices, timestamps
from skerry.spark.lake.buckets import MINUTE_NS
from skerry.spark.lake.catalog import OBJECT, ORDER, field_columns, table_schema
from skerry.spark.lake.data_files import Contents
from skerry.spark.lake.plans import TypeState
from skerry.spark.lake.store import TableStore

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
