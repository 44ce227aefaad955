"""`skerry pipeline compact`: replaces many small files by few large ones."""

from __future__ import annotations

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.pipeline.spark_session import (
    SparkChoice,
    require_tables,
    spark_options,
    tables_option,
    waiting,
)


@click.command()
@tables_option
@spark_options
@json_option
def compact(*, tables: str, choice: SparkChoice, as_json: bool) -> None:
    """Combine small files of the tables into large ones.

    Rows are sorted as well, so that queries read less. Concurrent readers continue with the old
    files, which are kept until `vacuum`. No other job may write at the same time; `follow` compacts
    its tables itself.

    \b
    Examples:
      skerry pipeline compact --tables lake
    """
    require_tables(tables)
    output = current_output()
    with choice.session(output, "skerry pipeline compact") as spark:
        from skerry.spark.jobs.compact import compact as compact_tables
        from skerry.spark.lake.lake import Lake

        with waiting(output, "compacting"):
            made = compact_tables(Lake(spark, tables))
    if as_json:
        for name, (before, after) in sorted(made.items()):
            output.json_line({"name": name, "files_before": before, "files": after})
    elif made:
        rows = [(name, before, after) for name, (before, after) in sorted(made.items())]
        output.table(("table", "files", "now"), rows)
    else:
        output.note("there are no small files to compact")
