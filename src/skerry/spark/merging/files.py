"""Reads and writes the Parquet files of tables with Arrow, without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skerry.spark.lake.data_files import NULL_PART, DataFile, written_file
from skerry.spark.lake.store import TableStore, disk_error, is_disk_full
from skerry.spark.merging.identity import Numbers, is_run_start

_UNENCODED: Final = frozenset(
    (
        *("order_ns", "time_ns", "sent_ns", "sequence", "position", "payload_bytes"),
        *("valid_from_ns", "valid_to_ns", "valid_from", "valid_to", "removed_ns", "removed"),
    )
)
"""Columns whose values rarely repeat: dictionary encoding would only cost time."""
_SPECIAL: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
"""Characters that Spark, too, escapes in partition values."""


def write_parts(
    store: TableStore,
    table: str,
    folder: str,
    rows: pa.Table,
    part_names: tuple[str, ...],
    parts: Iterable[tuple[tuple[str | None, ...], int, int]],
) -> Iterator[DataFile]:
    """Write one file per part; `parts` has the partition values, the first and the stop row."""
    for values, start, stop in parts:
        named = dict(zip(part_names, values, strict=True))
        yield write_file(store, table, folder, rows.slice(start, stop - start), named)


def write_file(
    store: TableStore, table: str, folder: str, rows: pa.Table, parts: Mapping[str, str | None]
) -> DataFile:
    """Write rows as a file of a table without committing it; PipelineError if the disk is full."""
    inner = "".join(f"{name}={_part_name(value)}/" for name, value in parts.items())
    path = f"{folder}/{inner}{uuid4().hex}.parquet"
    arrow_path = store.arrow_path(f"{table}/{path}")
    footers: list[pq.FileMetaData] = []
    try:
        if store.is_local:
            store.files.create_dir(arrow_path.rpartition("/")[0], recursive=True)
        pq.write_table(
            rows,
            arrow_path,
            filesystem=store.files,
            compression="snappy",
            use_dictionary=_encoded_columns(rows.schema),
            metadata_collector=footers,
            row_group_size=1 << 20,
        )
        size = store.files.get_file_info(arrow_path).size
    except (OSError, RuntimeError) as error:
        # Arrow raises a second error when it closes the file.
        if is_disk_full(f"{error} {error.__context__}"):
            raise disk_error(f"cannot write {table}", store.root, "no space left") from error
        raise
    return written_file(path, footers[0], size, parts)


def _encoded_columns(schema: pa.Schema) -> list[str]:
    """Columns of texts, bytes and integers whose values often repeat."""
    kinds = (pa.types.is_string, pa.types.is_binary, pa.types.is_integer)
    return [
        field.name
        for field in schema
        if field.name not in _UNENCODED and any(is_kind(field.type) for is_kind in kinds)
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

    A column that is not in the file has the partition value of the file, or null.
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
    """Rows with exactly these columns: new ones are null, others are cast to the wider type."""
    arrays = []
    for column in schema:
        if column.name in rows.column_names:
            chunks = rows.column(column.name).chunks
            found = [conformed_array(chunk, column.type) for chunk in chunks]
            arrays.append(pa.chunked_array(found, column.type))
            continue
        value = None if parts is None else parts.get(column.name)
        if value is None:
            arrays.append(pa.nulls(rows.num_rows, column.type))
        else:
            scalar = pa.scalar(value).cast(column.type)
            arrays.append(pa.repeat(scalar, rows.num_rows))
    return pa.Table.from_arrays(arrays, schema=schema)


def conformed_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column cast to a wider type; fields that a struct in it does not have are null."""
    if array.type == wanted:
        return array
    if pa.types.is_struct(wanted):
        names = {field.name for field in array.type}
        # `struct_field` ignores the nulls of the struct itself; the mask has them.
        inner = [
            conformed_array(pc.struct_field(array, [field.name]), field.type)
            if field.name in names
            else pa.nulls(len(array), field.type)
            for field in wanted
        ]
        return pa.StructArray.from_arrays(inner, fields=list(wanted), mask=array.is_null())
    if pa.types.is_list(wanted) and pa.types.is_struct(wanted.value_type):
        values = conformed_array(array.flatten(), wanted.value_type)
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array([0, *lengths.cumsum().tolist()], pa.int32())
        return pa.ListArray.from_arrays(offsets, values, type=wanted, mask=array.is_null())
    return array.cast(wanted)


# -- parts by time


def time_parts(
    times_ns: Numbers, length_ns: int, text: Callable[[int], str]
) -> list[tuple[tuple[str], int, int]]:
    """The parts of rows that are sorted by time, for `write_parts`."""
    parts = np.floor_divide(times_ns, length_ns)
    starts = np.flatnonzero(is_run_start(parts)).tolist()
    stops = [*starts[1:], len(parts)][: len(starts)]
    return [
        ((text(int(parts[start]) * length_ns),), start, stop)
        for start, stop in zip(starts, stops, strict=True)
    ]


def timestamps(times_ns: Numbers, mask: Numbers | None = None) -> pa.Array:
    """Nanoseconds since 1970 as timestamps, rounded down to microseconds."""
    whole = pa.array(np.floor_divide(times_ns, 1000), pa.int64(), mask=mask)
    return whole.cast(pa.timestamp("us", tz="UTC"))
