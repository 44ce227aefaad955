"""Updates of a type in their order, in slices of time that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import CREATE, REMOVE, SNAPSHOT, UPDATE
from skerry.lake.answer import Answer
from skerry.lake.layout import TypeTables
from skerry.lake.scanning import BATCH_ROWS, conformed, dataset_of, scan
from skerry.lake.slices import slices
from skerry.spark.lake.catalog import OBJECT, ORDER, field_columns, table_schema
from skerry.spark.lake.data_files import Contents
from skerry.spark.lake.store import TableStore

__all__ = ["MOMENT", "changed_between", "in_order", "in_slices", "moments"]

MOMENT: Final = pa.timestamp("us", tz="UTC")
_NAMES: Final = {
    CREATE: "create",
    UPDATE: "update",
    REMOVE: "remove",
    SNAPSHOT: "snapshot",
}
_FACTS: Final = ("subject", "present", "sender", "node", "position", "sequence")


def changed_between(
    store: TableStore,
    state: TypeTables,
    contents: Contents | None,
    from_ns: int | None,
    to_ns: int | None,
    where: pc.Expression | None,
) -> Answer:
    """Every update of a type from one instant up to another, in the order in which they count."""
    wanted = table_schema("updates", state.schema)
    fields = [column.name for column in field_columns(state.schema)]
    schema = pa.schema(
        [
            wanted.field("order_ns"),
            pa.field("order_time", MOMENT),
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
    state: TypeTables,
    contents: Contents | None,
    columns: list[str],
    *,
    first_ns: int | None = None,
    stop_ns: int | None = None,
    step_ns: int = 1,
    where: pc.Expression | None = None,
) -> Iterator[pa.Table]:
    """Updates, a table for each slice of time; slices and the rows in them are in order.

    No table has rows of an interval of `step_ns` of which another one has rows, too.
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


def moments(ns: pa.Array) -> pa.Array:
    """Nanoseconds since 1970 as timestamps, which have microseconds; earlier ones round down."""
    whole = pc.divide(ns, 1000)
    below = pc.less(ns, pc.multiply(whole, 1000))
    return pc.subtract(whole, below.cast(pa.int64())).cast(MOMENT)


def _shown(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    index = pc.index_in(batch.column("operation"), pa.array(list(_NAMES), pa.int8()))
    made: dict[str, Callable[[], pa.Array]] = {
        "order_time": lambda: moments(batch.column("order_ns")),
        "change": lambda: pa.array(list(_NAMES.values())).take(index),
    }
    arrays = [
        made[field.name]() if field.name in made else batch.column(field.name) for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
