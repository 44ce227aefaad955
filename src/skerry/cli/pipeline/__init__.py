"""`skerry pipeline`: makes tables of recordings, and queries them.

- `jobs`: `run` and `follow` merge recordings into tables, once or continuously
- `queries`: `asof`, `between` and `diff` query instants and ranges of time
- `report`: figures and a page about the traffic
- `maintenance`: `tables`, `compact`, `vacuum` and `retain`
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

_MODULES: Final = {
    "asof": "queries",
    "between": "queries",
    "compact": "maintenance",
    "diff": "queries",
    "follow": "jobs",
    "report": "report",
    "retain": "maintenance",
    "run": "jobs",
    "tables": "maintenance",
    "vacuum": "maintenance",
}


class _LazyCommands(click.Group):
    """Imports each command when it is called, because they need different packages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        module = import_module(f"{__name__}.{_MODULES[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
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
