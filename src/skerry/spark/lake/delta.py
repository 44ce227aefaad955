"""Tables as Parquet files and a Delta log.

Executors write the files, each job into a folder of its own below the table, where they mean
nothing yet. The driver then enters them into the log, together with those that they take the place
of, in one commit that also names the batch. Reading goes by the log: which files there are, and
from their statistics, which of them can matter. No jar is needed for either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa

from skerry.errors import PipelineError
from skerry.runtime.clock import wall_ns
from skerry.runtime.recordings.files.remote_paths import first_line, store_errors
from skerry.spark.lake.schema import no_rows, quoted, spark_schema
from skerry.spark.lake.store import TableStore, disk_error, is_no_room
from skerry.spark.startup.small_batches import FEW_BYTES, FEW_ROWS, in_one_task

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField

__all__ = [
    "LOG_KEEP_S",
    "NULL_PART",
    "Contents",
    "DataFile",
    "Seen",
    "Table",
    "TableChange",
    "measures",
    "read_files",
]

LOG_KEEP_S: Final = 86_400
"""How long entries of a log stay once a checkpoint has all they say.

Each batch is one, and whoever opens the table lists them. Nothing here needs them any more: the
numbers of batches and the times of removals are in the checkpoint.
"""

NULL_PART: Final = "__HIVE_DEFAULT_PARTITION__"
"""How a part without a value is named in paths."""
_MEASURED: Final = (
    "life",
    "node",
    "order_ns",
    "position",
    "removed_ns",
    "time_ns",
    "valid_from_ns",
    "valid_to_ns",
)
"""Columns whose lowest and highest value are read from the log; it has more for other engines."""
_TEXT_CHARS_MAX: Final = 32
"""Of texts in the log; those that are longer are left out."""
_PLAIN: Final = re.compile(r"[\w.:-]*", re.ASCII)
_SNAPPY: Final = "snappy"
_PLACE: Final = "_metadata.file_path"
_PART: Final = "partition."
_EXTREMES: Final = ("min.", "max.")
_RETENTION: Final = "delta.logRetentionDuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file of a table."""

    path: str
    """Relative to the table."""
    byte_count: int
    rows: int
    parts: Mapping[str, str | None]
    """Values of the columns the table is divided by."""
    low: Mapping[str, Any]
    high: Mapping[str, Any]
    """Of columns without nulls. What is read from a log has those of `_MEASURED`, as numbers."""

    def may_have(self, column: str, low: int, high: int) -> bool:
        """Whether a row may have a value between these, both included."""
        return bool(self.low.get(column, low) <= high and self.high.get(column, high) >= low)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What one commit does to a table."""

    table: str
    schema: str
    """Columns as Delta writes them."""
    divided_by: tuple[str, ...]
    added: tuple[DataFile, ...]
    removed: tuple[str, ...] = ()
    """Paths of files whose place the added ones take."""
    is_replacing: bool = False
    """Whether all there was is removed, and the columns may be of other kinds from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a table held when its log was read, or a part of that."""

    files: tuple[DataFile, ...]
    schema: pa.Schema
    divided_by: tuple[str, ...]

    def only(self, wanted: Callable[[DataFile], bool] | None) -> Contents:
        """The same with the files that are wanted; None wants all."""
        if wanted is None:
            return self
        return replace(self, files=tuple(file for file in self.files if wanted(file)))


Seen = dict[str, "Contents | None"]
"""What tables held, by name; None if there was no such table."""


class Table:
    """One table, as its log stands when it is asked.

    With `seen`, as it stood when somebody asked first, with what was committed here since. A commit
    goes by the log as it is in either case.
    """

    def __init__(
        self,
        store: TableStore,
        name: str,
        *,
        seen: Seen | None = None,
        log_keep_s: int = LOG_KEEP_S,
    ) -> None:
        self.store = store
        self.name = name
        self._seen = seen
        self._log_keep_s = log_keep_s

    def log(self) -> DeltaTable | None:
        """The log as it is now, or None if there is no such table."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            with store_errors("cannot read", f"{self.store.root}/{self.name}", PipelineError):
                return DeltaTable(
                    self.store.delta_path(self.name), storage_options=self.store.delta_options()
                )
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise _unreadable(self.name, self.store, error) from error

    def exists(self) -> bool:
        """Whether anything was ever committed."""
        return (self.log() if self._seen is None else self.contents()) is not None

    def schema(self) -> pa.Schema | None:
        """Its columns, or None if there is no such table."""
        contents = self.contents()
        return None if contents is None else contents.schema

    def files(self, wanted: Callable[[DataFile], bool] | None = None) -> list[DataFile]:
        """Its files, or those that are wanted."""
        contents = self.contents()
        return [] if contents is None else list(contents.only(wanted).files)

    def frame(
        self,
        spark: SparkSession,
        wanted: Callable[[DataFile], bool] | None = None,
        *,
        has_place: bool = False,
    ) -> DataFrame:
        """The rows of the files that are wanted; PipelineError if there is no such table.

        With `has_place`, `file_path` says which file each stands in.
        """
        contents = self.contents()
        if contents is None:
            raise _no_table(self.name, self.store.root)
        return self.rows_of(spark, contents.only(wanted), has_place=has_place)

    def contents(self) -> Contents | None:
        """What it holds, or None if there is no such table."""
        if self._seen is None:
            return _contents_of(self.log())
        if self.name not in self._seen:
            self._seen[self.name] = _contents_of(self.log())
        return self._seen[self.name]

    def rows_of(
        self, spark: SparkSession, contents: Contents, *, has_place: bool = False
    ) -> DataFrame:
        """The rows of what it held."""
        return read_files(
            spark,
            self.store,
            self.name,
            contents.files,
            contents.schema,
            contents.divided_by,
            has_place=has_place,
        )

    def stage(
        self,
        frame: DataFrame,
        divided_by: Sequence[str],
        *,
        label: str,
        rows_max: int = 0,
    ) -> list[DataFile]:
        """Write rows as files that are not in the log yet; PipelineError if there is no room.

        No file has more than `rows_max` rows, if that is given.
        """
        folder = f"{label}-{uuid4().hex[:12]}"
        place = f"{self.name}/{folder}"
        _keep_microseconds(frame.sparkSession)
        writer = (
            frame.write.option("compression", _SNAPPY)
            .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
            .option("maxRecordsPerFile", str(rows_max))
            .partitionBy(*divided_by)
        )
        try:
            writer.parquet(self.store.spark_path(place))
            return self._staged(place)
        except Exception as error:
            self.store.delete_folder(place)
            if is_no_room(str(error)):
                detail = "there is no room"
                raise disk_error(f"cannot write {self.name}", self.store.root, detail) from error
            raise

    def version_of(self, application: str) -> int:
        """The last batch of an application that the table has; -1 if none."""
        log = self.log()
        version = None if log is None else log.transaction_version(application)
        return -1 if version is None else version

    def commit(self, change: TableChange, *, application: str, version: int) -> bool:
        """Enter a change into the log, unless it is there; says whether it was not."""
        log = self.log()
        known = None if log is None else log.transaction_version(application)
        if known is not None and known >= version:
            # The library itself would take the same batch twice.
            self._forget()
            return False
        self._enter(change, log, application, version)
        return True

    def rewrite(self, change: TableChange) -> None:
        """Enter files that tell nothing new, such as the same rows in place of others."""
        self._enter(change, self.log(), None, 0)

    def _enter(
        self, change: TableChange, log: DeltaTable | None, application: str | None, version: int
    ) -> None:
        from deltalake.exceptions import DeltaError

        self._forget()
        try:
            _commit(self.store, change, log, application, version, self._log_keep_s)
        except (DeltaError, OSError) as error:
            what = f"cannot commit to {change.table}"
            raise disk_error(what, self.store.root, first_line(error)) from error
        if self._seen is not None and log is not None:
            # Only what is new is read of the log, which by now may be long.
            log.update_incremental()
            self._seen[self.name] = _contents_of(log)

    def _forget(self) -> None:
        """The next to ask reads the log anew."""
        if self._seen is not None:
            self._seen.pop(self.name, None)

    def _staged(self, place: str) -> list[DataFile]:
        import pyarrow.parquet as pq

        found = []
        for stored in self.store.listed(place):
            name = stored.path.rpartition("/")[2]
            if not name.endswith(".parquet") or name.startswith((".", "_")):
                self.store.delete(stored.path)
                continue
            footer = pq.read_metadata(
                self.store.arrow_path(stored.path), filesystem=self.store.files
            )
            low, high = measures(footer)
            found.append(
                DataFile(
                    path=stored.path[len(self.name) + 1 :],
                    byte_count=stored.byte_count,
                    rows=footer.num_rows,
                    parts=_parts(stored.path[len(place) + 1 :]),
                    low=low,
                    high=high,
                )
            )
        return [file for file in found if file.rows]


def read_files(
    spark: SparkSession,
    store: TableStore,
    table: str,
    files: Iterable[DataFile],
    schema: pa.Schema,
    divided_by: Sequence[str],
    *,
    has_place: bool = False,
) -> DataFrame:
    """The rows of some files of a table."""
    columns = spark_schema(schema)
    if has_place:
        columns = columns.add("file_path", "string")
    found = list(files)
    if not found:
        return no_rows(spark, columns)
    paths = [store.spark_path(f"{table}/{file.path}") for file in found]
    folders = {file.path.partition("/")[0] for file in found}
    if divided_by and len(folders) == 1 and not has_place:
        # Spark itself reads the parts from names below one folder. Elsewhere they are made of the
        # path of each row, which costs as much as a few columns.
        base = store.spark_path(f"{table}/{folders.pop()}")
        made = spark.read.schema(columns).option("basePath", base).parquet(*paths)
        if columns.names[-len(divided_by) :] != list(divided_by):
            # Spark has the parts last, a table that got new columns has not.
            made = made.selectExpr(*map(quoted, columns.names))
        return in_one_task(made) if _is_few(found) else made
    inside = spark_schema(pa.schema([f for f in schema if f.name not in divided_by]))
    rows = spark.read.schema(inside).parquet(*paths)
    chosen = []
    for column in columns:
        if column.name in divided_by:
            chosen.append(f"{_part_text(column, found)} as {column.name}")
        elif has_place and column.name == "file_path":
            inside_table = _decoded(f"substring_index({_PLACE}, '/{table}/', -1)")
            chosen.append(f"{inside_table} as file_path")
        else:
            chosen.append(quoted(column.name))
    # As text: an expression is many messages to the JVM.
    made = rows.selectExpr(*chosen)
    return in_one_task(made) if _is_few(found) else made


def _is_few(files: Sequence[DataFile]) -> bool:
    rows, size = sum(file.rows for file in files), sum(file.byte_count for file in files)
    return rows <= FEW_ROWS and size <= FEW_BYTES


def _part_text(column: StructField, files: Sequence[DataFile]) -> str:
    """The value of a column that the files are divided by."""
    kind = column.dataType.simpleString()
    values = {file.parts.get(column.name) for file in files}
    if len(values) == 1:
        (value,) = values
        # Names of types come from strangers, and a text means things to Spark.
        if value is not None and _PLAIN.fullmatch(value):
            return f"cast('{value}' as {kind})"
    text = f"regexp_extract({_PLACE}, '/{column.name}=([^/]*)/', 1)"
    # Once for the name of the file, once for the name of the part in it.
    return f"cast(nullif({_decoded(_decoded(text))}, '{NULL_PART}') as {kind})"


def _decoded(text: str) -> str:
    return f"url_decode(replace({text}, '+', '%2B'))"


# -- the log


def _commit(
    store: TableStore,
    change: TableChange,
    log: DeltaTable | None,
    application: str | None,
    version: int,
    log_keep_s: int,
) -> None:
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
        # A table of before. One that somebody chose otherwise for stays as it is.
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
            f"{len(missing)} files of {change.table} that were to be replaced are gone: "
            f"{missing[0]}"
        )
        error.hint = "two jobs wrote to one folder of tables; let one do it"
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
    """A new nullable column changes nothing for the rows there are, so it may go ahead alone."""
    known = {field.name for field in log.schema().fields}
    new = [field for field in schema.fields if field.name not in known]
    if new:
        log.alter.add_columns(new)
        log.update_incremental()


def _contents_of(log: DeltaTable | None) -> Contents | None:
    if log is None:
        return None
    return Contents(
        files=tuple(_files_of(log)),
        schema=pa.schema(log.schema().to_arrow()),
        divided_by=tuple(log.metadata().partition_columns),
    )


def _files_of(log: DeltaTable) -> list[DataFile]:
    # Column by column: a table of a year has thousands of files, and each question reads this.
    table = pa.table(log.get_add_actions(flatten=True))
    places, sizes, counts = (
        table.column(name).to_pylist() for name in ("path", "size_bytes", "num_records")
    )
    parts = _by_file(table, _PART, _parts_of(table))
    lows, highs = (_by_file(table, prefix, _measured(table, prefix)) for prefix in _EXTREMES)
    return [
        DataFile(
            path=unquote(place),
            byte_count=size,
            rows=count or 0,
            parts={k: None if v is None else str(v) for k, v in part.items()},
            low={k: v for k, v in low.items() if v is not None},
            high={k: v for k, v in high.items() if v is not None},
        )
        for place, size, count, part, low, high in zip(
            places, sizes, counts, parts, lows, highs, strict=True
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


def _measured(table: pa.Table, prefix: str) -> list[str]:
    """The measured columns that the log knows numbers of."""
    known = set(table.column_names)
    named = [name for name in _MEASURED if prefix + name in known]
    return [name for name in named if pa.types.is_integer(table.column(prefix + name).type)]


def _statistics(file: DataFile) -> str:
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": dict(file.low),
            "maxValues": dict(file.high),
            "nullCount": dict.fromkeys(file.low, 0),
        }
    )


def measures(footer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Lowest and highest values of a file, of the columns that have no nulls in it.

    Whole numbers, texts and times have them, in the form of a Delta log; of floats a footer does
    not tell whether some are no numbers, which engines sort above all others.
    """
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    if footer.num_row_groups == 0:
        return low, high
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        groups = [footer.row_group(g).column(index) for g in range(footer.num_row_groups)]
        stats = [group.statistics for group in groups]
        if all(s is not None and s.has_min_max and s.null_count == 0 for s in stats):
            lowest, highest = min(s.min for s in stats), max(s.max for s in stats)
            if "." not in name and _is_told(lowest) and _is_told(highest):
                low[name], high[name] = _told(lowest), _told(highest, is_high=True)
    return low, high


def _is_told(value: Any) -> bool:
    """Whether a log has values of this kind; a long text would have to be cut."""
    if isinstance(value, str):
        return len(value) <= _TEXT_CHARS_MAX
    return isinstance(value, int | datetime) and not isinstance(value, bool)


def _told(value: Any, *, is_high: bool = False) -> Any:
    """A value as logs have it: times in milliseconds, so rounded that all are in between."""
    if not isinstance(value, datetime):
        return value
    utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if is_high and utc.microsecond % 1000:
        utc += timedelta(milliseconds=1)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03}Z"


def _parts(path: str) -> dict[str, str | None]:
    """The values that stand in the names of folders."""
    named = (piece.partition("=") for piece in path.split("/")[:-1])
    return {name: None if value == NULL_PART else unquote(value) for name, _, value in named}


def _keep_microseconds(spark: SparkSession) -> None:
    # Spark's own way to write a timestamp is one that other readers guess at.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")


def _unreadable(name: str, store: TableStore, cause: Exception) -> PipelineError:
    error = PipelineError(f"the log of table {name} cannot be read: {first_line(cause)}")
    error.hint = (
        f"restore {store.root}/{name}/_delta_log, or make the tables anew in another folder"
    )
    return error


def _no_table(name: str, root: str) -> PipelineError:
    error = PipelineError(f"there is no table {name} in {root}")
    error.hint = "`skerry pipeline tables` lists those that are there"
    return error
