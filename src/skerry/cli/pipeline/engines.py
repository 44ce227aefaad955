"""The query engines of the commands: `skerry.lake` or Spark.

Both read the same files and return the same rows. `skerry.lake` answers within a second; Spark has
to be started first, and is meant for tables that are too large for one computer.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import click
from click.core import ParameterSource

from skerry.cli.output import Output
from skerry.cli.parameters import Command, with_options
from skerry.cli.pipeline.answers import Rows, lake_rows, spark_rows
from skerry.cli.pipeline.spark_session import (
    SparkChoice,
    is_small,
    require_tables,
    spark_options,
)
from skerry.cli.progress import status_line

if TYPE_CHECKING:
    from skerry.lake.reader import OpenLake
    from skerry.spark.lake.plans import TypeState
    from skerry.spark.tables import Tables

_ORDER: Final = ("order_ns", "node", "position", "sender", "sequence")
_OF_SPARK: Final = ("master", "memory", "conf")


def engine_options(command: Command) -> Command:
    """Adds `--engine` and the options of Spark to a command, as its argument `choice`.

    `choice` is None if `skerry.lake` is the engine.
    """

    @functools.wraps(command)
    def with_engine(*, engine: str | None, choice: SparkChoice, **others: Any) -> Any:
        context = click.get_current_context()
        given = [
            name
            for name in _OF_SPARK
            if context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT)
        ]
        if engine == "lake" and given:
            raise click.UsageError(f"--{given[0]} is for Spark: use --engine spark")
        is_spark = engine == "spark" or bool(given)
        return command(choice=choice if is_spark else None, **others)

    made: Any = with_options(
        click.option(
            "--engine",
            type=click.Choice(["lake", "spark"]),
            help="Query engine: this program, within a second (lake), or Spark. By default lake, or"
            " spark if an option of Spark is given.",
        ),
        spark_options,
    )(with_engine)
    return cast("Command", made)


@contextmanager
def opened_queries(
    output: Output, tables: str, choice: SparkChoice | None, app_name: str, *instants_ns: int
) -> Iterator[Queries]:
    """Opens a query engine; prints notes about instants outside of the recorded range."""
    from skerry.spark.startup.extras import require_lake

    require_lake()
    from skerry.lake.reader import OpenLake

    if choice is not None:
        require_tables(tables)
    lake = OpenLake(tables)
    for note in lake.notes(*instants_ns):
        output.note(note)
    if choice is None:
        yield Queries(lake)
        return
    with choice.session(output, app_name, is_brief=is_small(tables)) as spark:
        from skerry.spark.tables import Tables

        with status_line(output, "querying"):
            source = Tables(spark, tables)
        yield _SparkQueries(lake, source)


class Queries:
    """The queries of the commands; objects are sorted by space, type and key, updates by time."""

    def __init__(self, lake: OpenLake) -> None:
        self._lake = lake

    def types(self) -> Mapping[str, TypeState]:
        """The types by the names of their tables."""
        return self._lake.known_types()

    def asof(self, type_name: str | None, at_ns: int, where: str | None) -> Rows:
        answer = self._lake.asof(type_name, at_ns)
        return lake_rows(_where(answer, where), _object_order(type_name))

    def between(self, type_name: str, from_ns: int, to_ns: int, where: str | None) -> Rows:
        # The updates are in order already.
        return lake_rows(_where(self._lake.between(type_name, from_ns, to_ns), where))

    def diff(self, type_name: str, from_ns: int, to_ns: int) -> Rows:
        return lake_rows(self._lake.diff(type_name, from_ns, to_ns))


class _SparkQueries(Queries):
    def __init__(self, lake: OpenLake, source: Tables) -> None:
        super().__init__(lake)
        self._source = source

    def asof(self, type_name: str | None, at_ns: int, where: str | None) -> Rows:
        frame = self._source.asof(type_name, at_ns)
        frame = frame if where is None else frame.where(where)
        return spark_rows(frame, _object_order(type_name))

    def between(self, type_name: str, from_ns: int, to_ns: int, where: str | None) -> Rows:
        frame = self._source.between(type_name, from_ns, to_ns)
        frame = frame if where is None else frame.where(where)
        return spark_rows(frame, _ORDER)

    def diff(self, type_name: str, from_ns: int, to_ns: int) -> Rows:
        return spark_rows(self._source.diff(type_name, from_ns, to_ns), ("space", "key"))


def _object_order(type_name: str | None) -> tuple[str, ...]:
    return ("space", "key") if type_name is not None else ("space", "type", "key")


def _where(answer: Any, where: str | None) -> Any:
    if where is None:
        return answer
    from skerry.lake.sql import filtered

    return filtered(answer, where)
