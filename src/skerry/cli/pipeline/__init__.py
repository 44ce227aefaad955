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

from typing import Final

import click

from skerry.cli.lazy_group import LazyGroup as _LazyGroup

__all__ = ["pipeline"]

_COMMANDS: Final = {
    "asof": "Show the state of all objects at an instant.",
    "between": "Show all updates of a type in a range of time.",
    "compact": "Combine small files of the tables into large ones.",
    "diff": "Show the objects that differ between two instants.",
    "follow": "Keep the tables up to date with recordings.",
    "report": "Report traffic, latency, loss, sessions and alarms.",
    "retain": "Delete updates and old states by age.",
    "run": "Merge everything that is recorded into the tables, and end.",
    "tables": "List the tables with their number of rows, files and bytes.",
    "vacuum": "Delete files that no table names any more.",
}


@click.group(cls=_LazyGroup, package=__name__, summaries=_COMMANDS)
def pipeline() -> None:
    """Turn recordings into tables with Spark, and query them about any time.

    `run` merges everything that is recorded and ends; `follow` continues as the recording grows.
    Both may be stopped and started at any time: no update is lost or counted twice. The tables are
    Parquet files with a Delta log, so DuckDB, polars and other tools can read them.

    Spark needs the extra (`pip install 'skerry[spark]'`) and a few seconds to start. asof, between,
    diff and tables work without it (`pip install 'skerry[lake]'`).
    """
