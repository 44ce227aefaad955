"""Tables as Parquet files and a Delta log.

Executors write the files, each job into its own folder below the table. These files are not part
of the table yet. The driver then commits them to the log (`delta_log`), together with the removal
of the files they replace and the number of the batch. Reading starts with the log: it lists the
files, and their statistics show which of them a query needs. Neither needs a jar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa

from skerry.errors import PipelineError
from skerry.runtime.recordings.files.remote_paths import first_line
from skerry.spark.lake.data_files import (
    NULL_PART,
    Contents,
    DataFile,
    TableChange,
    parts_of_path,
    written_file,
)
from skerry.spark.lake.delta_log import LOG_KEEP_S, commit_change, contents_of_log, open_log
from skerry.spark.lake.schema import no_rows, quoted, spark_schema
from skerry.spark.lake.store import TableStore, disk_error, is_disk_full
from skerry.spark.startup.small_batches import FEW_BYTES, FEW_ROWS

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField


_SAFE_TEXT: Final = re.compile(r"[\w.:-]*", re.ASCII)
_FILE_PATH: Final = "_metadata.file_path"

ContentsCache = dict[str, "Contents | None"]
"""Contents of tables by name; None for a table that does not exist."""


class Table:
    """One table of a lake.

    Each call reads the current log. With a `cache`, the log is read once, and the cached contents
    are updated by the commits made here. A commit always uses the current log.
    """

    def __init__(
        self,
        store: TableStore,
        name: str,
        *,
        cache: ContentsCache | None = None,
        log_keep_s: int = LOG_KEEP_S,
    ) -> None:
        self.store = store
        self.name = name
        self._cache = cache
        self._log_keep_s = log_keep_s

    def log(self) -> DeltaTable | None:
        """The current log, or None if the table does not exist."""
        return open_log(self.store, self.name)

    def exists(self) -> bool:
        """Whether the table has had a commit."""
        return (self.log() if self._cache is None else self.contents()) is not None

    def schema(self) -> pa.Schema | None:
        """The columns, or None if the table does not exist."""
        contents = self.contents()
        return None if contents is None else contents.schema

    def files(self, wanted: Callable[[DataFile], bool] | None = None) -> list[DataFile]:
        """The files that match, or all."""
        contents = self.contents()
        return [] if contents is None else list(contents.only(wanted).files)

    def frame(
        self,
        spark: SparkSession,
        wanted: Callable[[DataFile], bool] | None = None,
    ) -> DataFrame:
        """The rows of the files that match; PipelineError if the table does not exist."""
        contents = self.contents()
        if contents is None:
            raise _no_table(self.name, self.store.root)
        return self.rows_of(spark, contents.only(wanted))

    def contents(self) -> Contents | None:
        """The contents of the table, or None if it does not exist."""
        if self._cache is None:
            return contents_of_log(self.log())
        if self.name not in self._cache:
            self._cache[self.name] = contents_of_log(self.log())
        return self._cache[self.name]

    def rows_of(self, spark: SparkSession, contents: Contents) -> DataFrame:
        """The rows of these contents of the table."""
        return read_files(
            spark,
            self.store,
            self.name,
            contents.files,
            contents.schema,
            contents.divided_by,
        )

    def stage(
        self,
        frame: DataFrame,
        divided_by: Sequence[str],
        *,
        label: str,
    ) -> list[DataFile]:
        """Write rows as files without committing them; PipelineError if the disk is full."""
        folder = f"{self.name}/{label}-{uuid4().hex[:12]}"
        _keep_microseconds(frame.sparkSession)
        writer = (
            frame.write.option("compression", "snappy")
            .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
            .partitionBy(*divided_by)
        )
        try:
            writer.parquet(self.store.spark_path(folder))
            return self._staged(folder)
        except Exception as error:
            self.store.delete_folder(folder)
            if is_disk_full(str(error)):
                detail = "no space left"
                raise disk_error(f"cannot write {self.name}", self.store.root, detail) from error
            raise

    def version_of(self, application: str) -> int:
        """The last batch of an application that was committed to the table; -1 if none."""
        log = self.log()
        version = None if log is None else log.transaction_version(application)
        return -1 if version is None else version

    def commit(self, change: TableChange, *, application: str, version: int) -> bool:
        """Commit a change unless the table has this version; returns whether it was committed."""
        log = self.log()
        known = None if log is None else log.transaction_version(application)
        if known is not None and known >= version:
            # The library itself would commit the same batch twice.
            self._invalidate()
            return False
        self._commit(change, log, application, version)
        return True

    def rewrite(self, change: TableChange) -> None:
        """Commit a change that keeps the rows, such as compacted files in place of small ones."""
        self._commit(change, self.log(), None, 0)

    def _commit(
        self, change: TableChange, log: DeltaTable | None, application: str | None, version: int
    ) -> None:
        from deltalake.exceptions import DeltaError

        self._invalidate()
        try:
            commit_change(
                self.store,
                change,
                log,
                application=application,
                version=version,
                log_keep_s=self._log_keep_s,
            )
        except (DeltaError, OSError) as error:
            what = f"cannot commit to {change.table}"
            raise disk_error(what, self.store.root, first_line(error)) from error
        if self._cache is not None and log is not None:
            # Reads only the new entries of the log, which may be long.
            log.update_incremental()
            self._cache[self.name] = contents_of_log(log)

    def _invalidate(self) -> None:
        """Drop the cached contents, so that the next call reads the log again."""
        if self._cache is not None:
            self._cache.pop(self.name, None)

    def _staged(self, folder: str) -> list[DataFile]:
        import pyarrow.parquet as pq

        found = []
        for stored in self.store.listed(folder):
            name = stored.path.rpartition("/")[2]
            if not name.endswith(".parquet") or name.startswith((".", "_")):
                self.store.delete(stored.path)
                continue
            footer = pq.read_metadata(
                self.store.arrow_path(stored.path), filesystem=self.store.files
            )
            path = stored.path[len(self.name) + 1 :]
            parts = parts_of_path(stored.path[len(folder) + 1 :])
            found.append(written_file(path, footer, stored.byte_count, parts))
        return [file for file in found if file.rows]


def read_files(
    spark: SparkSession,
    store: TableStore,
    table: str,
    files: Iterable[DataFile],
    schema: pa.Schema,
    divided_by: Sequence[str],
) -> DataFrame:
    """The rows of some files of a table."""
    columns = spark_schema(schema)
    found = list(files)
    if not found:
        return no_rows(spark, columns)
    paths = [store.spark_path(f"{table}/{file.path}") for file in found]
    folders = {file.path.partition("/")[0] for file in found}
    if divided_by and len(folders) == 1:
        # Spark reads partition values from the names below one folder. With several folders they
        # are computed from the path of each row, which costs as much as a few columns.
        base = store.spark_path(f"{table}/{folders.pop()}")
        made = spark.read.schema(columns).option("basePath", base).parquet(*paths)
        if columns.names[-len(divided_by) :] != list(divided_by):
            # Spark puts partition columns last. In a table that got new columns they are not.
            made = made.selectExpr(*map(quoted, columns.names))
        return made.coalesce(1) if _is_few(found) else made
    inside = spark_schema(pa.schema([f for f in schema if f.name not in divided_by]))
    rows = spark.read.schema(inside).parquet(*paths)
    chosen = []
    for column in columns:
        if column.name in divided_by:
            chosen.append(f"{_part_text(column, found)} as {column.name}")
        else:
            chosen.append(quoted(column.name))
    # As text: building an expression takes many messages to the JVM.
    made = rows.selectExpr(*chosen)
    return made.coalesce(1) if _is_few(found) else made


def _is_few(files: Sequence[DataFile]) -> bool:
    """Whether the rows fit into one task, which avoids a shuffle."""
    rows, size = sum(file.rows for file in files), sum(file.byte_count for file in files)
    return rows <= FEW_ROWS and size <= FEW_BYTES


def _part_text(column: StructField, files: Sequence[DataFile]) -> str:
    """The SQL expression for a partition column."""
    kind = column.dataType.simpleString()
    values = {file.parts.get(column.name) for file in files}
    if len(values) == 1:
        (value,) = values
        # Type names are untrusted, and Spark interprets quotes and escapes in a literal.
        if value is not None and _SAFE_TEXT.fullmatch(value):
            return f"cast('{value}' as {kind})"
    text = f"regexp_extract({_FILE_PATH}, '/{column.name}=([^/]*)/', 1)"
    # Decoded once for the URL of the file, once for the partition value in it.
    return f"cast(nullif({_decoded(_decoded(text))}, '{NULL_PART}') as {kind})"


def _decoded(text: str) -> str:
    return f"url_decode(replace({text}, '+', '%2B'))"


def _keep_microseconds(spark: SparkSession) -> None:
    # Spark's default timestamp type is one that other readers interpret in different ways.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")


def _no_table(name: str, root: str) -> PipelineError:
    error = PipelineError(f"there is no table {name} in {root}")
    error.hint = "list the tables with `skerry pipeline tables`"
    return error
