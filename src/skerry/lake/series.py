"""Values of a field in equal intervals: last, mean, minimum, maximum and count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import REMOVE
from skerry.errors import PipelineError
from skerry.lake.answer import Answer
from skerry.lake.updates import TIMESTAMP, floor_ns, in_slices, timestamps
from skerry.spark.lake.catalog import OBJECT, ORDER, field_columns, table_schema
from skerry.spark.lake.data_files import Contents
from skerry.spark.lake.plans import TypeState
from skerry.spark.lake.state_lookup import unknown_name
from skerry.spark.lake.store import TableStore

_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86_400 * 10**9,
}
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ns|us|ms|s|min|h|d)\s*")
_NUMBERS: Final = ("mean", "min", "max")


def series_of(
    store: TableStore,
    state: TypeState,
    contents: Contents | None,
    field: str,
    every_ns: int,
    *,
    first_ns: int | None = None,
    stop_ns: int | None = None,
    where: pc.Expression | None = None,
) -> Answer:
    """One row for each interval and object in which an update set the field, in order of time.

    Intervals are aligned to 1970. Numbers also have `mean`, `min` and `max`.
    """
    wanted = table_schema("updates", state.schema)
    path = _path_of(state, field)
    kind = _kind_of(wanted, path)
    keys = key_columns(state)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    schema = pa.schema(
        [
            ("time", TIMESTAMP),
            ("time_ns", pa.int64()),
            *(wanted.field(name) for name in (*OBJECT, *keys)),
            pa.field("last", kind),
            *((name, pa.float64() if name == "mean" else kind) for name in _NUMBERS if is_number),
            ("count", pa.int64()),
        ]
    )
    columns = list(dict.fromkeys((*ORDER, "operation", *OBJECT, *keys, path[0])))
    is_update = pc.field("operation") != REMOVE
    condition = is_update if where is None else is_update & where

    def batches() -> Iterator[pa.RecordBatch]:
        found = in_slices(
            store,
            state,
            contents,
            columns,
            first_ns=first_ns,
            stop_ns=stop_ns,
            step_ns=every_ns,
            where=condition,
        )
        for table in found:
            yield from _aggregated(table, path, every_ns, keys, schema).to_batches()

    return Answer(schema, batches)


def duration_ns(text: str | float) -> int:
    """A duration such as `1s`, `10min` or a number of seconds in ns; PipelineError if invalid."""
    if isinstance(text, int | float):
        ns = round(text * 1e9)
    else:
        match = _DURATION.fullmatch(text)
        ns = 0 if match is None else round(float(match[1]) * _UNITS[match[2]])
    if not 0 < ns < 1 << 62:
        error = PipelineError(f"{text!r} is not a duration")
        error.hint = "write it as 500ms, 1s, 10min, 6h or 30d"
        raise error
    return ns


def key_columns(state: TypeState) -> list[str]:
    tags = {field.tag for field in state.schema.reader.fields if field.is_key}
    return [column.name for column in field_columns(state.schema) if column.tag in tags]


def with_numbers(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows with a column `number_of_x` for each column x: the row number if x is not null.

    The highest number of a group gives its last value; Arrow's aggregate `last` supports few types.
    """
    numbers = pa.array(range(rows.num_rows), pa.int64())
    for name in columns:
        own = pc.if_else(rows.column(name).is_valid(), numbers, pa.scalar(None, pa.int64()))
        rows = rows.append_column(f"number_of_{name}", own)
    return rows


def _path_of(state: TypeState, field: str) -> list[str]:
    """The column of a field and the path inside of it: `place.lat` is a field of a struct."""
    columns = {column.source: column.name for column in field_columns(state.schema)}
    first, *inner = field.split(".")
    if first not in columns and first not in columns.values():
        error = unknown_name(field, columns)
        error.args = (f"{state.schema.type_name} has no field {field}",)
        raise error
    return [columns.get(first, first), *inner]


def _kind_of(schema: pa.Schema, path: list[str]) -> pa.DataType:
    kind = schema.field(path[0]).type
    for name in path[1:]:
        index = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
        if index < 0:
            raise PipelineError(f"there is no field {'.'.join(path)}: {name} is unknown")
        kind = kind.field(index).type
    if pa.types.is_nested(kind):
        error = PipelineError(f"field {'.'.join(path)} is not a single value")
        error.hint = "give a field inside of it, such as place.lat"
        raise error
    return kind


def _aggregated(
    table: pa.Table, path: list[str], every_ns: int, keys: list[str], schema: pa.Schema
) -> pa.Table:
    value = table.column(path[0])
    if path[1:]:
        value = pc.struct_field(value, path[1:])
    rows = pa.table(
        {
            "time_ns": floor_ns(table.column("order_ns"), every_ns),
            **{name: table.column(name) for name in (*OBJECT, *keys)},
            "value": value,
        }
    ).filter(value.is_valid())
    figures = [name for name in (*_NUMBERS, "count") if name in schema.names]
    rows = with_numbers(rows, ["value"])
    groups = rows.group_by(["time_ns", *OBJECT], use_threads=False)
    made = groups.aggregate([*(("value", name) for name in figures), ("number_of_value", "max")])
    last = rows.take(made["number_of_value_max"])
    columns = {
        "time": timestamps(made["time_ns"]),
        **{name: made[name] for name in ("time_ns", *OBJECT)},
        **{name: last[name] for name in keys},
        "last": last["value"],
        **{name: made[f"value_{name}"] for name in figures},
    }
    return pa.table([columns[field.name].cast(field.type) for field in schema], schema=schema)
