"""`skerry pipeline`: makes tables of recordings, and queries them.

- `run`, `follow`: merge recordings into tables, once or continuously
- `asof`, `between`, `diff`: queries about instants and ranges of time
- `tables`: lists the tables
- `report`: figures and a page about the traffic
- `compact`, `vacuum`, `retain`: maintenance
- `engines`: the two query engines, `skerry.lake` and Spark
- `answers`: prints the rows of a query
- `spark_session`: the options and the session of Spark
- `job_status`: progress and metrics of a job
- `settings`: section `pipeline` of the configuration
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

__all__ = ["pipeline"]

_COMMANDS: Final = (
    "asof",
    "between",
    "compact",
    "diff",
    "follow",
    "report",
    "retain",
    "run",
    "tables",
    "vacuum",
)


class _LazyCommands(click.Group):
    """Imports each command when it is called, because they need different packages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name)
        return command


@click.group(cls=_LazyCommands)
def pipeline() -> None:
    """Turn recordings into tables with Spark, and query them about any time.

    `run` merges everything that is recorded and ends; `follow` continues as the recording grows.
    Both may be stopped and started at any time: no update is lost or counted twice. The tables are
    Parquet files with a Delta log, so DuckDB, polars and other tools can read them.

    Spark needs the extra (`pip install 'skerry[spark]'`) and a few seconds to start. asof, between,
    diff and tables work without it (`pip install 'skerry[lake]'`).
    """
