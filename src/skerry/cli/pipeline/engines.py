"""Who answers a question of a command: `skerry.lake` by itself, or Spark.

Both read the same files and give the same rows. `skerry.lake` answers within a second; Spark has
to be started first, and is for tables that one computer does not read in a reasonable time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import click
from click.core import ParameterSource

from skerry.cli.output import Output
from skerry.cli.pipeline.answers import Rows, lake_rows, spark_rows
from skerry.cli.pipeline.spark_session import (
    SparkChoice,
    is_little,
    require_tables,
    spark_options,
    waiting,
)

if TYPE_CHECKING:
    from skerry.lake.reader import OpenLake
    from skerry.spark.lake.state_lookup import TableType
    from skerry.spark.tables import Tables

__all__ = ["Questions", "asked", "engine_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

_ORDER: Final = ("order_ns", "node", "position", "sender", "sequence")
_OF_SPARK: Final = ("master", "memory", "conf")


class Questions(Protocol):
    """What a command asks; rows are sorted by space, type and key, updates by their order."""

    def types(self) -> Mapping[str, TableType]:
        """What is known of the types, by the names of their tables."""

    def asof(self, type_name: str | None, at_ns: int, where: str | None) -> Rows:
        """The state of every object at an instant."""

    def between(self, type_name: str, from_ns: int, to_ns: int, where: str | None) -> Rows:
        """Every update of a type from one instant up to another."""

    def diff(self, type_name: str, from_ns: int, to_ns: int) -> Rows:
        """The objects that are not the same at two instants."""


def engine_options(command: Command) -> Command:
    """Gives a command `--engine` and the options of Spark, as its argument `choice`.

    It is None where `skerry.lake` answers.
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

    option = click.option(
        "--engine",
        type=click.Choice(["lake", "spark"]),
        help="Who reads the tables: this program, within a second (lake), or Spark. Default: lake,"
        " and spark where an option of Spark is given.",
    )
    wrapped: Any = option(spark_options(with_engine))
    return wrapped  # type: ignore[no-any-return]


@contextmanager
def asked(
    output: Output, tables: str, choice: SparkChoice | None, app_name: str, *instants_ns: int
) -> Iterator[Questions]:
    """Inside, tables can be asked; says before which instants are outside of the recording."""
    from skerry.lake.extras import require_lake

    require_lake()
    from skerry.lake.reader import OpenLake

    if choice is not None:
        require_tables(tables)
    lake = OpenLake(tables)
    for note in lake.notes(*instants_ns):
        output.note(note)
    if choice is None:
        yield _LakeQuestions(lake)
        return
    with choice.session(output, app_name, is_brief=is_little(tables)) as spark:
        from skerry.spark.tables import Tables

        with waiting(output, "looking it up"):
            source = Tables(spark, tables)
        yield _SparkQuestions(lake, source)


class _LakeQuestions:
    def __init__(self, lake: OpenLake) -> None:
        self._lake = lake

    def types(self) -> Mapping[str, TableType]:
        return self._lake.known_types()

    def asof(self, type_name: str | None, at_ns: int, where: str | None) -> Rows:
        answer = self._lake.asof(type_name, at_ns)
        return lake_rows(_where(answer, where), _object_order(type_name))

    def between(self, type_name: str, from_ns: int, to_ns: int, where: str | None) -> Rows:
        # They come in order.
        return lake_rows(_where(self._lake.between(type_name, from_ns, to_ns), where))

    def diff(self, type_name: str, from_ns: int, to_ns: int) -> Rows:
        return lake_rows(self._lake.diff(type_name, from_ns, to_ns))


class _SparkQuestions:
    def __init__(self, lake: OpenLake, source: Tables) -> None:
        self._lake = lake
        self._source = source

    def types(self) -> Mapping[str, TableType]:
        return self._lake.known_types()

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
