"""The updates of a type in order, in slices of time that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import CREATE, REMOVE, SNAPSHOT, UPDATE
from skerry.lake.answer import Answer
from skerry.lake.scanning import BATCH_ROWS, conformed, dataset_of, scan
from skerry.lake.slices import slices
from skerry.spark.lake.catalog import OBJECT, ORDER, field_columns, table_schema
from skerry.spark.lake.data_files import Contents
from skerry.spark.lake.plans import TypeState
from skerry.spark.lake.store import TableStore

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_NAMES: Final = {
    CREATE: "create",
    UPDATE: "update",
    REMOVE: "remove",
    SNAPSHOT: "snapshot",
}
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
    index = pc.index_in(batch.column("operation"), pa.array(list(_NAMES), pa.int8()))
    made: dict[str, Callable[[], pa.Array]] = {
        "order_time": lambda: timestamps(batch.column("order_ns")),
        "change": lambda: pa.array(list(_NAMES.values())).take(index),
    }
    arrays = [
        made[field.name]() if field.name in made else batch.column(field.name) for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
