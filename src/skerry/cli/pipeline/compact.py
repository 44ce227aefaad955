"""`skerry pipeline compact`: few large files in place of many small ones."""

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

__all__ = ["compact"]


@click.command()
@tables_option
@spark_options
@json_option
def compact(*, tables: str, choice: SparkChoice, as_json: bool) -> None:
    """Put small files of the tables together.

    Rows are put in order as well, so that questions read less. Whoever reads meanwhile goes on
    with the old files, which stay until `vacuum`. Nothing else may write; `follow` compacts by
    itself.

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
        output.note("there is nothing to put together")
