"""A lake: its tables, the state of the pipeline, and how a batch is committed exactly once.

A batch changes many tables, and Delta commits one table at a time. Therefore all files of a batch
are written first; then its *plan*, which names them, is written atomically; then the plan is
committed table by table. A crash before the plan leaves files that no table names. A crash after
it leaves a plan that the next job completes before anything else. Each plan has a number, which is
the version of its commits, and holds the state that the next batch needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from skerry.errors import ConfigError, PipelineError, SkerryError
from skerry.spark.lake.catalog import DIVIDED_BY, table_schema
from skerry.spark.lake.conform import conformed
from skerry.spark.lake.data_files import Contents, DataFile, TableChange
from skerry.spark.lake.delta import ContentsCache, Table
from skerry.spark.lake.delta_log import LOG_KEEP_S
from skerry.spark.lake.schema import TypedSchema, no_rows, spark_schema
from skerry.spark.lake.schema_json import schema_from_text, schema_to_text
from skerry.spark.lake.store import TableStore
from skerry.spark.merging.identity import CounterGroup
from skerry.spark.transforms.derived import DERIVED, Derived
from skerry.spark.transforms.order import Clock

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


KEEP_HOURS: Final = 168.0
"""A week: by then, readers of old versions and all batches have ended.

A log also records for this long when a file was removed from the table.
"""
SAFE_HOURS: Final = 1.0
"""A batch takes less time; younger files may belong to a batch that is being written."""

_OWN: Final = "_skerry"
_PLANS: Final = f"{_OWN}/plans"
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
            raise ConfigError(
                key="bucket_s",
                origin="pipeline",
                detail=f"{self.bucket_s} is not a whole number of minutes that divides a day",
            )
        if self.log_keep_s < 0:
            raise ConfigError(
                key="log_keep_s",
                origin="pipeline",
                detail=f"{self.log_keep_s} is negative",
            )
        if self.vacuum_hours is not None and self.vacuum_hours < SAFE_HOURS:
            raise ConfigError(
                key="vacuum_hours",
                origin="pipeline",
                detail=f"{self.vacuum_hours} is less than {SAFE_HOURS:g}: "
                "files of an unfinished batch would be deleted",
            )

    @property
    def bucket_ns(self) -> int:
        return self.bucket_s * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeState:
    """The state of the tables of one type after a batch."""

    table: str
    """Their name: that of the type, with `@2` and so on for incompatible definitions."""
    schema: TypedSchema
    is_cached: bool
    clocks: Mapping[int, Clock] = field(default_factory=dict)
    part_count: int = 1
    marks: Mapping[CounterGroup, int] | None = field(default_factory=dict)
    """Highest numbers of all counters except node positions; None if they were not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The changes of one batch, and the state after it."""

    number: int = -1
    offsets: Mapping[str, int] = field(default_factory=dict)
    """By recording id, the number of manifest lines that are in the tables."""
    types: Mapping[str, TypeState] = field(default_factory=dict)
    changes: tuple[TableChange, ...] = ()
    notices: tuple[str, ...] = ()
    row_count: int = 0
    """Number of new rows."""
    read_count: int = 0
    """Number of rows that were read."""
    raw_marks: Mapping[CounterGroup, int] | None = field(default_factory=dict)
    """Highest numbers of the counters of `raw`; None if they were not recorded."""
    stale_hours: tuple[str, ...] = ()
    """Hours for which derived tables have to be built."""
    damaged: tuple[str, ...] = ()
    """Segments that had a damaged batch; `raw` has gap rows for them."""


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
        self.trace = trace if trace is not None else _no_trace
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
        """The names of all tables."""
        found = [name for name in self.store.folders("") if not name.startswith(("_", "."))]
        names: list[str] = []
        for name in found:
            if name in DIVIDED_BY and name != "raw":
                names += [f"{name}/{inner}" for inner in self.store.folders(name)]
            else:
                names.append(name)
        return [name for name in names if self.table(name).exists()]

    def rows(
        self,
        kind: str,
        state: TypeState,
        wanted: Callable[[DataFile], bool] | None = None,
        *,
        with_file_path: bool = False,
    ) -> DataFrame:
        """Rows of a table of a type, with the columns of its current schema.

        With `with_file_path`, the column `file_path` names the file of each row.
        """
        contents = self.table(f"{kind}/{state.table}").contents()
        found = None if contents is None else contents.only(wanted)
        return self.rows_of(kind, state, found, with_file_path=with_file_path)

    def rows_of(
        self,
        kind: str,
        state: TypeState,
        contents: Contents | None,
        *,
        with_file_path: bool = False,
    ) -> DataFrame:
        """As `rows`, for given contents; None for a table that does not exist."""
        wanted = table_schema(kind, state.schema)
        columns = spark_schema(wanted)
        if with_file_path:
            columns = columns.add("file_path", "string")
        if contents is None or not contents.files:
            return no_rows(self.spark, columns)
        table = self.table(f"{kind}/{state.table}")
        rows = table.rows_of(self.spark, contents, with_file_path=with_file_path)
        # The usual case, detected without asking the JVM for the columns.
        is_right = contents.schema.equals(wanted) and not with_file_path
        return rows if is_right else conformed(rows, columns)

    def stage(self, kind: str, state: TypeState, frame: DataFrame, *, label: str) -> list[DataFile]:
        """Write rows as files of a table of a type without committing them."""
        columns = spark_schema(table_schema(kind, state.schema))
        name = f"{kind}/{state.table}"
        self.trace(f"stage {name}")
        return self.table(name).stage(conformed(frame, columns), DIVIDED_BY[kind], label=label)

    # -- plans

    def last_plan(self) -> Plan:
        """The last plan; an empty one if there is none yet."""
        for number in reversed(self._plan_numbers()):
            try:
                text = self.store.read_text(f"{_PLANS}/{number:010}.json")
                if text is not None:
                    return _plan_from_text(text)
            except (ArithmeticError, LookupError, SkerryError, TypeError, ValueError) as error:
                raise self._damaged_plan(number) from error
        return Plan()

    def write_plan(self, plan: Plan) -> None:
        """Write the plan atomically; from here on the batch is certain to be committed."""
        self.trace("plan")
        self.store.write_text(f"{_PLANS}/{plan.number:010}.json", _plan_to_text(plan))

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
        for number in self._plan_numbers()[:-_PLANS_KEPT]:
            self.store.delete(f"{_PLANS}/{number:010}.json")
        return count

    def _plan_numbers(self) -> list[int]:
        names = (file.path.rpartition("/")[2] for file in self.store.listed(_PLANS))
        return sorted(int(name[:10]) for name in names if name.endswith(".json"))

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

    def _damaged_plan(self, number: int) -> PipelineError:
        """The error for a plan that cannot be read, with a hint whether it may be deleted.

        A new plan of the same number would not be committed to a table that has that number. So
        the plan may be deleted only if no table has it.
        """
        error = PipelineError(f"{self.store.root}/{_PLANS}/{number:010}.json is damaged")
        has_older = number == 0 or self._plan_numbers()[0] < number
        begun = []
        if has_older and any(file.path == _IDENTITY for file in self.store.listed(_OWN)):
            application = self._application()
            begun = [n for n in self.names() if self.table(n).version_of(application) >= number]
        if has_older and not begun:
            error.hint = "no table has a part of this batch: delete the file to repeat the batch"
        else:
            error.hint = (
                f"{f'{begun[0]} has' if begun else 'tables may have'} a part of this batch, so it "
                "cannot be repeated: restore the file, or rebuild the tables in another folder"
            )
        return error


def delta_schema(schema: pa.Schema) -> str:
    """The columns as Delta JSON."""
    from deltalake import Schema

    return str(Schema.from_arrow(schema).to_json())


def _no_trace(_step: str) -> None:
    return None


def _plan_to_text(plan: Plan) -> str:
    values = {
        "number": plan.number,
        "offsets": dict(plan.offsets),
        "notices": list(plan.notices),
        "row_count": plan.row_count,
        "read_count": plan.read_count,
        "raw_marks": _marks_to_json(plan.raw_marks),
        "stale_hours": list(plan.stale_hours),
        "damaged": list(plan.damaged),
        "types": [_state_to_json(state) for state in plan.types.values()],
        "changes": [asdict(change) for change in plan.changes],
    }
    return json.dumps(values, ensure_ascii=False)


def _plan_from_text(text: str) -> Plan:
    values = json.loads(text)
    states = [_state_from_json(state) for state in values["types"]]
    return Plan(
        number=values["number"],
        # A plan of an earlier version has no offsets: its rows are read again and found known.
        offsets=values.get("offsets", {}),
        notices=tuple(values["notices"]),
        row_count=values["row_count"],
        read_count=values.get("read_count", 0),
        raw_marks=_marks_from_json(values.get("raw_marks")),
        stale_hours=tuple(values.get("stale_hours", ())),
        damaged=tuple(values.get("damaged", ())),
        types={state.table: state for state in states},
        changes=tuple(_change_from_json(change) for change in values["changes"]),
    )


def _state_to_json(state: TypeState) -> dict[str, Any]:
    clocks = {str(node): [c.position, c.order_ns] for node, c in state.clocks.items()}
    return {
        "table": state.table,
        "schema": schema_to_text(state.schema),
        "is_cached": state.is_cached,
        "part_count": state.part_count,
        "clocks": clocks,
        "marks": _marks_to_json(state.marks),
    }


def _state_from_json(values: Mapping[str, Any]) -> TypeState:
    return TypeState(
        table=values["table"],
        schema=schema_from_text(values["schema"]),
        is_cached=values["is_cached"],
        part_count=values["part_count"],
        marks=_marks_from_json(values.get("marks")),
        clocks={
            int(node): Clock(position=position, order_ns=order_ns)
            for node, (position, order_ns) in values["clocks"].items()
        },
    )


def _marks_to_json(marks: Mapping[CounterGroup, int] | None) -> list[list[int]] | None:
    return None if marks is None else [[*group, number] for group, number in marks.items()]


def _marks_from_json(values: list[list[int]] | None) -> dict[CounterGroup, int] | None:
    if values is None:
        return None
    return {CounterGroup(kind, node, sender): number for kind, node, sender, number in values}


def _change_from_json(values: Mapping[str, Any]) -> TableChange:
    change = TableChange(**{**values, "added": (), "removed": tuple(values["removed"])})
    return replace(
        change,
        divided_by=tuple(values["divided_by"]),
        added=tuple(DataFile(**file) for file in values["added"]),
    )
