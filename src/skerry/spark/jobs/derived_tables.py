"""Builds derived tables: the hours or days that changed are built again, for all types together.

Derived tables are not part of a batch: a plan lists the hours that have to be built
(`Plan.stale_hours`), and a separate plan commits them. `run` builds them at its end, `follow` at an
interval. The number of Spark jobs does not depend on the number of types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from skerry.spark.lake.buckets import day_column, hour_column
from skerry.spark.lake.catalog import DIVIDED_BY, table_schema
from skerry.spark.lake.data_files import DataFile, TableChange
from skerry.spark.lake.delta import read_files
from skerry.spark.lake.lake import Lake, conformed, delta_schema
from skerry.spark.lake.plans import Plan, TypeState
from skerry.spark.lake.schema import no_rows, spark_schema
from skerry.spark.startup.small_batches import FEW_ROWS, few_rows
from skerry.spark.transforms.derived import Derived
from skerry.spark.transforms.events import EVENTS, events

if TYPE_CHECKING:
    import pyarrow as pa


_COMMON = T.StructType([field for field in EVENTS if field.name != "payload"])
"""The columns that are read from `updates`, which all types have."""


def build_derived(lake: Lake) -> Plan | None:
    """Bring the derived tables up to date; None if there is nothing to build."""
    with lake.batch():
        last = lake.last_plan()
        hours = frozenset(last.stale_hours)
        if not hours or not lake.config.derived:
            return None
        lake.commit_plan(last)
        label = f"d{last.number + 1:08}-{uuid4().hex[:6]}"
        rows = sum(file.rows for name in last.types for file in _updates(lake, name, hours))
        with few_rows(lake.spark) if rows <= FEW_ROWS else nullcontext():
            changes = _staged_all(lake, last.types, hours, label)
        plan = replace(
            last,
            number=last.number + 1,
            changes=tuple(changes.values()),
            notices=(),
            damaged=(),
            row_count=0,
            read_count=0,
            stale_hours=(),
        )
        lake.write_plan(plan)
        lake.commit_plan(plan)
        return plan


def _staged_all(
    lake: Lake, states: Mapping[str, TypeState], hours: frozenset[str], label: str
) -> dict[str, TableChange]:
    made: dict[str, TableChange] = {}
    for derived in lake.config.derived:
        parts = hours if derived.partition_by == "hour" else frozenset(h[:10] for h in hours)
        inputs = BuildInputs(lake, states, made, derived, parts)
        change = _staged(lake, inputs, derived, label)
        if change is not None:
            made[derived.name] = change
    return made


class BuildInputs:
    """The rows of some hours or days that a derived table is built from.

    A frame is None if there is no such table yet.
    Includes derived tables of the same plan, which are not committed yet.
    """

    def __init__(
        self,
        lake: Lake,
        states: Mapping[str, TypeState],
        changes: Mapping[str, TableChange],
        derived: Derived,
        parts: frozenset[str],
    ) -> None:
        self._lake = lake
        self._states = states
        self._changes = changes
        self._derived = derived
        self.parts = parts

    def events(self) -> DataFrame:
        """Events of all types: rows of all tables below `updates/` and of `raw`."""
        store = self._lake.store
        paths = [
            store.spark_path(f"updates/{name}/{file.path}")
            for name in sorted(self._states)
            for file in _updates(self._lake, name, self.parts)
        ]
        spark = self._lake.spark
        updates = spark.read.schema(_COMMON).parquet(*paths) if paths else no_rows(spark, _COMMON)
        return events([updates], self.raw())

    def updates(self, name: str) -> DataFrame | None:
        state = self._states.get(name)
        if state is None:
            return None
        parts = self.parts
        return self._lake.rows("updates", state, lambda file: _hour(file, parts) in parts)

    def raw(self) -> DataFrame | None:
        """Rows of `raw`: gaps, and updates of types without a recorded definition."""
        days = {part[:10] for part in self.parts}
        schema = table_schema("raw")
        rows = self._rows("raw", schema, DIVIDED_BY["raw"], lambda file: file.parts["day"] in days)
        return None if rows is None else self._within(rows)

    def derived(self, name: str) -> DataFrame | None:
        """Rows of a derived table that precedes this one in `DERIVED`."""
        other = next(item for item in self._lake.config.derived if item.name == name)

        def is_wanted(file: DataFile) -> bool:
            part = file.parts[other.partition_by] or ""
            return part in self.parts or part[:10] in self.parts

        return self._rows(name, _arrow(other), (other.partition_by,), is_wanted)

    def _rows(
        self,
        name: str,
        schema: pa.Schema,
        divided_by: tuple[str, ...],
        is_wanted: Callable[[DataFile], bool],
    ) -> DataFrame | None:
        change = self._changes.get(name)
        removed = frozenset() if change is None else frozenset(change.removed)
        table = self._lake.table(name)
        frames = []
        if table.exists():
            old = table.frame(
                self._lake.spark, lambda file: is_wanted(file) and file.path not in removed
            )
            frames.append(conformed(old, spark_schema(schema)))
        if change is not None:
            new = [file for file in change.added if is_wanted(file)]
            frames.append(
                read_files(self._lake.spark, self._lake.store, name, new, schema, divided_by)
            )
        if not frames:
            return None
        return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])

    def _within(self, rows: DataFrame) -> DataFrame:
        is_day = self._derived.partition_by == "day"
        part = (day_column if is_day else hour_column)(F.col("order_ns"))
        return rows.where(part.isin(*self.parts))


def _updates(lake: Lake, name: str, parts: frozenset[str]) -> list[DataFile]:
    """Files of `updates/<name>` with rows of these hours or days."""
    return lake.table(f"updates/{name}").files(lambda file: _hour(file, parts) in parts)


def _hour(file: DataFile, parts: frozenset[str]) -> str:
    """The hour of a file, or its day if the parts are days."""
    return (file.parts["hour"] or "")[: len(next(iter(parts), ""))]


def _staged(lake: Lake, inputs: BuildInputs, derived: Derived, label: str) -> TableChange | None:
    rows = conformed(derived.build(inputs), derived.schema)
    table = lake.table(derived.name)
    lake.trace(f"stage {derived.name}")
    added = table.stage(rows, [derived.partition_by], label=label)
    removed = table.files(lambda file: file.parts[derived.partition_by] in inputs.parts)
    if not added and not removed and table.exists():
        return None
    return TableChange(
        table=derived.name,
        schema=delta_schema(_arrow(derived)),
        divided_by=(derived.partition_by,),
        added=tuple(added),
        removed=tuple(file.path for file in removed),
    )


def _arrow(derived: Derived) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(derived.schema, timezone="UTC")
