"""Derived tables in one batch: the hours or days that it touches are built anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from skerry.spark.buckets import (
    HOUR_NS,
    bucket_start_ns,
    bucket_text,
    day_column,
    hour_column,
)
from skerry.spark.catalog import DIVIDED_BY, table_schema
from skerry.spark.conform import conformed
from skerry.spark.delta import Change, DataFile, read_files
from skerry.spark.few import side_by_side
from skerry.spark.lake import Lake, TypeState, delta_schema
from skerry.spark.schema import spark_schema
from skerry.spark.transforms.derived import Derived

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchInputs", "stage_derived", "waves"]


class BatchInputs:
    """Rows of some hours or days, in tables and in changes that are not made yet."""

    def __init__(
        self,
        lake: Lake,
        states: Mapping[str, TypeState],
        changes: Mapping[str, Change],
        derived: Derived,
        parts: frozenset[str],
    ) -> None:
        self._lake = lake
        self._states = states
        self._changes = changes
        self._derived = derived
        self.parts = parts

    def types(self) -> tuple[str, ...]:
        """Names of the tables below `updates/`."""
        return tuple(sorted(self._states))

    def updates(self, name: str) -> DataFrame | None:
        """Rows of `updates/<name>`."""
        state = self._states.get(name)
        if state is None:
            return None
        schema = table_schema("updates", state.schema)
        length = 10 if self._derived.partition_by == "day" else 13

        def is_wanted(file: DataFile) -> bool:
            return (file.parts["hour"] or "")[:length] in self.parts

        return self._rows(f"updates/{name}", schema, ("hour",), is_wanted)

    def raw(self) -> DataFrame | None:
        """Rows of `raw`."""
        days = {part[:10] for part in self.parts}
        schema = table_schema("raw")
        rows = self._rows("raw", schema, DIVIDED_BY["raw"], lambda file: file.parts["day"] in days)
        return None if rows is None else self._within(rows)

    def derived(self, name: str) -> DataFrame | None:
        """Rows of a derived table that stands before this one."""
        other = next(item for item in self._lake.config.derived if item.name == name)
        schema = _arrow(other)

        def is_wanted(file: DataFile) -> bool:
            part = file.parts[other.partition_by] or ""
            return part in self.parts or part[:10] in self.parts

        return self._rows(name, schema, (other.partition_by,), is_wanted)

    def _rows(
        self,
        name: str,
        schema: pa.Schema,
        divided_by: tuple[str, ...],
        is_wanted: Callable[[DataFile], bool],
    ) -> DataFrame | None:
        change = self._changes.get(name)
        removed = frozenset() if change is None else frozenset(change.removed)
        is_all_new = change is not None and change.is_replacing
        table = self._lake.table(name)
        columns = spark_schema(schema)
        frames = []
        if table.exists() and not is_all_new:
            old = table.frame(
                self._lake.spark, lambda file: is_wanted(file) and file.path not in removed
            )
            frames.append(conformed(old, columns))
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


def stage_derived(
    lake: Lake,
    states: Mapping[str, TypeState],
    changes: Mapping[str, Change],
    *,
    label: str,
    at_once: int = 1,
) -> dict[str, Change]:
    """Write the files of all derived tables for what the changes touch."""
    made = dict(changes)
    hours = _touched_hours(lake, changes)
    if not hours:
        return {}

    def stage(derived: Derived) -> Change | None:
        parts = hours if derived.partition_by == "hour" else frozenset(h[:10] for h in hours)
        inputs = BatchInputs(lake, states, dict(made), derived, parts)
        return _staged(lake, inputs, derived, label)

    for wave in waves(lake.config.derived):
        found = side_by_side([partial(stage, derived) for derived in wave], at_once)
        made |= {change.table: change for change in found if change is not None}
    return {name: change for name, change in made.items() if name not in changes}


def waves(derived: Iterable[Derived]) -> Iterator[list[Derived]]:
    """Tables that can be made at the same time, then those that are made of them, and so on."""
    wave: list[Derived] = []
    for item in derived:
        if any(other.name in item.made_of for other in wave):
            yield wave
            wave = []
        wave.append(item)
    yield wave


def _staged(lake: Lake, inputs: BatchInputs, derived: Derived, label: str) -> Change | None:
    rows = conformed(derived.build(inputs), derived.schema)
    table = lake.table(derived.name)
    lake.trace(f"stage {derived.name}")
    added = table.stage(rows, [derived.partition_by], label=label)
    removed = table.files(_is_in(derived.partition_by, inputs.parts))
    if not added and not removed and table.exists():
        return None
    return Change(
        table=derived.name,
        schema=delta_schema(_arrow(derived)),
        divided_by=(derived.partition_by,),
        added=tuple(added),
        removed=tuple(file.path for file in removed),
    )


def _is_in(column: str, parts: frozenset[str]) -> Callable[[DataFile], bool]:
    return lambda file: file.parts[column] in parts


def _touched_hours(lake: Lake, changes: Mapping[str, Change]) -> frozenset[str]:
    """Hours that rows came to, or left."""
    hours: set[str | None] = set()
    for name, change in changes.items():
        if name.startswith("updates/"):
            removed = set(change.removed)
            old = lake.table(name).files(_is_removed(change.is_replacing, removed))
            hours |= {file.parts["hour"] for file in (*change.added, *old)}
        elif name == "raw":
            hours |= {hour for file in change.added for hour in _hours_of(file)}
    return frozenset(hour for hour in hours if hour is not None)


def _hours_of(file: DataFile) -> set[str]:
    low, high = file.low["order_ns"], file.high["order_ns"]
    first = bucket_start_ns(low, HOUR_NS)
    return {bucket_text(ns, HOUR_NS)[:13] for ns in range(first, high + 1, HOUR_NS)}


def _is_removed(is_replacing: bool, removed: set[str]) -> Callable[[DataFile], bool]:
    return lambda file: is_replacing or file.path in removed


def _arrow(derived: Derived) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(derived.schema, timezone="UTC")
