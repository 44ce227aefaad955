"""SQL over the tables, by DuckDB.

Each table is a view: `latest.Vessel`, `history.Vessel`, `updates.Vessel`, `links`. `states.Vessel`
is `history` and `latest` together, and `Vessel` alone is the objects there are now; of a message
type it is its updates. DuckDB's own reader of Delta is an extension that has to be downloaded, so
the views are Arrow datasets of the files that the logs name. What a query compares with constants
is handed to these, and files and row groups that it rules out are not read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from skerry.errors import PipelineError
from skerry.lake.answer import Answer
from skerry.lake.extras import require_lake
from skerry.lake.layout import TypeTables
from skerry.lake.scanning import BATCH_ROWS, dataset_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from skerry.lake.reader import OpenLake

__all__ = ["MEMORY", "answer_of", "filtered", "view_names"]

MEMORY: Final = "1GB"
"""What DuckDB uses at most; beyond, it writes to a temporary folder."""
_ALL: Final = re.compile(r"\b(show|describe|information_schema|duckdb_\w+|pragma)\b", re.IGNORECASE)
"""Words of a query that asks which tables there are."""
_MISSING: Final = re.compile(r'Table with name "?([^" ]+)"? does not exist')


# Names are quoted, and a query is the user's own.
# ruff: noqa: S608


def answer_of(lake: OpenLake, query: str, *, memory: str = MEMORY) -> Answer:
    """What a query says; PipelineError where it is not one that DuckDB takes."""
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
    """The rows of an answer for which a condition is true, in SQL as DuckDB has it."""
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
    """The views that a query may name."""
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
    """Make the views whose names are in a query: the log of each table takes time to read."""
    types = lake.known_types()
    tables = lake.table_names()
    wants_all = _ALL.search(query) is not None
    spoken = query.casefold()
    wanted = [name for name in tables if wants_all or name.rpartition("/")[2].casefold() in spoken]
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
    connection: duckdb.DuckDBPyConnection, types: Mapping[str, TypeTables], made: set[str]
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
        # A type that is called as a table of its own, such as `links`, keeps to its schemas.
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
    """Inside, an error of DuckDB is a PipelineError with its first line."""

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
    return f"there are {', '.join(names[:20])}"
