"""The Delta log of one table: reading its contents and committing changes to it.

This is the only module that calls the Delta library for logs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from skerry.errors import PipelineError
from skerry.runtime.clock import wall_ns
from skerry.runtime.recordings.files.remote_paths import first_line, store_errors
from skerry.spark.lake.data_files import Contents, DataFile, TableChange
from skerry.spark.lake.store import TableStore

if TYPE_CHECKING:
    from deltalake import DeltaTable


LOG_KEEP_S: Final = 86_400
"""How long entries of a log are kept after a checkpoint includes them.

Each batch is one entry, and every reader of the table lists them. The pipeline does not need old
entries: the checkpoint holds the batch numbers and the times of removals.
"""

_RANGED_COLUMNS: Final = (
    "life",
    "node",
    "order_ns",
    "position",
    "removed_ns",
    "time_ns",
    "valid_from_ns",
    "valid_to_ns",
)
"""Columns whose lowest and highest values are read from the log; it has more for other engines."""
_PART: Final = "partition."
_EXTREMES: Final = ("min.", "max.")
_RETENTION: Final = "delta.logRetentionDuration"


def open_log(store: TableStore, name: str) -> DeltaTable | None:
    """The current log of a table, or None if the table does not exist."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        with store_errors("cannot read", f"{store.root}/{name}", PipelineError):
            return DeltaTable(store.delta_path(name), storage_options=store.delta_options())
    except TableNotFoundError:
        return None
    except DeltaError as error:
        raise _unreadable(name, store, error) from error


# -- contents


def contents_of_log(log: DeltaTable | None) -> Contents | None:
    """The contents of a table by its log; None for a table that does not exist."""
    if log is None:
        return None
    return Contents(
        files=tuple(_files_of(log)),
        schema=pa.schema(log.schema().to_arrow()),
        divided_by=tuple(log.metadata().partition_columns),
    )


def _files_of(log: DeltaTable) -> list[DataFile]:
    # Column by column: a table of a year has thousands of files, and each query reads this.
    table = pa.table(log.get_add_actions(flatten=True))
    paths, sizes, counts = (
        table.column(name).to_pylist() for name in ("path", "size_bytes", "num_records")
    )
    parts = _by_file(table, _PART, _parts_of(table))
    lows, highs = (_by_file(table, prefix, _ranged(table, prefix)) for prefix in _EXTREMES)
    return [
        DataFile(
            path=unquote(path),
            byte_count=size,
            rows=count or 0,
            parts={k: None if v is None else str(v) for k, v in part.items()},
            low={k: v for k, v in low.items() if v is not None},
            high={k: v for k, v in high.items() if v is not None},
        )
        for path, size, count, part, low, high in zip(
            paths, sizes, counts, parts, lows, highs, strict=True
        )
    ]


def _by_file(table: pa.Table, prefix: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """For each file the values of some columns, by their names without the prefix."""
    values = (table.column(prefix + name).to_pylist() for name in names)
    rows = zip(*values, strict=True) if names else repeat((), table.num_rows)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _parts_of(table: pa.Table) -> list[str]:
    found = (name.partition(_PART) for name in table.column_names)
    return [rest for before, prefix, rest in found if prefix and not before]


def _ranged(table: pa.Table, prefix: str) -> list[str]:
    """The columns of `_RANGED_COLUMNS` for which the log holds numbers."""
    known = set(table.column_names)
    named = [name for name in _RANGED_COLUMNS if prefix + name in known]
    return [name for name in named if pa.types.is_integer(table.column(prefix + name).type)]


# -- commits


def commit_change(
    store: TableStore,
    change: TableChange,
    log: DeltaTable | None,
    *,
    application: str | None,
    version: int,
    log_keep_s: int,
) -> None:
    """Commit a change; with an application, together with the version of its batch.

    Creates the table if `log` is None. Without an application, the commit is marked as one that
    does not change data. Raises PipelineError if a file to be replaced is not in the table.
    """
    from deltalake import CommitProperties, Schema, Transaction
    from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

    now_ms = wall_ns() // 1_000_000
    schema = Schema.from_json(change.schema)
    is_data = application is not None
    adds = [
        AddAction(
            path=file.path,
            size=file.byte_count,
            partition_values=dict(file.parts),
            modification_time=now_ms,
            data_change=is_data,
            stats=_statistics(file),
        )
        for file in change.added
    ]
    properties = CommitProperties(
        app_transactions=[Transaction(application, version)] if application else None,
        max_commit_retries=0,
    )
    settings = {_RETENTION: f"interval {log_keep_s} seconds"}
    if log is None:
        create_table_with_add_actions(
            store.delta_path(change.table),
            schema,
            adds,
            mode="error",
            partition_by=list(change.divided_by),
            configuration=settings,
            storage_options=store.delta_options(),
            commit_properties=properties,
        )
        return
    removes = [] if change.is_replacing else _removes(log, change, RemoveAction, now_ms, is_data)
    if _RETENTION not in log.metadata().configuration:
        # A table of an earlier version. A retention that was set explicitly is not changed.
        log.alter.set_table_properties(settings)
        log.update_incremental()
    if not change.is_replacing:
        _add_columns(log, schema)
    log.create_write_transaction(
        [*adds, *removes],
        "overwrite" if change.is_replacing else "append",
        schema,
        partition_by=list(change.divided_by),
        commit_properties=properties,
    )


def _removes(
    log: DeltaTable, change: TableChange, action: Callable[..., Any], now_ms: int, is_data: bool
) -> list[Any]:
    active = {file.path: file for file in _files_of(log)} if change.removed else {}
    missing = [path for path in change.removed if path not in active]
    if missing:
        error = PipelineError(
            f"cannot commit to {change.table}: {len(missing)} files to be replaced are not in the "
            f"table any more, such as {missing[0]}"
        )
        error.hint = "two jobs wrote to one folder of tables; run only one"
        raise error
    return [
        action(
            path,
            data_change=is_data,
            deletion_timestamp=now_ms,
            size=active[path].byte_count,
            partition_values=dict(active[path].parts),
        )
        for path in change.removed
    ]


def _add_columns(log: DeltaTable, schema: Any) -> None:
    """Add new columns in a commit of its own: a nullable column does not affect existing rows."""
    known = {field.name for field in log.schema().fields}
    new = [field for field in schema.fields if field.name not in known]
    if new:
        log.alter.add_columns(new)
        log.update_incremental()


def _statistics(file: DataFile) -> str:
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": dict(file.low),
            "maxValues": dict(file.high),
            "nullCount": dict.fromkeys(file.low, 0),
        }
    )


def _unreadable(name: str, store: TableStore, cause: Exception) -> PipelineError:
    error = PipelineError(f"the log of table {name} cannot be read: {first_line(cause)}")
    error.hint = f"restore {store.root}/{name}/_delta_log, or rebuild the tables in another folder"
    return error
