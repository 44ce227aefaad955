"""Files of a table as an Arrow dataset, read only as far as a query needs.

A file that cannot match by its statistics in the log is not opened, and a row group that cannot
match by its footer is not read. The number of rows in memory does not depend on the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from skerry.errors import PipelineError
from skerry.runtime.recordings.files.remote_paths import first_line
from skerry.spark.lake.data_files import Contents, DataFile
from skerry.spark.lake.store import TableStore
from skerry.spark.merging.files import conformed_array

BATCH_ROWS: Final = 65_536
_BATCHES_AHEAD: Final = 2
_FILES_AHEAD: Final = 2


def dataset_of(store: TableStore, table: str, contents: Contents) -> ds.Dataset:
    """The rows of some files of a table, with the columns in its log."""
    schema = arrow_schema(contents.schema)
    # One read for many columns saves requests to a remote path; locally it only needs memory.
    options = ds.ParquetFragmentScanOptions(pre_buffer=not store.is_local)
    format_ = ds.ParquetFileFormat(default_fragment_scan_options=options)
    fragments = [
        format_.make_fragment(
            store.arrow_path(f"{table}/{file.path}"),
            filesystem=store.files,
            partition_expression=_guarantee(file, contents.divided_by, schema),
        )
        for file in contents.files
    ]
    return ds.FileSystemDataset(fragments, schema, format_, store.files)


def scan(
    dataset: ds.Dataset, columns: Iterable[str], where: pc.Expression | None
) -> Iterator[pa.RecordBatch]:
    """The rows for which `where` is true; columns that are not in the dataset are left out.

    PipelineError if a file cannot be read, or `where` does not match the columns.
    """
    known = set(dataset.schema.names)
    try:
        scanner = dataset.scanner(
            columns=[name for name in columns if name in known],
            filter=where,
            batch_size=BATCH_ROWS,
            batch_readahead=_BATCHES_AHEAD,
            fragment_readahead=_FILES_AHEAD,
        )
    except pa.ArrowException as error:
        raise PipelineError(f"invalid condition: {first_line(error)}") from error
    try:
        yield from scanner.to_batches()
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(error) from error


def conformed(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The rows with exactly these columns: new ones are null, others are cast to wider types."""
    known = set(batch.schema.names)
    arrays = [
        conformed_array(batch.column(field.name), field.type)
        if field.name in known
        else pa.nulls(batch.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def arrow_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a log in the common Arrow types; all are nullable."""
    return pa.schema([pa.field(field.name, _common(field.type)) for field in schema])


def _unreadable(cause: Exception) -> PipelineError:
    error = PipelineError(f"cannot read a file of a table: {first_line(cause)}")
    error.hint = "if a vacuum has just deleted it, repeat the query; see `skerry pipeline vacuum`"
    return error


def _common(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_map(kind):
        key = pa.field("key", _common(kind.key_type), nullable=False)
        return pa.map_(key, pa.field("value", _common(kind.item_type)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _common(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(inner.name, _common(inner.type)) for inner in kind])
    return kind


def _guarantee(file: DataFile, divided_by: Iterable[str], schema: pa.Schema) -> pc.Expression:
    """A condition that all rows of a file satisfy, according to the log."""
    parts = [_part(name, file.parts.get(name), schema) for name in divided_by]
    bounds = [
        (pc.field(name) >= low) & (pc.field(name) <= file.high[name])
        for name, low in file.low.items()
        if name in file.high and name in schema.names
    ]
    whole = pc.scalar(True)
    for expression in (*parts, *bounds):
        whole = whole & expression
    return whole


def _part(name: str, value: str | None, schema: pa.Schema) -> pc.Expression:
    if value is None:
        return pc.is_null(pc.field(name))
    typed: Any = pa.scalar(value).cast(schema.field(name).type)
    return pc.field(name) == typed
