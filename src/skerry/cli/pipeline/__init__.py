"""`skerry pipeline`: tables of what was recorded, and questions about any time."""

from __future__ import annotations

import click

from skerry.cli.pipeline.asof import asof
from skerry.cli.pipeline.between import between
from skerry.cli.pipeline.compact import compact
from skerry.cli.pipeline.diff import diff
from skerry.cli.pipeline.follow import follow
from skerry.cli.pipeline.report import report
from skerry.cli.pipeline.retain import retain
from skerry.cli.pipeline.run import run
from skerry.cli.pipeline.tables import tables
from skerry.cli.pipeline.vacuum import vacuum

__all__ = [
    "asof",
    "between",
    "compact",
    "diff",
    "follow",
    "pipeline",
    "report",
    "retain",
    "run",
    "tables",
    "vacuum",
]


@click.group()
def pipeline() -> None:
    """Turn recordings into tables with Spark, and ask them about any time.

    `run` takes all that is recorded and ends; `follow` goes on as the recording grows. Both may be
    stopped and started at any moment: nothing is lost, and nothing is counted twice. The tables
    are Parquet with a Delta log, so DuckDB, polars and others read them as well.

    Spark needs the extra (`pip install 'skerry[spark]'`) and a few seconds to start.
    """


for _command in (asof, between, compact, diff, follow, report, retain, run, tables, vacuum):
    pipeline.add_command(_command)
