"""Writes the rows of the table `raw`: gaps, and updates of types without a definition."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
_CONTENT: Final = ("key", "operation", "present", "subject", "sent_ns", "payload")


def write_raw(store: TableStore, folder: str, rows: pa.Table, table: TableWork) -> list[DataFile]:
    """Write rows of `raw`, one file per day and type, without the rows that the table has."""
    types = rows.column("type").combine_chunks()
    if isinstance(types, pa.ChunkedArray):
        types = pa.concat_arrays(types.chunks)
    names = pa.array([folder_type(name) for name in types.dictionary.to_pylist()], pa.string())
    rows = rows.set_column(rows.column_names.index("type"), "type", names.take(types.indices))
    rows = rows.append_column("order_ns", rows.column("time_ns"))
    schema = table_schema("raw")
    if table.known:
        known = (read_rows(store, "raw", file, schema) for file in table.known)
        rows = unseen_rows(rows, known, _CONTENT)
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


def unseen_rows(rows: pa.Table, known: Iterable[pa.Table], columns: Sequence[str]) -> pa.Table:
    """Rows that are not among known ones; `columns` are the content of rows without a number.

    There are few as a rule, so they are compared in Python.
    """
    seen: set[tuple[Any, ...]] = set()
    for table in known:
        seen.update(_identities(table, columns))
    is_new: Numbers = np.array([found not in seen for found in _identities(rows, columns)], bool)
    return rows.filter(pa.array(is_new))


def _identities(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    identity = identity_of(rows)
    contents = zip(*rows.select(columns).to_pydict().values(), strict=True)
    types = rows.column("type").to_pylist()
    for kind, node, sender, number, type_, content in zip(
        *(column.tolist() for column in identity), types, contents, strict=True
    ):
        yield (kind, node, sender, number, type_, content if kind == BY_CONTENT else ())
