"""Prints the rows of a query: as a table for people, or as JSON lines.

As in all commands, JSON has fields by name without unset ones, times in seconds, and additional
values under names that begin with `_`.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.output import Output
from skerry.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skerry.lake.answer import Answer
    from skerry.schema.model import FieldType
    from skerry.spark.lake.plans import TypeState

_ROWS_SHOWN: Final = 100
"""Default number of rows of a table; JSON has all rows."""

_Row = dict[str, Any]
Rows = Callable[["int | None"], Iterable[_Row]]
"""Returns the rows of a query in order, up to a limit; None for all."""


class Fields:
    def __init__(
        self,
        columns: Mapping[str, str],
        keys: Sequence[str],
        types: Mapping[str, FieldType] | None = None,
    ) -> None:
        self.columns = dict(columns)
        """Names of the fields by column."""
        self.keys = list(keys)
        self._types = dict(types or {})

    def row_of(self, text: str) -> _Row:
        """The columns of an object from the JSON that Spark made of it."""
        found = json.loads(text)
        return {name: restored(self._types[name], value) for name, value in found.items()}

    def values(self, row: Mapping[str, Any], convert: Callable[[Any], Any] | None = None) -> _Row:
        """The set fields by name, converted to JSON values or by `convert`."""
        convert = json_value if convert is None else convert
        return {
            name: convert(row[column])
            for column, name in self.columns.items()
            if row.get(column) is not None
        }

    def fact(self, name: str) -> str:
        """The name of an additional value: with `_` in front if a field has that name."""
        return f"_{name}" if name in self.columns.values() else name

    def key(self, row: Mapping[str, Any]) -> Any:
        """The value of the key field; a list if there are several or none."""
        values = [json_value(row.get(column)) for column in self.keys]
        return values[0] if len(values) == 1 else values


def fields_of(types: Mapping[str, TypeState], type_name: str) -> Fields:
    """The fields of a type; none if the tables do not have the type."""
    from skerry.spark.lake.catalog import field_columns
    from skerry.spark.lake.state_lookup import known_type

    try:
        state = known_type(types, type_name)
    except PipelineError:
        return Fields({}, [])
    fields = {field.tag: field for field in state.schema.reader.fields}
    columns = field_columns(state.schema)
    return Fields(
        {column.name: column.source for column in columns},
        [column.name for column in columns if fields[column.tag].is_key],
        {column.name: fields[column.tag].type for column in columns},
    )


def spark_rows(frame: DataFrame, order: Sequence[str]) -> Rows:
    """The rows of a Spark frame, sorted by these columns."""

    def rows(limit: int | None) -> list[_Row]:
        ordered = frame.orderBy(*order)
        limited = ordered if limit is None else ordered.limit(limit)
        # Arrow timestamps have a time zone; other conversions would use the local time zone.
        found: list[_Row] = limited.toArrow().to_pylist(maps_as_pydicts="lossy")
        return found

    return rows


def lake_rows(answer: Answer, order: Sequence[str] = ()) -> Rows:
    """The rows of an answer of `skerry.lake`, sorted by these columns, or unsorted."""

    def rows(limit: int | None) -> Iterator[_Row]:
        batches = answer.batches() if not order else _sorted(answer, order, limit)
        left = limit
        for batch in batches:
            some = batch if left is None else batch.slice(0, left)
            yield from some.to_pylist(maps_as_pydicts="lossy")
            if left is not None:
                left -= some.num_rows
                if not left:
                    return

    return rows


def _sorted(answer: Answer, order: Sequence[str], limit: int | None) -> list[Any]:
    import pyarrow as pa

    from skerry.lake.updates import in_order

    if limit is None:
        return list(in_order(answer.to_arrow(), tuple(order)).to_batches())
    # Keeps only as many rows in memory as are shown.
    best = answer.schema.empty_table()
    for batch in answer.batches():
        both = pa.concat_tables([best, pa.Table.from_batches([batch])])
        best = in_order(both, tuple(order)).slice(0, limit)
    return list(best.to_batches())


def print_rows(
    output: Output,
    rows: Rows,
    limit: int | None,
    to_json: Callable[[_Row], _Row] | None,
    to_cells: Callable[[_Row], _Row],
) -> int:
    """Print the rows of a query, as JSON if there is `to_json`; returns how many were printed."""
    if to_json is not None:
        count = 0
        for row in rows(limit):
            output.json_line(to_json(row))
            count += 1
        return count
    shown = _ROWS_SHOWN if limit is None else limit
    found = list(rows(shown + 1))
    cells = [to_cells(row) for row in found[:shown]]
    columns = list(dict.fromkeys(name for row in cells for name in row))
    if columns:
        output.table(columns, [[_cell(row.get(name)) for name in columns] for row in cells])
    if len(found) > shown:
        output.note(f"showing the first {shown} rows; --limit N shows more, --json all")
    return len(cells)


limit_option = click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Maximum number of rows; by default {_ROWS_SHOWN} in a table, all with --json.",
)


def json_value(value: Any) -> Any:
    """A value as JSON: times in seconds, bytes in hex."""
    match value:
        case datetime():
            return value.astimezone(UTC).timestamp()
        case Decimal():
            return int(value)
        case float() if not math.isfinite(value):
            return str(value)
        case bytes():
            return value.hex()
        case dict():
            return {str(k): json_value(v) for k, v in value.items() if v is not None}
        case list():
            return [json_value(item) for item in value]
    return value


def text_value(value: Any) -> Any:
    """A value as text for people: times in ISO 8601, all else as in JSON."""
    match value:
        case datetime():
            return iso_text(value)
        case dict():
            return {str(k): text_value(v) for k, v in value.items() if v is not None}
        case list():
            return [text_value(item) for item in value]
    return json_value(value)


def iso_text(moment: datetime) -> str:
    """A time in UTC: 2026-11-15T14:03:07.25Z."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return f"{text.rstrip('0') if '.' in text else text}Z"


def restored(type_: FieldType, value: Any) -> Any:
    """A value as its column has it, from the JSON that Spark made of it."""
    from skerry.schema.model import Kind, StructType, VectorType

    if value is None:
        return None
    if isinstance(type_, VectorType):
        return [restored(type_.element, item) for item in value]
    if isinstance(type_, StructType):
        inner = {field.name: field.type for field in type_.fields}
        return {name: restored(inner[name], item) for name, item in value.items()}
    match type_.kind:
        case Kind.TIMEPOINT:
            return datetime.fromisoformat(value)
        case Kind.BYTES:
            return base64.b64decode(value)
        case Kind.ANY | Kind.REF:
            # Bytes are base64 in JSON.
            parts = {name: value[name] for name in ("payload", "key") if name in value}
            return {**value, **{name: base64.b64decode(item) for name, item in parts.items()}}
        case Kind.FLOAT16 | Kind.FLOAT32 | Kind.FLOAT64 | Kind.DURATION | Kind.STEADY_TIMEPOINT:
            # NaN and Infinity are strings in JSON.
            return float(value)
    return value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)
