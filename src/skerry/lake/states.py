"""States of objects at an instant or in a range, and differences between two instants."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.lake.answer import Answer
from skerry.lake.scanning import conformed, dataset_of, scan
from skerry.lake.updates import in_order
from skerry.spark.lake.catalog import OBJECT, STATE_FACTS, field_columns, table_schema
from skerry.spark.lake.data_files import Contents
from skerry.spark.lake.plans import TypeState
from skerry.spark.lake.state_lookup import StateFiles, states_around
from skerry.spark.lake.store import TableStore

_IDENTITY: Final = ("life", "valid_from_ns", "node", "position", "sender", "sequence")
"""States that are equal in all of these columns are the same state."""
_CHANGES: Final = pa.list_(pa.field("element", pa.string()))

_ContentsOf = Callable[[str], Contents | None]


def live_at(
    store: TableStore,
    state: TypeState,
    contents_of: _ContentsOf,
    at_ns: int,
    where: pc.Expression | None = None,
) -> Answer:
    """The state of every object of a type at an instant, with its age in seconds."""
    wanted = table_schema("latest", state.schema)
    fields = [column.name for column in field_columns(state.schema)]
    first = [*OBJECT, "subject", *STATE_FACTS]
    read = pa.schema([wanted.field(name) for name in (*first, *fields)])
    schema = pa.schema(
        [*list(read)[: len(first)], ("age_s", pa.float64()), *list(read)[len(first) :]]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        for files in states_around(state.table, at_ns, contents_of):
            condition = _is_live(files, at_ns)
            if where is not None:
                condition = condition & where
            dataset = dataset_of(store, f"{files.kind}/{state.table}", files.contents)
            for batch in scan(dataset, read.names, condition):
                rows = conformed(batch, read)
                ages_ns = pc.subtract(at_ns, rows.column("valid_from_ns"))
                # Not safe: above 104 days a double has no room for each nanosecond.
                ages = pc.divide(ages_ns.cast("double", safe=False), 1e9)
                arrays = rows.columns
                arrays.insert(len(first), ages)
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return Answer(schema, batches)


def states_between(
    store: TableStore,
    state: TypeState,
    contents_of: _ContentsOf,
    first_ns: int | None,
    stop_ns: int | None,
    where: pc.Expression | None = None,
    *,
    kinds: Sequence[str] = ("history", "latest"),
) -> Answer:
    """The states of a type that were valid at some instant of a range."""
    wanted = table_schema("latest", state.schema)
    schema = pa.schema([field for field in wanted if field.name != "part"])
    condition = where
    for part in (_ends_after(first_ns), _begins_before(stop_ns)):
        if part is not None:
            condition = part if condition is None else condition & part

    def batches() -> Iterator[pa.RecordBatch]:
        for kind in kinds:
            contents = contents_of(f"{kind}/{state.table}")
            if contents is None:
                continue
            # The dataset has the statistics in the log of each file, so few files are opened.
            dataset = dataset_of(store, f"{kind}/{state.table}", contents)
            for batch in scan(dataset, schema.names, condition):
                yield conformed(batch, schema)

    return Answer(schema, batches)


def differences(before: Answer, after: Answer, fields: Sequence[str]) -> Answer:
    """Objects that differ between two answers of `live_at`, sorted by key.

    `change` is added, removed, replaced (another life) or changed; `changed` names the fields.
    """
    packed = pa.struct([before.schema.field(name) for name in fields])
    schema = pa.schema(
        [
            *(before.schema.field(name) for name in (*OBJECT, "subject")),
            ("change", pa.string()),
            ("changed", _CHANGES),
            ("before", packed),
            ("after", packed),
        ]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        ours, theirs = before.to_arrow(), after.to_arrow()
        table = _compared(ours, theirs, fields, packed).cast(schema)
        yield from in_order(table, OBJECT).to_batches()

    return Answer(schema, batches)


# -- conditions


def _is_live(files: StateFiles, at_ns: int) -> pc.Expression:
    has_begun = pc.field("valid_from_ns") <= at_ns
    if files.after_ns is not None:
        has_begun = has_begun & (pc.field("valid_from_ns") > files.after_ns)
    # A current state has no end.
    return has_begun & (pc.field("valid_to_ns").is_null() | (pc.field("valid_to_ns") > at_ns))


def _ends_after(first_ns: int | None) -> pc.Expression | None:
    if first_ns is None:
        return None
    return pc.field("valid_to_ns").is_null() | (pc.field("valid_to_ns") > first_ns)


def _begins_before(stop_ns: int | None) -> pc.Expression | None:
    return None if stop_ns is None else pc.field("valid_from_ns") < stop_ns


# -- two answers


def _compared(
    ours: pa.Table, theirs: pa.Table, fields: Sequence[str], packed: pa.StructType
) -> pa.Table:
    first, second = _paired(ours, theirs)
    a, b = ours.take(first).combine_chunks(), theirs.take(second).combine_chunks()
    is_new, is_gone = first.is_null(), second.is_null()
    in_both = pc.invert(pc.or_(is_new, is_gone))
    differs = [_differs(a.column(name), b.column(name)) for name in fields]
    is_replaced = pc.and_(in_both, pc.fill_null(pc.not_equal(a["life"], b["life"]), False))
    change = pc.case_when(
        pc.make_struct(is_new, is_gone, is_replaced), "added", "removed", "replaced", "changed"
    )
    names = [
        [name for name, here in zip(fields, row, strict=True) if here] if both else []
        for both, *row in zip(in_both.to_pylist(), *(d.to_pylist() for d in differs), strict=True)
    ]
    table = pa.table(
        {
            **{name: pc.coalesce(b[name], a[name]) for name in (*OBJECT, "subject")},
            "change": change,
            "changed": pa.array(names, _CHANGES),
            "before": _packed(a, fields, packed, is_new),
            "after": _packed(b, fields, packed, is_gone),
        }
    )
    is_changed = pa.array([bool(found) for found in names], pa.bool_())
    return table.filter(pc.or_(pc.not_equal(change, "changed"), is_changed))


def _paired(ours: pa.Table, theirs: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Row numbers of the same object in both tables; null if a table does not have it.

    Objects with the same state in both are left out.
    """
    # Row numbers are joined instead of rows, because Arrow cannot join columns of lists.
    columns = [*OBJECT, *_IDENTITY]
    left = ours.select(columns).append_column("a", pa.array(range(ours.num_rows), pa.int64()))
    right = theirs.select(columns).append_column("b", pa.array(range(theirs.num_rows), pa.int64()))
    joined = left.join(
        right, list(OBJECT), join_type="full outer", right_suffix="_b", use_threads=False
    )
    is_same = None
    for name in _IDENTITY:
        equal = pc.fill_null(pc.equal(joined[name], joined[f"{name}_b"]), False)
        is_same = equal if is_same is None else pc.and_(is_same, equal)
    different = joined.filter(pc.invert(is_same))
    return different["a"], different["b"]


def _differs(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether values differ; two nulls are equal, and so are two NaNs."""
    if pa.types.is_nested(ours.type):
        pairs = zip(ours.to_pylist(), theirs.to_pylist(), strict=True)
        return pa.chunked_array([pa.array([not _is_same(a, b) for a, b in pairs], pa.bool_())])
    differs = pc.fill_null(pc.not_equal(ours, theirs), False)
    if pa.types.is_floating(ours.type):
        both = pc.and_(pc.fill_null(pc.is_nan(ours), False), pc.fill_null(pc.is_nan(theirs), False))
        differs = pc.and_not(differs, both)
    return pc.or_(differs, pc.xor(ours.is_null(), theirs.is_null()))


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_is_same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return bool(a == b)


def _packed(
    table: pa.Table, fields: Sequence[str], kind: pa.StructType, is_absent: pa.ChunkedArray
) -> pa.Array:
    """The fields of each row as one struct; null if there is no object."""
    mask = is_absent.combine_chunks()
    arrays = [table.column(name).combine_chunks() for name in fields]
    if not arrays:
        return pa.array([None if absent else {} for absent in mask.to_pylist()], kind)
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)
