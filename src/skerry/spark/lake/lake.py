"""A folder of tables, what is known about it beyond the tables, and how a batch becomes part of it.

A batch changes many tables, and Delta commits one at a time. So all files of a batch are written
first; then its *plan*, which names them, is written; then the plan is carried out table by table.
Whoever dies before the plan leaves files that mean nothing. Whoever dies after it leaves a plan
that the next one carries out to its end before anything else. Each plan has a number, which is the
version of the commits it leads to, and holds what the next batch has to know.
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
from skerry.spark.lake.delta import LOG_KEEP_S, Contents, DataFile, Seen, Table, TableChange
from skerry.spark.lake.schema import TypedSchema, no_rows, spark_schema
from skerry.spark.lake.schema_json import schema_from_text, schema_to_text
from skerry.spark.lake.store import TableStore
from skerry.spark.merging.identity import CounterGroup
from skerry.spark.transforms.derived import DERIVED, Derived
from skerry.spark.transforms.order import Clock

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["KEEP_HOURS", "SAFE_HOURS", "Lake", "LakeConfig", "Plan", "TypeState", "delta_schema"]

KEEP_HOURS: Final = 168.0
"""A week: readers of old versions have ended by then, and so has every batch.

It is also how long a log knows when a file was taken out of the table.
"""
SAFE_HOURS: Final = 1.0
"""A batch takes less: younger files may be those of one that is being made."""

_OWN: Final = "_skerry"
_PLANS: Final = f"{_OWN}/plans"
_IDENTITY: Final = f"{_OWN}/lake.json"
_PLANS_KEPT: Final = 3
"""The last one counts; two more are for people who want to know what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeConfig:
    """How tables are laid out."""

    bucket_s: int = 3600
    """Length of the buckets of history; whole minutes."""
    snapshot_rows: int = 4_000_000
    """States from which on a table gets snapshots: below, reading all of it is as fast."""
    part_rows: int = 250_000
    """Objects in one part of `latest`, so many as are rewritten for one that changed."""
    compact_files: int = 32
    """Files in one part of a table from which on they are put together."""
    here_bytes: int = 24 * 1024 * 1024
    """Recorded bytes up to which a batch is merged by the driver itself, without tasks."""
    batch_bytes: int | None = None
    """Recorded bytes of one batch at most; None: what the memory of Spark allows."""
    log_keep_s: int = LOG_KEEP_S
    """How long entries of the logs of tables stay; of tables that are made, or never had a rule."""
    vacuum_hours: float | None = KEEP_HOURS
    """Jobs delete files that no table has named for so long; None leaves it to `vacuum`."""
    derived: tuple[Derived, ...] = DERIVED

    def __post_init__(self) -> None:
        if self.bucket_s <= 0 or self.bucket_s % 60 or 86_400 % self.bucket_s:
            raise ConfigError(
                key="bucket_s",
                origin="pipeline",
                detail=f"{self.bucket_s} is no whole part of a day in minutes",
            )
        if self.log_keep_s < 0:
            raise ConfigError(
                key="log_keep_s",
                origin="pipeline",
                detail=f"entries of a log cannot stay for {self.log_keep_s} seconds",
            )
        if self.vacuum_hours is not None and self.vacuum_hours < SAFE_HOURS:
            raise ConfigError(
                key="vacuum_hours",
                origin="pipeline",
                detail=f"{self.vacuum_hours} is less than {SAFE_HOURS:g}: "
                "files of a batch in the making look the same",
            )

    @property
    def bucket_ns(self) -> int:
        return self.bucket_s * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeState:
    """What is known of the tables of one type."""

    table: str
    """Their name: that of the type, with `@2` and so on for definitions that do not fit."""
    schema: TypedSchema
    is_cached: bool
    clocks: Mapping[int, Clock] = field(default_factory=dict)
    part_count: int = 1
    marks: Mapping[CounterGroup, int] | None = field(default_factory=dict)
    """Highest numbers of the counters that are not those of nodes; None: they were not noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one batch does, and what is known after it."""

    number: int = -1
    offsets: Mapping[str, int] = field(default_factory=dict)
    """By the id of a recording, how many lines of its manifest are in the tables."""
    types: Mapping[str, TypeState] = field(default_factory=dict)
    changes: tuple[TableChange, ...] = ()
    notices: tuple[str, ...] = ()
    row_count: int = 0
    """Rows that were new."""
    read_count: int = 0
    """Rows that were read."""
    raw_marks: Mapping[CounterGroup, int] | None = field(default_factory=dict)
    """Highest numbers of the counters of `raw`; None: they were not noted."""
    stale_hours: tuple[str, ...] = ()
    """Hours that derived tables are still to be built for."""
    damaged: tuple[str, ...] = ()
    """Segments that had a damaged batch; what is missing is in `raw`."""


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
        self.trace = trace if trace is not None else _unheard
        """Told of each step before it is done."""
        self._seen: Seen | None = None
        self._carried_out = -1

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only one who changes tables."""
        with self.store.lock(f"{_OWN}/writer.lock"):
            yield

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Inside, the log of a table is read when the table is first asked for.

        A batch asks for each table many times, and it alone writes.
        """
        if self._seen is not None:
            yield
            return
        self._seen = {}
        try:
            yield
        finally:
            self._seen = None

    def table(self, name: str) -> Table:
        """A table by its name, such as `history/Vessel`."""
        return Table(self.store, name, seen=self._seen, log_keep_s=self.config.log_keep_s)

    def names(self) -> list[str]:
        """The tables there are."""
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
        has_place: bool = False,
    ) -> DataFrame:
        """Rows of a table of a type, with the columns that its definitions now ask for.

        With `has_place`, `file_path` says which file each stands in.
        """
        contents = self.table(f"{kind}/{state.table}").contents()
        found = None if contents is None else contents.only(wanted)
        return self.rows_of(kind, state, found, has_place=has_place)

    def rows_of(
        self, kind: str, state: TypeState, contents: Contents | None, *, has_place: bool = False
    ) -> DataFrame:
        """The same of what a table held; None is a table that is not there."""
        wanted = table_schema(kind, state.schema)
        columns = spark_schema(wanted)
        if has_place:
            columns = columns.add("file_path", "string")
        if contents is None or not contents.files:
            return no_rows(self.spark, columns)
        table = self.table(f"{kind}/{state.table}")
        rows = table.rows_of(self.spark, contents, has_place=has_place)
        # The usual case, told apart without asking the JVM for the columns.
        is_right = contents.schema.equals(wanted) and not has_place
        return rows if is_right else conformed(rows, columns)

    def stage(self, kind: str, state: TypeState, frame: DataFrame, *, label: str) -> list[DataFile]:
        """Write rows as files of a table of a type that are not in its log yet."""
        columns = spark_schema(table_schema(kind, state.schema))
        name = f"{kind}/{state.table}"
        self.trace(f"stage {name}")
        return self.table(name).stage(conformed(frame, columns), DIVIDED_BY[kind], label=label)

    # -- plans

    def last_plan(self) -> Plan:
        """The plan that was written last; an empty one at the beginning."""
        for number in reversed(self._plan_numbers()):
            try:
                text = self.store.read_text(f"{_PLANS}/{number:010}.json")
                if text is not None:
                    return _plan_from_text(text)
            except (ArithmeticError, LookupError, SkerryError, TypeError, ValueError) as error:
                raise self._damaged_plan(number) from error
        return Plan()

    def write_plan(self, plan: Plan) -> None:
        """From here on the batch is going to happen."""
        self.trace("plan")
        self.store.write_text(f"{_PLANS}/{plan.number:010}.json", _plan_to_text(plan))

    def carry_out(self, plan: Plan) -> int:
        """Make all commits of a plan that are not made yet; says how many these were."""
        if plan.number == self._carried_out:
            return 0
        application = self._application()
        count = 0
        for change in plan.changes:
            self.trace(f"commit {change.table}")
            count += self.table(change.table).commit(
                change, application=application, version=plan.number
            )
        self.trace("done")
        self._carried_out = plan.number
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
            plain = json.loads(text)
            is_known = plain["format"] == 1
            number = plain["id"] if is_known else ""
        except (LookupError, TypeError, ValueError) as error:
            fault = PipelineError(f"{self.store.root}/{_IDENTITY} is damaged")
            fault.hint = (
                'it is {"format": 1, "id": ID}; ID stands after skerry- in the entries "txn" '
                "of the log of any table"
            )
            raise fault from error
        if not is_known:
            raise PipelineError(f"{self.store.root} was written by a newer skerry")
        return f"skerry-{number}"

    def _damaged_plan(self, number: int) -> PipelineError:
        """What to say of a plan that cannot be read, and whether it can be done without.

        Commits of a batch that another plan made again would not be made where the table has one
        of this number, so the plan can go only if no table has.
        """
        error = PipelineError(f"{self.store.root}/{_PLANS}/{number:010}.json is damaged")
        has_older = number == 0 or self._plan_numbers()[0] < number
        begun = []
        if has_older and any(file.path == _IDENTITY for file in self.store.listed(_OWN)):
            application = self._application()
            begun = [n for n in self.names() if self.table(n).version_of(application) >= number]
        if has_older and not begun:
            error.hint = "no table has anything of this batch: delete the file, and it is made anew"
        else:
            error.hint = (
                f"{f'{begun[0]} has' if begun else 'tables may have'} a part of this batch, so it "
                "cannot be made anew: restore the file, or make the tables anew in another folder"
            )
        return error


def delta_schema(schema: pa.Schema) -> str:
    """Columns as a commit names them."""
    from deltalake import Schema

    return str(Schema.from_arrow(schema).to_json())


def _unheard(_step: str) -> None:
    return None


def _plan_to_text(plan: Plan) -> str:
    plain = {
        "number": plan.number,
        "offsets": dict(plan.offsets),
        "notices": list(plan.notices),
        "row_count": plan.row_count,
        "read_count": plan.read_count,
        "raw_marks": _marks_to_plain(plan.raw_marks),
        "stale_hours": list(plan.stale_hours),
        "damaged": list(plan.damaged),
        "types": [_state_to_plain(state) for state in plan.types.values()],
        "changes": [asdict(change) for change in plan.changes],
    }
    return json.dumps(plain, ensure_ascii=False)


def _plan_from_text(text: str) -> Plan:
    plain = json.loads(text)
    states = [_state_from_plain(state) for state in plain["types"]]
    return Plan(
        number=plain["number"],
        # A plan of before has none: what was brought in is read again, and found to be known.
        offsets=plain.get("offsets", {}),
        notices=tuple(plain["notices"]),
        row_count=plain["row_count"],
        read_count=plain.get("read_count", 0),
        raw_marks=_marks_from_plain(plain.get("raw_marks")),
        stale_hours=tuple(plain.get("stale_hours", ())),
        damaged=tuple(plain.get("damaged", ())),
        types={state.table: state for state in states},
        changes=tuple(_change_from_plain(change) for change in plain["changes"]),
    )


def _state_to_plain(state: TypeState) -> dict[str, Any]:
    clocks = {str(node): [c.position, c.order_ns] for node, c in state.clocks.items()}
    return {
        "table": state.table,
        "schema": schema_to_text(state.schema),
        "is_cached": state.is_cached,
        "part_count": state.part_count,
        "clocks": clocks,
        "marks": _marks_to_plain(state.marks),
    }


def _state_from_plain(plain: Mapping[str, Any]) -> TypeState:
    return TypeState(
        table=plain["table"],
        schema=schema_from_text(plain["schema"]),
        is_cached=plain["is_cached"],
        part_count=plain["part_count"],
        marks=_marks_from_plain(plain.get("marks")),
        clocks={
            int(node): Clock(position=position, order_ns=order_ns)
            for node, (position, order_ns) in plain["clocks"].items()
        },
    )


def _marks_to_plain(marks: Mapping[CounterGroup, int] | None) -> list[list[int]] | None:
    return None if marks is None else [[*group, number] for group, number in marks.items()]


def _marks_from_plain(plain: list[list[int]] | None) -> dict[CounterGroup, int] | None:
    if plain is None:
        return None
    return {CounterGroup(kind, node, sender): number for kind, node, sender, number in plain}


def _change_from_plain(plain: Mapping[str, Any]) -> TableChange:
    change = TableChange(**{**plain, "added": (), "removed": tuple(plain["removed"])})
    return replace(
        change,
        divided_by=tuple(plain["divided_by"]),
        added=tuple(DataFile(**file) for file in plain["added"]),
    )
