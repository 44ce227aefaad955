"""Tables that the pipeline made, and questions about any instant.

tables = skerry.spark.tables(spark, "lake/")
tables.asof("Vessel", "2026-11-15T14:03:07Z").show()
"""

from __future__ import annotations

import difflib
from functools import reduce
from os import PathLike
from typing import TYPE_CHECKING, Final

from skerry.errors import PipelineError
from skerry.spark.catalog import field_columns
from skerry.spark.delta import Contents, DataFile
from skerry.spark.file_systems import require_file_system
from skerry.spark.instants import Instant, instant_ns
from skerry.spark.lake import Lake, LakeConfig, TypeState
from skerry.spark.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Tables"]

_JSON: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""Times in full; left alone, Spark cuts them to milliseconds."""


class Tables:
    """A folder of tables, to be read."""

    def __init__(
        self, spark: SparkSession, path: str | PathLike[str], config: LakeConfig | None = None
    ) -> None:
        self._lake = Lake(spark, path, config)
        require_file_system(spark, self._lake.store)

    def names(self) -> list[str]:
        """The tables there are: `history/Vessel`, `links` and so on."""
        return self._lake.names()

    def types(self) -> list[str]:
        """The types that have tables, uncached ones included."""
        return sorted(self._lake.last_plan().types)

    def frame(self, name: str) -> DataFrame:
        """All rows of a table."""
        table = self._lake.table(name)
        contents = table.contents()
        if contents is None:
            raise _unknown(name, self.names())
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

        fields = field_columns(state.schema)
        # Each on its own and then together: a table that has no part in it is not planned for.
        answers = [
            live_at(self._lake.rows_of(kind, state, found), fields, at_ns, after_ns=after_ns)
            for kind, found, after_ns in self._states_around(state, at_ns)
        ]
        return reduce(lambda a, b: a.union(b), answers)

    def _states_around(
        self, state: TypeState, at_ns: int
    ) -> list[tuple[str, Contents | None, int | None]]:
        """Where the states that hold at an instant can be, in as few files as can be.

        Each kind of table with its files, and with when the states that count have begun after.
        """
        snapshot = self._snapshot_before(state, at_ns)
        edge_ns = None if snapshot is None else _edge_ns(snapshot.files[0])

        def may_hold(file: DataFile) -> bool:
            if edge_ns is not None and file.high.get("valid_from_ns", at_ns) <= edge_ns:
                return False
            has_begun = file.low.get("valid_from_ns", at_ns) <= at_ns
            return has_begun and file.high.get("valid_to_ns", at_ns + 1) > at_ns

        places: list[tuple[str, Contents | None, int | None]] = []
        for kind in ("history", "latest"):
            contents = self._lake.table(f"{kind}/{state.table}").contents()
            if contents is not None and (found := contents.only(may_hold)).files:
                places.append((kind, found, edge_ns))
        if snapshot is not None:
            places.append(("snapshots", snapshot, None))
        return places or [("latest", None, None)]

    def _snapshot_before(self, state: TypeState, at_ns: int) -> Contents | None:
        """The last snapshot that is not after an instant, and reaches up to it."""
        contents = self._lake.table(f"snapshots/{state.table}").contents()
        if contents is None:
            return None
        reaching = contents.only(
            lambda file: _edge_ns(file) <= at_ns < int(file.parts["until_ns"] or 0)
        )
        if not reaching.files:
            return None
        last_ns = max(map(_edge_ns, reaching.files))
        return reaching.only(lambda file: _edge_ns(file) == last_ns)

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
            raise PipelineError("no table has objects: nothing was recorded, or messages only")
        return reduce(lambda a, b: a.union(b), frames)

    # -- types

    def _state(self, type_name: str) -> TypeState:
        types = self._lake.last_plan().types
        if type_name in types:
            return types[type_name]
        # Tables of a type whose name is none for a folder are called otherwise.
        for state in types.values():
            if state.schema.type_name == type_name:
                return state
        raise _unknown(type_name, list(types))

    def _cached(self, type_name: str) -> TypeState:
        state = self._state(type_name)
        if not state.is_cached:
            error = PipelineError(f"{type_name} is a message type: there are no objects of it")
            error.hint = f"`between` tells what was said; the table is updates/{type_name}"
            raise error
        return state


def _edge_ns(file: DataFile) -> int:
    """The instant that a file of a snapshot is of."""
    return int(file.parts["edge_ns"] or 0)


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
