"""A lake: its tables, the state of the pipeline, and how a batch is committed exactly once.

A batch changes many tables, and Delta commits one table at a time. Therefore all files of a batch
are written first; then its *plan*, which names them, is written atomically; then the plan is
committed table by table. A crash before the plan leaves files that no table names. A crash after
it leaves a plan that the next job completes before anything else. Each plan has a number, which is
the version of its commits, and holds the state that the next batch needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from skerry.errors import ConfigError, PipelineError
from skerry.spark.lake.catalog import DIVIDED_BY, table_schema
from skerry.spark.lake.data_files import Contents, DataFile, TableChange
from skerry.spark.lake.delta import ContentsCache, Table
from skerry.spark.lake.delta_log import LOG_KEEP_S
from skerry.spark.lake.plans import (
    Plan,
    TypeState,
    last_plan,
    plan_numbers,
    plan_path,
    plan_to_text,
    table_folders,
)
from skerry.spark.lake.schema import no_rows, quoted, spark_schema
from skerry.spark.lake.store import TableStore
from skerry.spark.transforms.derived import DERIVED, Derived

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession


KEEP_HOURS: Final = 168.0
"""A week: by then, readers of old versions and all batches have ended.

A log also records for this long when a file was removed from the table.
"""
SAFE_HOURS: Final = 1.0
"""A batch takes less time; younger files may belong to a batch that is being written."""

_OWN: Final = "_skerry"
_IDENTITY: Final = f"{_OWN}/lake.json"
_PLANS_KEPT: Final = 3
"""Only the last plan is used; two more are kept for diagnosis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeConfig:
    """How tables are partitioned, compacted and built."""

    bucket_s: int = 3600
    """Length of the buckets of history; whole minutes."""
    snapshot_rows: int = 4_000_000
    """Number of states at which a table gets snapshots; below it, reading all is as fast."""
    part_rows: int = 250_000
    """Maximum number of objects in one part of `latest`; a changed object rewrites its part."""
    compact_files: int = 32
    """Number of files in one part of a table at which they are compacted."""
    here_bytes: int = 24 * 1024 * 1024
    """Maximum recorded bytes of a batch that the driver merges itself, without Spark tasks."""
    batch_bytes: int | None = None
    """Maximum recorded bytes of one batch; None: computed from the memory of Spark."""
    log_keep_s: int = LOG_KEEP_S
    """How long log entries are kept, for tables whose log does not have its own retention."""
    vacuum_hours: float | None = KEEP_HOURS
    """Jobs delete files that no table has named for this long; None leaves it to `vacuum`."""
    derived: tuple[Derived, ...] = DERIVED

    def __post_init__(self) -> None:
        if self.bucket_s <= 0 or self.bucket_s % 60 or 86_400 % self.bucket_s:
            raise _invalid("bucket_s", "is not a whole number of minutes that divides a day", self)
        if self.log_keep_s < 0:
            raise _invalid("log_keep_s", "is negative", self)
        if self.vacuum_hours is not None and self.vacuum_hours < SAFE_HOURS:
            limit = f"is less than {SAFE_HOURS:g}: files of an unfinished batch would be deleted"
            raise _invalid("vacuum_hours", limit, self)

    @property
    def bucket_ns(self) -> int:
        return self.bucket_s * 10**9


def _invalid(key: str, detail: str, config: LakeConfig) -> ConfigError:
    detail = f"{getattr(config, key)} {detail}"
    return ConfigError(key=key, origin="pipeline", detail=detail)


class Lake:
    """A folder of tables."""

    def __init__(
        self,
        spark: SparkSession,
        path: str | PathLike[str],
        config: LakeConfig | None = None,
        *,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.spark = spark
        self.store = TableStore(path)
        self.config = config if config is not None else LakeConfig()
        self.trace = trace if trace is not None else lambda _step: None
        """Called with the name of each step before it is done."""
        self._cache: ContentsCache | None = None
        self._completed = -1

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock of the writer; PipelineError if another job holds it."""
        with self.store.lock(f"{_OWN}/writer.lock"):
            yield

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Within the context, the log of each table is read once, on first use.

        A batch uses each table many times, and it is the only writer.
        """
        if self._cache is not None:
            yield
            return
        self._cache = {}
        try:
            yield
        finally:
            self._cache = None

    def table(self, name: str) -> Table:
        """A table by its name, such as `history/Vessel`."""
        return Table(self.store, name, cache=self._cache, log_keep_s=self.config.log_keep_s)

    def names(self) -> list[str]:
        return [name for name in table_folders(self.store) if self.table(name).exists()]

    def rows(
        self,
        kind: str,
        state: TypeState,
        wanted: Callable[[DataFile], bool] | None = None,
    ) -> DataFrame:
        """Rows of a table of a type, with the columns of its current schema."""
        contents = self.table(f"{kind}/{state.table}").contents()
        found = None if contents is None else contents.only(wanted)
        return self.rows_of(kind, state, found)

    def rows_of(self, kind: str, state: TypeState, contents: Contents | None) -> DataFrame:
        """As `rows`, for given contents; None for a table that does not exist."""
        wanted = table_schema(kind, state.schema)
        columns = spark_schema(wanted)
        if contents is None or not contents.files:
            return no_rows(self.spark, columns)
        table = self.table(f"{kind}/{state.table}")
        rows = table.rows_of(self.spark, contents)
        # The usual case, detected without asking the JVM for the columns.
        return rows if contents.schema.equals(wanted) else conformed(rows, columns)

    def stage(self, kind: str, state: TypeState, frame: DataFrame, *, label: str) -> list[DataFile]:
        """Write rows as files of a table of a type without committing them."""
        columns = spark_schema(table_schema(kind, state.schema))
        name = f"{kind}/{state.table}"
        self.trace(f"stage {name}")
        return self.table(name).stage(conformed(frame, columns), DIVIDED_BY[kind], label=label)

    # -- plans

    def last_plan(self) -> Plan:
        return last_plan(self.store, self._hint_for_damaged_plan)

    def write_plan(self, plan: Plan) -> None:
        """Write the plan atomically; from here on the batch is certain to be committed."""
        self.trace("plan")
        self.store.write_text(plan_path(plan.number), plan_to_text(plan))

    def commit_plan(self, plan: Plan) -> int:
        """Make the commits of a plan that are not made yet; returns how many were made."""
        if plan.number == self._completed:
            return 0
        application = self._application()
        count = 0
        for change in plan.changes:
            self.trace(f"commit {change.table}")
            count += self.table(change.table).commit(
                change, application=application, version=plan.number
            )
        self.trace("done")
        self._completed = plan.number
        for number in plan_numbers(self.store)[:-_PLANS_KEPT]:
            self.store.delete(plan_path(number))
        return count

    def _application(self) -> str:
        try:
            text = self.store.read_text(_IDENTITY)
            if text is None:
                text = json.dumps({"format": 1, "id": uuid4().hex})
                self.store.write_text(_IDENTITY, text)
            values = json.loads(text)
            is_known = values["format"] == 1
            number = values["id"] if is_known else ""
        except (LookupError, TypeError, ValueError) as error:
            fault = PipelineError(f"{self.store.root}/{_IDENTITY} is damaged")
            fault.hint = (
                'restore it as {"format": 1, "id": ID}; the log of any table has ID in its '
                'entries "txn", after "skerry-"'
            )
            raise fault from error
        if not is_known:
            raise PipelineError(f"{self.store.root} was written by a newer skerry")
        return f"skerry-{number}"

    def _hint_for_damaged_plan(self, number: int) -> str:
        """Whether a plan that cannot be read may be deleted.

        A new plan of the same number would not be committed to a table that has that number. So
        the plan may be deleted only if no table has it.
        """
        has_older = number == 0 or plan_numbers(self.store)[0] < number
        begun = []
        if has_older and any(file.path == _IDENTITY for file in self.store.listed(_OWN)):
            application = self._application()
            begun = [n for n in self.names() if self.table(n).version_of(application) >= number]
        if has_older and not begun:
            return "no table has a part of this batch: delete the file to repeat the batch"
        return (
            f"{f'{begun[0]} has' if begun else 'tables may have'} a part of this batch, so it "
            "cannot be repeated: restore the file, or rebuild the tables in another folder"
        )


def change_of(
    kind: str,
    state: TypeState | None,
    added: Iterable[DataFile] = (),
    removed: Iterable[str] = (),
) -> TableChange:
    """The change of a table of a type, or of `raw`."""
    return TableChange(
        table=kind if state is None else f"{kind}/{state.table}",
        schema=delta_schema(table_schema(kind, None if state is None else state.schema)),
        divided_by=DIVIDED_BY[kind],
        added=tuple(added),
        removed=tuple(removed),
    )


def delta_schema(schema: pa.Schema) -> str:
    """The columns as Delta JSON."""
    from deltalake import Schema

    return str(Schema.from_arrow(schema).to_json())


# -- rows of a wider schema


def conformed(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """The rows with exactly these columns: new ones are null, numbers are cast to wider types."""
    known = {field.name: field.dataType for field in frame.schema}
    kinds = {name: kind.simpleString() for name, kind in known.items()}
    if all(kinds.get(field.name) == field.dataType.simpleString() for field in schema):
        # The usual case. An expression takes several messages to the JVM, a text takes one.
        return frame.selectExpr(*map(quoted, schema.names))
    return frame.select(
        *(
            _conformed(F.col(quoted(field.name)), known.get(field.name), field.dataType).alias(
                field.name
            )
            for field in schema
        )
    )


def _conformed(column: Column, was: T.DataType | None, wanted: T.DataType) -> Column:
    if was is None:
        return F.lit(None).cast(wanted)
    if was == wanted or not _differs_inside(was, wanted):
        return column if was == wanted else column.cast(wanted)
    if isinstance(was, T.ArrayType) and isinstance(wanted, T.ArrayType):
        inner, inner_wanted = was.elementType, wanted.elementType
        return F.transform(column, lambda item: _conformed(item, inner, inner_wanted))
    assert isinstance(was, T.StructType)
    assert isinstance(wanted, T.StructType)
    known = {field.name: field.dataType for field in was}
    fields = [
        _conformed(column.getField(field.name), known.get(field.name), field.dataType).alias(
            field.name
        )
        for field in wanted
    ]
    return F.when(column.isNotNull(), F.struct(*fields))


def _differs_inside(was: T.DataType, wanted: T.DataType) -> bool:
    """Whether a cast is not enough because structs have different fields."""
    if isinstance(was, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return isinstance(was.elementType, T.StructType)
    return isinstance(was, T.StructType) and isinstance(wanted, T.StructType)
