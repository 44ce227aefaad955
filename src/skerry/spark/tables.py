"""Queries on the tables of a lake with Spark: at an instant, between instants, differences.

tables = skerry.spark.tables(spark, "lake/")
tables.asof("Vessel", "2026-11-15T14:03:07Z").show()
"""

from __future__ import annotations

from functools import reduce
from os import PathLike
from typing import TYPE_CHECKING, Final

from skerry.errors import PipelineError
from skerry.spark.instants import Instant, instant_ns
from skerry.spark.lake.catalog import field_columns
from skerry.spark.lake.lake import Lake, LakeConfig
from skerry.spark.lake.plans import TypeState
from skerry.spark.lake.retention_limits import require_kept
from skerry.spark.lake.schema import quoted
from skerry.spark.lake.state_lookup import cached_type, known_type, states_around, unknown_name
from skerry.spark.lake.store import require_file_system

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_JSON: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""Microseconds; Spark's default has milliseconds."""


class Tables:
    """The tables of a lake, read with Spark."""

    def __init__(
        self, spark: SparkSession, path: str | PathLike[str], config: LakeConfig | None = None
    ) -> None:
        self._lake = Lake(spark, path, config)
        require_file_system(spark, self._lake.store)

    def names(self) -> list[str]:
        """The names of all tables: `history/Vessel`, `links` and so on."""
        return self._lake.names()

    def types(self) -> list[str]:
        """The types that have tables, message types included."""
        return sorted(self._lake.last_plan().types)

    def frame(self, name: str) -> DataFrame:
        """All rows of a table."""
        table = self._lake.table(name)
        contents = table.contents()
        if contents is None:
            raise unknown_name(name, self.names())
        return table.rows_of(self._lake.spark, contents)

    def asof(self, type_name: str | None, instant: Instant) -> DataFrame:
        """The state of every object of a type at an instant, with its age in seconds.

        Without a type, of all types: the fields are then one column of JSON, `object`.
        """
        at_ns = instant_ns(instant)
        if type_name is not None:
            return self._asof(self._cached(type_name), at_ns)
        return self._asof_all(at_ns)

    def between(self, type_name: str, first: Instant, stop: Instant) -> DataFrame:
        """The updates of a type from one instant to another, exclusive."""
        from skerry.spark.transforms.asof import changed_between

        state = self._state(type_name)
        from_ns, to_ns = instant_ns(first), instant_ns(stop)
        rows = self._lake.rows(
            "updates", state, lambda file: file.may_have("order_ns", from_ns, to_ns - 1)
        )
        return changed_between(rows, field_columns(state.schema), from_ns, to_ns)

    def diff(self, type_name: str, first: Instant, second: Instant) -> DataFrame:
        """The objects of a type that differ between two instants."""
        from skerry.spark.transforms.asof import differences

        state = self._cached(type_name)
        before, after = (self._asof(state, instant_ns(at)) for at in (first, second))
        return differences(before, after, field_columns(state.schema))

    # -- states at an instant

    def _asof(self, state: TypeState, at_ns: int) -> DataFrame:
        from skerry.spark.transforms.asof import live_at

        require_kept(self._lake.store, state.table, at_ns)
        fields = field_columns(state.schema)
        found = states_around(state.table, at_ns, lambda name: self._lake.table(name).contents())
        # A union of one answer per table: a table without matching files is not planned.
        answers = [
            live_at(
                self._lake.rows_of(files.kind, state, files.contents),
                fields,
                at_ns,
                after_ns=files.after_ns,
            )
            for files in found
        ]
        if not answers:
            return live_at(self._lake.rows_of("latest", state, None), fields, at_ns)
        return reduce(lambda a, b: a.union(b), answers)

    def _asof_all(self, at_ns: int) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        plan = self._lake.last_plan()
        frames = []
        for name, state in sorted(plan.types.items()):
            if not state.is_cached:
                continue
            fields = [field.name for field in field_columns(state.schema)]
            rows = self._asof(state, at_ns)
            own = [column for column in rows.columns if column not in fields]
            json = F.to_json(F.struct(*map(quoted, fields)), _JSON) if fields else F.lit("{}")
            frames.append(rows.select(F.lit(name).alias("type"), *own, json.alias("object")))
        if not frames:
            raise PipelineError("the lake has no objects: no cached type was recorded")
        return reduce(lambda a, b: a.union(b), frames)

    # -- types

    def _state(self, type_name: str) -> TypeState:
        return known_type(self._lake.last_plan().types, type_name)

    def _cached(self, type_name: str) -> TypeState:
        return cached_type(self._lake.last_plan().types, type_name)
