"""Queries on the tables of a lake: `skerry.lake.open(path)`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os import PathLike
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import PipelineError
from skerry.lake.answer import Answer
from skerry.lake.scanning import arrow_schema, dataset_of, scan
from skerry.lake.series import duration_ns, series_of
from skerry.lake.states import differences, live_at, states_between
from skerry.lake.updates import changed_between
from skerry.spark.instants import Instant, instant_ns
from skerry.spark.lake.catalog import field_columns
from skerry.spark.lake.data_files import Contents, TableSize
from skerry.spark.lake.delta import Table
from skerry.spark.lake.plans import TypeState, last_plan, table_folders
from skerry.spark.lake.retention_limits import require_kept
from skerry.spark.lake.state_lookup import cached_type, known_type, unknown_name
from skerry.spark.lake.store import TableStore
from skerry.spark.startup.extras import require_lake

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A recorded range of time, from the first to the last update."""

    first_ns: int
    last_ns: int

    def __str__(self) -> str:
        return f"{instant_text(self.first_ns)} to {instant_text(self.last_ns)}"


def open_lake(path: str | PathLike[str]) -> OpenLake:
    """Open the lake in a folder; PipelineError if the folder does not exist."""
    require_lake()
    return OpenLake(path)


class OpenLake:
    """The tables of a lake, read without Spark.

    Each query reads the current logs of its tables. `where` is an expression of `pyarrow.compute`
    over the columns of the table; files and row groups that cannot match are not read.
    """

    def __init__(self, path: str | PathLike[str]) -> None:

        self.store = TableStore(path)
        if not self.store.require():
            error = PipelineError(f"cannot open the lake: there is no folder {path}")
            error.hint = "create tables from recordings with `skerry pipeline run`"
            raise error

    # -- types and tables

    def types(self) -> list[str]:
        """The types that have tables, message types included."""
        return sorted(self.known_types())

    def known_types(self) -> Mapping[str, TypeState]:
        """The states of these types, by the names of their tables.

        The pipeline writes a plan before it commits, so the last plan has all columns.
        """
        return last_plan(self.store).types

    def table_names(self) -> list[str]:
        """The names of all tables: `history/Vessel`, `links` and so on; reads no logs."""
        return table_folders(self.store)

    def contents(self, name: str) -> Contents | None:
        """The files and columns of a table by its log, or None if there is no such table."""
        return Table(self.store, name).contents()

    def tables(self) -> list[TableSize]:
        """All tables with their number of rows, files and bytes."""
        found = ((name, self.contents(name)) for name in self.table_names())
        return [TableSize.of(name, contents) for name, contents in found if contents is not None]

    def type_tables(self, type_name: str) -> TypeState:
        """The schema of a type; PipelineError if there is no such type."""
        return known_type(self.known_types(), type_name)

    def recorded(self, type_name: str | None = None) -> Range | None:
        """The recorded range of a type, or of all types; None if there are no updates."""
        names = [type_name] if type_name is not None else self.types()
        files = [
            file
            for name in names
            if (contents := self.contents(f"updates/{self.type_tables(name).table}")) is not None
            for file in contents.files
        ]
        lows = [file.low["order_ns"] for file in files if "order_ns" in file.low]
        highs = [file.high["order_ns"] for file in files if "order_ns" in file.high]
        if not lows:
            return None
        return Range(first_ns=min(lows), last_ns=max(highs))

    # -- queries

    def table(self, name: str, *, where: pc.Expression | None = None) -> Answer:
        """All rows of a table: `history/Vessel`, `links` and so on."""
        contents = self.contents(name)
        if contents is None:
            raise unknown_name(name, self.table_names())
        schema = arrow_schema(contents.schema)
        dataset = dataset_of(self.store, name, contents)
        return Answer(schema, lambda: scan(dataset, schema.names, where))

    def asof(
        self, type_name: str | None, instant: Instant, *, where: pc.Expression | None = None
    ) -> Answer:
        """The state of every object of a type at an instant, with its age in seconds.

        Without a type, of all types: the fields are then one column of JSON, `object`.
        """
        at_ns = instant_ns(instant)
        if type_name is None:
            return self._asof_all(at_ns)
        state = self._cached(type_name)
        require_kept(self.store, state.table, at_ns)
        answer = live_at(self.store, state, self.contents, at_ns, where)
        return answer.with_notes(lambda: self.notes(at_ns))

    def latest(self, type_name: str, *, where: pc.Expression | None = None) -> Answer:
        """The current objects of a type, as of the last batch of the pipeline."""
        state = self._cached(type_name)
        return states_between(
            self.store, state, self.contents, None, None, where, kinds=("latest",)
        )

    def history(
        self,
        type_name: str,
        first: Instant | None = None,
        stop: Instant | None = None,
        *,
        where: pc.Expression | None = None,
    ) -> Answer:
        """All states of the objects of a type, or those valid at some instant of a range.

        The current state of an object has no `valid_to_ns`. Rows are not sorted.
        """
        state = self._cached(type_name)
        from_ns, to_ns = _ns(first), _ns(stop)
        answer = states_between(self.store, state, self.contents, from_ns, to_ns, where)
        return answer.with_notes(lambda: self.notes(from_ns, to_ns))

    def between(
        self,
        type_name: str,
        first: Instant | None = None,
        stop: Instant | None = None,
        *,
        where: pc.Expression | None = None,
    ) -> Answer:
        """The updates of a type from one instant to another, exclusive, in order.

        A field that is not in an update is null; `present` is the property set.
        """
        state = self.type_tables(type_name)
        from_ns, to_ns = _ns(first), _ns(stop)
        contents = self.contents(f"updates/{state.table}")
        answer = changed_between(self.store, state, contents, from_ns, to_ns, where)
        return answer.with_notes(lambda: self.notes(from_ns, to_ns))

    def diff(self, type_name: str, first: Instant, second: Instant) -> Answer:
        """The objects of a type that differ between two instants."""
        fields = [column.name for column in field_columns(self._cached(type_name).schema)]
        before, after = self.asof(type_name, first), self.asof(type_name, second)
        answer = differences(before, after, fields)
        return answer.with_notes(lambda: tuple(dict.fromkeys((*before.notes, *after.notes))))

    def series(
        self,
        type_name: str,
        field: str,
        every: str | float = "1s",
        first: Instant | None = None,
        stop: Instant | None = None,
        *,
        where: pc.Expression | None = None,
    ) -> Answer:
        """Values of a field in equal intervals: `last`, `mean`, `min`, `max` and `count`.

        One row for each interval and object in which an update set the field, in order of time.
        `every` is a duration such as `500ms`, `1s` or `10min`, or a number of seconds.
        """
        state = self.type_tables(type_name)
        from_ns, to_ns = _ns(first), _ns(stop)
        answer = series_of(
            self.store,
            state,
            self.contents(f"updates/{state.table}"),
            field,
            duration_ns(every),
            first_ns=from_ns,
            stop_ns=to_ns,
            where=where,
        )
        return answer.with_notes(lambda: self.notes(from_ns, to_ns))

    def sql(self, query: str) -> Answer:
        """The result of a query in DuckDB's SQL over `latest.Vessel`, `rates` and so on."""
        from skerry.lake.sql import answer_of

        return answer_of(self, query)

    # -- all types

    def _asof_all(self, at_ns: int) -> Answer:

        types = self.known_types()
        cached = {name: state for name, state in sorted(types.items()) if state.is_cached}
        if not cached:
            raise PipelineError("the lake has no objects: no cached type was recorded")
        for name in cached:
            require_kept(self.store, name, at_ns)
        answers = {
            name: live_at(self.store, state, self.contents, at_ns) for name, state in cached.items()
        }
        first = next(iter(answers.values())).schema
        own = list(first)[: first.get_field_index("age_s") + 1]
        schema = pa.schema([("type", pa.string()), *own, ("object", pa.string())])

        def batches() -> Iterator[pa.RecordBatch]:
            for name, answer in answers.items():
                fields = answer.schema.names[len(own) :]
                for batch in answer.batches():
                    texts = [_json(row) for row in batch.select(fields).to_pylist()]
                    if not fields:
                        texts = ["{}"] * batch.num_rows
                    yield pa.RecordBatch.from_arrays(
                        [
                            pa.array([name] * batch.num_rows, pa.string()),
                            *batch.columns[: len(own)],
                            pa.array(texts, pa.string()),
                        ],
                        schema=schema,
                    )

        return Answer(schema, batches, notes=lambda: self.notes(at_ns))

    # -- types and notes

    def _cached(self, type_name: str) -> TypeState:

        return cached_type(self.known_types(), type_name)

    def notes(self, *instants_ns: int | None) -> tuple[str, ...]:
        """Notes about instants outside of the recorded range; None stands for no bound."""
        given = [ns for ns in instants_ns if ns is not None]
        whole = self.recorded() if given else None
        if whole is None:
            return ()
        found = []
        for ns in given:
            if not whole.first_ns <= ns <= whole.last_ns:
                side = "before" if ns < whole.first_ns else "after"
                found.append(f"{instant_text(ns)} is {side} the recorded range: {whole}")
        return tuple(dict.fromkeys(found))


def instant_text(ns: int) -> str:
    """Nanoseconds since 1970 as an ISO time in UTC, with as many digits as needed."""
    try:
        whole = _EPOCH + timedelta(seconds=ns // 10**9)
    except OverflowError:
        return f"{ns} ns"
    rest = ns % 10**9
    digits = "" if not rest else f".{rest:09}" if rest % 1000 else f".{rest // 1000:06}"
    return f"{whole:%Y-%m-%dT%H:%M:%S}{digits}Z"


def _ns(instant: Instant | None) -> int | None:
    return None if instant is None else instant_ns(instant)


def _json(row: dict[str, Any]) -> str:
    """The fields of an object as JSON, as Spark writes it: nulls are left out."""
    return json.dumps(_set(row), default=_json_value, ensure_ascii=False, separators=(",", ":"))


def _set(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _set(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_set(item) for item in value]
    if isinstance(value, float) and value - value != 0.0:
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    return value


def _json_value(value: Any) -> Any:
    import base64
    from decimal import Decimal

    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, Decimal):
        return int(value)
    return base64.b64encode(value).decode()
