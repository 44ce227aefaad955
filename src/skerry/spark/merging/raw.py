"""Writes the rows of the table `raw`: gaps, and updates of types without a definition."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skerry.spark.lake.buckets import DAY_NS, day_text
from skerry.spark.lake.catalog import table_schema
from skerry.spark.lake.data_files import DataFile
from skerry.spark.lake.store import TableStore
from skerry.spark.merging.files import read_rows, write_file
from skerry.spark.merging.identity import BY_CONTENT, Numbers, identity_of, is_run_start, numbers_of
from skerry.spark.merging.work import TableWork

_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{0,200}")
_CHARS_MAX: Final = 60
"""Limit of any other name: a character takes up to four bytes, a folder name at most 255."""
_CONTENT: Final = ("key", "operation", "present", "subject", "type", "sent_ns", "payload")


def write_raw(store: TableStore, folder: str, rows: pa.Table, table: TableWork) -> list[DataFile]:
    """Write rows of `raw`, one file per day and type, without the rows that the table has."""
    types = rows.column("type").combine_chunks()
    if isinstance(types, pa.ChunkedArray):
        types = pa.concat_arrays(types.chunks)
    names = pa.array([folder_type(name) for name in types.dictionary.to_pylist()], pa.string())
    rows = rows.set_column(rows.column_names.index("type"), "type", names.take(types.indices))
    rows = rows.append_column("order_ns", rows.column("time_ns"))
    if table.known:
        rows = _unseen(store, rows, table)
    schema = table_schema("raw")
    columns = pa.schema([column for column in schema if column.name not in ("day", "type")])
    return [
        write_file(
            store,
            "raw",
            folder,
            part.select(columns.names).cast(columns),
            {"day": day, "type": name},
        )
        for day, name, part in _parts(rows)
    ]


def folder_type(name: str) -> str | None:
    """The name of a type as a partition value; type names are untrusted."""
    if not name:
        return None
    return name if _SAFE_NAME.fullmatch(name) else name.replace("\0", "\ufffd")[:_CHARS_MAX]


def _parts(rows: pa.Table) -> Iterator[tuple[str, str | None, pa.Table]]:
    days = np.floor_divide(numbers_of(rows.column("time_ns")), DAY_NS)
    encoded = rows.column("type").combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.unify_dictionaries().chunks)
    codes = numbers_of(encoded.indices).astype(np.int64)
    order = np.lexsort((numbers_of(rows.column("time_ns")), codes, days))
    days, codes = days[order], codes[order]
    starts = np.flatnonzero(is_run_start(days, codes)).tolist()
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        part = rows.take(pa.array(order[start:stop]))
        day = day_text(int(days[start]) * DAY_NS)
        yield day, encoded.dictionary[int(codes[start])].as_py(), part


def _unseen(store: TableStore, rows: pa.Table, table: TableWork) -> pa.Table:
    """Rows that are not in the table. There are few as a rule, so they are compared in Python."""
    known: set[tuple[Any, ...]] = set()
    schema = table_schema("raw")
    for file in table.known:
        known.update(_identities(read_rows(store, "raw", file, schema)))
    is_new: Numbers = np.array([found not in known for found in _identities(rows)], bool)
    return rows.filter(pa.array(is_new))


def _identities(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    identity = identity_of(rows)
    contents = zip(*rows.select(_CONTENT).to_pydict().values(), strict=True)
    for kind, node, sender, number, content in zip(
        *(column.tolist() for column in identity), contents, strict=True
    ):
        yield (kind, node, sender, number, content if kind == BY_CONTENT else content[4])
