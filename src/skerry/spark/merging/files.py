"""Parquet files as tasks write and read them, by Arrow alone."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skerry.spark.lake.delta import NULL_PART, DataFile, measures
from skerry.spark.lake.store import TableStore, disk_error, is_no_room
from skerry.spark.merging.identity import Numbers

__all__ = [
    "bucket_text",
    "conformed_rows",
    "day_text",
    "hour_text",
    "moments",
    "read_rows",
    "time_texts",
    "write_file",
    "write_parts",
]

_PLAIN: Final = frozenset(
    (
        *("order_ns", "time_ns", "sent_ns", "sequence", "position", "payload_bytes"),
        *("valid_from_ns", "valid_to_ns", "valid_from", "valid_to", "removed_ns", "removed"),
    )
)
"""Columns in which hardly two rows are equal: a dictionary of their values only costs time."""
_SPECIAL: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
"""Characters that Spark escapes in the name of a part, too."""
_FIRST_DAY: Final = dt.date(1970, 1, 1)
_HOUR_NS: Final = 3_600_000_000_000


def write_parts(
    store: TableStore,
    table: str,
    folder: str,
    rows: pa.Table,
    part_names: tuple[str, ...],
    parts: Iterable[tuple[tuple[str | None, ...], int, int]],
) -> Iterator[DataFile]:
    """Write rows as one file for each part; `parts` has their values, first and stop rows."""
    for values, start, stop in parts:
        named = dict(zip(part_names, values, strict=True))
        yield write_file(store, table, folder, rows.slice(start, stop - start), named)


def write_file(
    store: TableStore, table: str, folder: str, rows: pa.Table, parts: dict[str, str | None]
) -> DataFile:
    """Write rows as a file of a table that is not in its log yet.

    PipelineError if there is no room.
    """
    inner = "".join(f"{name}={_part_name(value)}/" for name, value in parts.items())
    path = f"{folder}/{inner}{uuid4().hex}.parquet"
    place = store.arrow_path(f"{table}/{path}")
    footers: list[pq.FileMetaData] = []
    try:
        if store.is_local:
            store.files.create_dir(place.rpartition("/")[0], recursive=True)
        pq.write_table(
            rows,
            place,
            filesystem=store.files,
            compression="snappy",
            use_dictionary=[name for name in _columns(rows.schema) if name not in _PLAIN],
            metadata_collector=footers,
            row_group_size=1 << 20,
        )
        size = store.files.get_file_info(place).size
    except (OSError, RuntimeError) as error:
        # Arrow fails once more when it closes the file.
        if is_no_room(f"{error} {error.__context__}"):
            raise disk_error(f"cannot write {table}", store.root, "there is no room") from error
        raise
    low, high = measures(footers[0])
    return DataFile(path=path, byte_count=size, rows=rows.num_rows, parts=parts, low=low, high=high)


def _columns(schema: pa.Schema) -> list[str]:
    """Columns of text and of whole numbers, whose values often repeat."""
    return [
        field.name
        for field in schema
        if pa.types.is_string(field.type)
        or pa.types.is_binary(field.type)
        or pa.types.is_integer(field.type)
    ]


def _part_name(value: str | None) -> str:
    return NULL_PART if value is None else _SPECIAL.sub(lambda found: quote(found[0], ""), value)


def read_rows(
    store: TableStore,
    table: str,
    file: DataFile,
    schema: pa.Schema,
    *,
    columns: Iterable[str] | None = None,
) -> pa.Table:
    """The rows of a file with the columns of a schema, or some of them.

    A column that the file does not have is null, or the value of its part.
    """
    names = list(schema.names if columns is None else columns)
    with store.files.open_input_file(store.arrow_path(f"{table}/{file.path}")) as opened:
        source = pq.ParquetFile(opened)
        known = set(source.schema_arrow.names)
        rows = source.read([name for name in names if name in known])
    wanted = pa.schema([schema.field(name) for name in names])
    return conformed_rows(rows, wanted, file.parts)


def conformed_rows(
    rows: pa.Table, schema: pa.Schema, parts: Mapping[str, str | None] | None = None
) -> pa.Table:
    """Rows with exactly these columns: new ones are null, numbers of the wider kind."""
    arrays = []
    for column in schema:
        if column.name in rows.column_names:
            found = rows.column(column.name)
            arrays.append(found if found.type == column.type else found.cast(column.type))
            continue
        value = None if parts is None else parts.get(column.name)
        if value is None:
            arrays.append(pa.nulls(rows.num_rows, column.type))
        else:
            scalar = pa.scalar(value).cast(column.type)
            arrays.append(pa.repeat(scalar, rows.num_rows))
    return pa.Table.from_arrays(arrays, schema=schema)


# -- parts by time


def time_texts(
    times_ns: Numbers, length_ns: int, text: Callable[[int], str]
) -> list[tuple[tuple[str], int, int]]:
    """The runs of rows, sorted by time, that belong to one part each."""
    parts = np.floor_divide(times_ns, length_ns)
    if not len(parts):
        return []
    starts = np.flatnonzero(np.append(True, parts[1:] != parts[:-1])).tolist()
    return [
        ((text(int(parts[start]) * length_ns),), start, stop)
        for start, stop in zip(starts, [*starts[1:], len(parts)], strict=True)
    ]


def day_text(ns: int) -> str:
    """The day of an instant: `2026-11-15`."""
    return str(_FIRST_DAY + dt.timedelta(days=ns // (24 * _HOUR_NS)))


def hour_text(ns: int) -> str:
    """The hour of an instant: `2026-11-15T14`."""
    return f"{day_text(ns)}T{ns // _HOUR_NS % 24:02}"


def bucket_text(ns: int) -> str:
    """The bucket that begins at an instant: `2026-11-15T1400`."""
    return f"{hour_text(ns)}{ns // 60_000_000_000 % 60:02}"


def moments(times_ns: Numbers, mask: Numbers | None = None) -> pa.Array:
    """Nanoseconds since 1970 as timestamps, which have microseconds."""
    whole = pa.array(np.floor_divide(times_ns, 1000), pa.int64(), mask=mask)
    return whole.cast(pa.timestamp("us", tz="UTC"))
