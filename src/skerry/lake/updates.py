"""The updates of a type in order, in slices of time that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.lake.answer import Answer
from skerry.lake.scanning import BATCH_ROWS, conformed, dataset_of, scan
from skerry.spark.lake.catalog import CHANGES, OBJECT, ORDER, field_columns, table_schema
from skerry.spark.lake.data_files import Contents, DataFile
from skerry.spark.lake.plans import TypeState
from skerry.spark.lake.store import TableStore

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_FACTS: Final = ("subject", "present", "sender", "node", "position", "sequence")


def changed_between(
    store: TableStore,
    state: TypeState,
    contents: Contents | None,
    from_ns: int | None,
    to_ns: int | None,
    where: pc.Expression | None,
) -> Answer:
    """The updates of a type from one instant to another, exclusive, in order."""
    wanted = table_schema("updates", state.schema)
    fields = [column.name for column in field_columns(state.schema)]
    schema = pa.schema(
        [
            wanted.field("order_ns"),
            pa.field("order_time", TIMESTAMP),
            pa.field("change", pa.string()),
            *(wanted.field(name) for name in (*OBJECT, *_FACTS, *fields)),
        ]
    )
    columns = list(dict.fromkeys((*ORDER, "operation", *OBJECT, *_FACTS, *fields)))

    def batches() -> Iterator[pa.RecordBatch]:
        found = in_slices(
            store, state, contents, columns, first_ns=from_ns, stop_ns=to_ns, where=where
        )
        for table in found:
            for batch in table.to_batches(BATCH_ROWS):
                yield _shown(batch, schema)

    return Answer(schema, batches)


def in_slices(
    store: TableStore,
    state: TypeState,
    contents: Contents | None,
    columns: list[str],
    *,
    first_ns: int | None = None,
    stop_ns: int | None = None,
    step_ns: int = 1,
    where: pc.Expression | None = None,
) -> Iterator[pa.Table]:
    """The updates as one table per slice of time; slices and their rows are in order.

    All rows of one interval of `step_ns` are in the same table.
    """
    if contents is None:
        return
    wanted = table_schema("updates", state.schema)
    schema = pa.schema([wanted.field(name) for name in columns])
    pieces = slices(contents.files, "order_ns", first_ns=first_ns, stop_ns=stop_ns, step_ns=step_ns)
    for first, stop in pieces:
        low = first if first_ns is None else max(first, first_ns)
        high = stop if stop_ns is None else min(stop, stop_ns)
        some = contents.only(lambda file, a=low, b=high: file.may_have("order_ns", a, b - 1))  # type: ignore[misc]
        condition = (pc.field("order_ns") >= low) & (pc.field("order_ns") < high)
        if where is not None:
            condition = condition & where
        rows = scan(dataset_of(store, f"updates/{state.table}", some), columns, condition)
        table = pa.Table.from_batches((conformed(batch, schema) for batch in rows), schema)
        yield in_order(table, ORDER)


def in_order(table: pa.Table, columns: tuple[str, ...]) -> pa.Table:
    """The rows sorted by these columns, nulls first."""
    keys = [(name, "ascending", "at_start") for name in columns if name in table.column_names]
    return table.take(pc.sort_indices(table, sort_keys=keys))


def timestamps(ns: pa.Array) -> pa.Array:
    """Nanoseconds since 1970 as timestamps, rounded down to microseconds."""
    return pc.divide(floor_ns(ns, 1000), 1000).cast(TIMESTAMP)


def floor_ns(ns: pa.Array, length_ns: int) -> pa.Array:
    """The last multiple of a length that is not after `ns`, also before 1970."""
    # Arrow's division rounds towards zero, so the remainder is negative before 1970.
    rest = pc.subtract(ns, pc.multiply(pc.divide(ns, length_ns), length_ns))
    rest = pc.if_else(pc.less(rest, 0), pc.add(rest, length_ns), rest)
    return pc.subtract(ns, rest)


def _shown(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    index = pc.index_in(batch.column("operation"), pa.array(list(CHANGES), pa.int8()))
    made: dict[str, Callable[[], pa.Array]] = {
        "order_time": lambda: timestamps(batch.column("order_ns")),
        "change": lambda: pa.array(list(CHANGES.values())).take(index),
    }
    arrays = [
        made[field.name]() if field.name in made else batch.column(field.name) for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# -- slices of time


SLICE_ROWS: Final = 500_000
SLICE_BYTES: Final = 32 * 1024 * 1024
"""Size of compressed files; in memory the rows need several times as much."""

_Slice = tuple[int, int]


def slices(
    files: Sequence[DataFile],
    column: str,
    *,
    first_ns: int | None = None,
    stop_ns: int | None = None,
    step_ns: int = 1,
    rows_max: int = SLICE_ROWS,
    bytes_max: int = SLICE_BYTES,
) -> list[_Slice]:
    """Consecutive half-open ranges of `column` that together cover all rows of the files.

    Each has at most about `rows_max` rows and `bytes_max` bytes, estimated from the lowest and
    highest values of the files, and begins and ends at a multiple of `step_ns`. `first_ns` and
    `stop_ns` limit the ranges; None leaves that end open.
    """
    lows = [file.low[column] for file in files if column in file.low]
    highs = [file.high[column] for file in files if column in file.high]
    if not files or (not lows and (first_ns is None or stop_ns is None)):
        return [] if not files else [(_LOWEST, _HIGHEST)]
    low = min(lows) if len(lows) == len(files) else _LOWEST
    high = max(highs) + 1 if len(highs) == len(files) else _HIGHEST
    first = low if first_ns is None else max(low, first_ns)
    stop = high if stop_ns is None else min(high, stop_ns)
    if first >= stop:
        return []
    first -= first % step_ns
    stop += -stop % step_ns
    found: list[_Slice] = []
    _divide(list(files), column, (first, stop), step_ns, (rows_max, bytes_max), found)
    return found


_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1


def _divide(
    files: list[DataFile],
    column: str,
    piece: _Slice,
    step_ns: int,
    bounds: tuple[int, int],
    found: list[_Slice],
) -> None:
    first, stop = piece
    inside = [file for file in files if file.may_have(column, first, stop - 1)]
    if not inside:
        return
    rows = sum(_share(file, column, piece) * file.rows for file in inside)
    size = sum(_share(file, column, piece) * file.byte_count for file in inside)
    middle = first + (stop - first) // 2 // step_ns * step_ns
    if (rows <= bounds[0] and size <= bounds[1]) or middle == first:
        found.append(piece)
        return
    _divide(inside, column, (first, middle), step_ns, bounds, found)
    _divide(inside, column, (middle, stop), step_ns, bounds, found)


def _share(file: DataFile, column: str, piece: _Slice) -> float:
    """The estimated share of the rows of a file in a slice."""
    first, stop = piece
    low, high = file.low.get(column, first), file.high.get(column, stop - 1)
    length = high - low + 1
    return float(max(0, min(high + 1, stop) - max(low, first)) / length)
