"""Tables that the pipeline made, and questions about any instant.

tables = skerry.spark.tables(spark, "lake/")
tables.asof("Vessel", "2026-11-15T14:03:07Z").show()
"""

from __future__ import annotations

import difflib
from functools import reduce
from os import PathLike
from typing import TYPE_CHECKING

from skerry.errors import PipelineError
from skerry.spark.catalog import field_columns
from skerry.spark.delta import DataFile
from skerry.spark.instants import Instant, instant_ns
from skerry.spark.lake import Lake, LakeConfig, TypeState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Tables"]


class Tables:
    """A folder of tables, to be read."""

    def __init__(
        self, spark: SparkSession, path: str | PathLike[str], config: LakeConfig | None = None
    ) -> None:
        self._lake = Lake(spark, path, config)

    def names(self) -> list[str]:
        """The tables there are: `history/Vessel`, `links` and so on."""
        return self._lake.names()

    def types(self) -> list[str]:
        """The types that have tables, uncached ones included."""
        return sorted(self._lake.last_plan().types)

    def frame(self, name: str) -> DataFrame:
        """All rows of a table."""
        table = self._lake.table(name)
        if not table.exists():
            raise _unknown(name, self.names())
        return table.frame(self._lake.spark)

    def asof(self, type_name: str | None, instant: Instant) -> DataFrame:
        """The state of every object of a type at an instant, with its age in seconds.

        Without a type, of all types: the fields are then one column of JSON, `object`.
        """
        at_ns = instant_ns(instant)
        if type_name is not None:
            return self._asof(self._cached(type_name), at_ns)
        return self._asof_all(at_ns)

    def between(self, type_name: str, first: Instant, stop: Instant) -> DataFrame:
        """What was said about objects of a type from one instant up to another."""
        from skerry.spark.transforms.asof import changed_between

        state = self._state(type_name)
        from_ns, to_ns = instant_ns(first), instant_ns(stop)
        rows = self._lake.rows(
            "updates", state, lambda file: file.may_have("order_ns", from_ns, to_ns - 1)
        )
        return changed_between(rows, field_columns(state.schema), from_ns, to_ns)

    def diff(self, type_name: str, first: Instant, second: Instant) -> DataFrame:
        """The objects of a type that are not the same at two instants."""
        from skerry.spark.transforms.asof import differences

        state = self._cached(type_name)
        before, after = (self._asof(state, instant_ns(at)) for at in (first, second))
        return differences(before, after, field_columns(state.schema))

    # -- states at an instant

    def _asof(self, state: TypeState, at_ns: int) -> DataFrame:
        from skerry.spark.transforms.asof import live_at

        return live_at(self._states_around(state, at_ns), field_columns(state.schema), at_ns)

    def _states_around(self, state: TypeState, at_ns: int) -> DataFrame:
        """States of which some hold at an instant, out of as few files as can be."""
        edge = self._edge_before(state, at_ns)
        since_ns = None if edge is None else int(edge.parts["edge_ns"] or 0)

        def may_hold(file: DataFile) -> bool:
            if since_ns is not None and file.high.get("valid_from_ns", at_ns) <= since_ns:
                return False
            return has_begun(file) and file.high.get("valid_to_ns", at_ns + 1) > at_ns

        def has_begun(file: DataFile) -> bool:
            return file.low.get("valid_from_ns", at_ns) <= at_ns

        history = self._lake.rows("history", state, may_hold)
        latest = self._lake.rows("latest", state, has_begun)
        columns = [name for name in latest.columns if name != "part"]
        frames = [history.select(*columns), latest.select(*columns)]
        if since_ns is None:
            return frames[0].unionByName(frames[1])
        begun = [frame.where(frame["valid_from_ns"] > since_ns) for frame in frames]
        snapshot = self._lake.rows(
            "snapshots", state, lambda file: file.parts["edge_ns"] == str(since_ns)
        )
        return begun[0].unionByName(begun[1]).unionByName(snapshot.select(*columns))

    def _edge_before(self, state: TypeState, at_ns: int) -> DataFile | None:
        """A file of the last snapshot that is not after an instant, and reaches up to it."""
        files = self._lake.table(f"snapshots/{state.table}").files(
            lambda file: int(file.parts["edge_ns"] or 0) <= at_ns < int(file.parts["until_ns"] or 0)
        )
        return max(files, key=lambda file: int(file.parts["edge_ns"] or 0), default=None)

    def _asof_all(self, at_ns: int) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        plan = self._lake.last_plan()
        frames = []
        for name, state in sorted(plan.types.items()):
            if not state.is_cached:
                continue
            fields = [F.col(f"`{field.name}`") for field in field_columns(state.schema)]
            rows = self._asof(state, at_ns)
            own = [
                rows[c]
                for c in rows.columns
                if c not in {f.name for f in field_columns(state.schema)}
            ]
            json = F.to_json(F.struct(*fields)) if fields else F.lit("{}")
            frames.append(rows.select(F.lit(name).alias("type"), *own, json.alias("object")))
        if not frames:
            raise _unknown("history", [])
        return reduce(lambda a, b: a.unionByName(b), frames)

    # -- types

    def _state(self, type_name: str) -> TypeState:
        types = self._lake.last_plan().types
        if type_name not in types:
            raise _unknown(type_name, list(types))
        return types[type_name]

    def _cached(self, type_name: str) -> TypeState:
        state = self._state(type_name)
        if not state.is_cached:
            error = PipelineError(f"{type_name} is a message type: there are no objects of it")
            error.hint = f"`between` tells what was said; the table is updates/{type_name}"
            raise error
        return state


def _unknown(name: str, known: list[str]) -> PipelineError:
    error = PipelineError(
        f"there is no table {name}" if "/" in name else f"nothing is known of {name}"
    )
    near = difflib.get_close_matches(name, known, 1)
    if near:
        error.hint = f"did you mean {near[0]}?"
    elif known:
        error.hint = f"there are {', '.join(known[:20])}"
    else:
        error.hint = "the pipeline has made no tables here yet"
    return error
