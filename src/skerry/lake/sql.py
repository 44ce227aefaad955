"""SQL over the tables, with DuckDB.

Each table is a SQL view: `latest.Vessel`, `history.Vessel`, `updates.Vessel`, `links`.
`states.Vessel` combines `history` and `latest`. `Vessel` alone has the current objects, or the
updates of a message type. DuckDB reads Delta only with an extension that has to be downloaded, so
the SQL views are Arrow datasets of the files in the logs. Comparisons with constants are pushed
down to them: files and row groups that cannot match are not read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from skerry.errors import PipelineError
from skerry.lake.answer import Answer
from skerry.lake.scanning import BATCH_ROWS, dataset_of
from skerry.spark.lake.plans import TypeState
from skerry.spark.startup.extras import require_lake

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from skerry.lake.reader import OpenLake


MEMORY: Final = "1GB"
"""Memory limit of DuckDB; above it, DuckDB writes to a temporary folder."""
_ALL: Final = re.compile(r"\b(show|describe|information_schema|duckdb_\w+|pragma)\b", re.IGNORECASE)
"""Words of a query that lists tables."""
_MISSING: Final = re.compile(r'Table with name "?([^" ]+)"? does not exist')


# Names are quoted, and a query is the user's own.
# ruff: noqa: S608


def answer_of(lake: OpenLake, query: str, *, memory: str = MEMORY) -> Answer:
    """The result of a query; PipelineError if DuckDB rejects it."""
    connection = _connected(memory)
    with _errors(lake):
        _make_views(connection, lake, query)
        relation: duckdb.DuckDBPyRelation | None = connection.sql(query)
        if relation is None:
            # A statement without a result, such as COPY.
            return _nothing()
        # The columns are known before any row is computed.
        found: duckdb.DuckDBPyRelation = relation
        schema = found.limit(0).to_arrow_table().schema

    def batches() -> Iterator[pa.RecordBatch]:
        with _errors():
            yield from found.to_arrow_reader(BATCH_ROWS)

    return Answer(schema, batches)


def filtered(answer: Answer, where: str) -> Answer:
    """The rows of an answer for which a condition in DuckDB's SQL is true."""
    connection = _connected(MEMORY)
    with _errors():
        connection.from_arrow(answer.schema.empty_table()).filter(where)

    def batches() -> Iterator[pa.RecordBatch]:
        with _errors():
            rows = connection.from_arrow(answer.reader()).filter(where)
            for batch in rows.to_arrow_reader(BATCH_ROWS):
                yield batch.cast(answer.schema)

    return Answer(answer.schema, batches, notes=lambda: answer.notes)


def view_names(lake: OpenLake) -> list[str]:
    """The names that a query may use as tables."""
    types = lake.known_types()
    tables = [name.replace("/", ".", 1) for name in lake.table_names()]
    states = [f"states.{name}" for name, state in types.items() if state.is_cached]
    return sorted({*tables, *states, *types})


def _connected(memory: str) -> duckdb.DuckDBPyConnection:
    require_lake("duckdb")
    import duckdb

    with _errors():
        connection = duckdb.connect(
            config={"autoinstall_known_extensions": "false", "memory_limit": memory}
        )
        connection.execute("SET TimeZone = 'UTC'")
    return connection


def _make_views(connection: duckdb.DuckDBPyConnection, lake: OpenLake, query: str) -> None:
    """Create the SQL views whose names occur in a query; reading all logs would take too long."""
    types = lake.known_types()
    tables = lake.table_names()
    wants_all = _ALL.search(query) is not None
    folded = query.casefold()
    wanted = [name for name in tables if wants_all or name.rpartition("/")[2].casefold() in folded]
    made: set[str] = set()
    for name in wanted:
        contents = lake.contents(name)
        if contents is None:
            continue
        source = f"dataset_{len(made)}"
        connection.register(source, dataset_of(lake.store, name, contents))
        schema, _, table = name.rpartition("/")
        if schema:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(schema)}")
        _view(connection, (schema, table) if schema else (table,), f"SELECT * FROM {source}")
        made.add(name)
    if made:
        _type_views(connection, types, made)


def _type_views(
    connection: duckdb.DuckDBPyConnection, types: Mapping[str, TypeState], made: set[str]
) -> None:
    connection.execute("CREATE SCHEMA IF NOT EXISTS states")
    for name in types:
        kinds = [kind for kind in ("history", "latest") if f"{kind}/{name}" in made]
        if kinds:
            parts = {"history": "bucket", "latest": "part"}
            selects = [
                f"SELECT * EXCLUDE ({parts[kind]}) FROM {kind}.{_quoted(name)}" for kind in kinds
            ]
            _view(connection, ("states", name), " UNION ALL BY NAME ".join(selects))
        # A type with the name of a derived table, such as `links`, is only in its schemas.
        own = next((k for k in ("latest", "updates") if f"{k}/{name}" in made), None)
        if own is not None and name not in made:
            _view(connection, (name,), f"SELECT * FROM {own}.{_quoted(name)}")


def _view(connection: duckdb.DuckDBPyConnection, path: tuple[str, ...], select: str) -> None:
    name = ".".join(map(_quoted, path))
    connection.execute(f"CREATE OR REPLACE VIEW {name} AS {select}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _nothing() -> Answer:
    import pyarrow as pa

    return Answer(pa.schema([]), lambda: iter(()))


class _errors:  # noqa: N801 - used as a function
    """Within the context, errors of DuckDB are raised as PipelineError with their first line."""

    def __init__(self, lake: OpenLake | None = None) -> None:
        self._lake = lake

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        import duckdb

        if not isinstance(error, duckdb.Error):
            return
        first, *rest = str(error).splitlines() or ["DuckDB failed"]
        fault = PipelineError(first)
        lines = [line.strip() for line in rest if line.strip() and "^" not in line]
        fault.hint = " ".join(lines) or None
        missing = _MISSING.search(first)
        if missing is not None and self._lake is not None:
            fault.hint = _nearest(missing[1], view_names(self._lake))
        raise fault from error


def _nearest(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, 3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known tables: {', '.join(names[:20])}"
