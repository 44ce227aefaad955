"""`skerry pipeline vacuum`: deletes files that no table names any more."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, cast

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.parameters import FiniteFloat
from skerry.cli.pipeline.spark_session import require_tables, tables_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command()
@tables_option
@click.option(
    "--older-than",
    "keep_hours",
    type=FiniteFloat(min=0),
    default=168.0,
    show_default=True,
    metavar="HOURS",
    help="Only files that no table has named for this many hours.",
)
@click.option("--dry-run", is_flag=True, help="Only count the files that would be deleted.")
@json_option
def vacuum(*, tables: str, keep_hours: float, dry_run: bool, as_json: bool) -> None:
    """Delete files that no table names any more.

    These are replaced files, and files of killed jobs. Queries that still read them fail, so keep
    them for longer than the longest query takes. With less than an hour, no job may write at the
    same time. Spark is not started.

    \b
    Examples:
      skerry pipeline vacuum --tables lake --dry-run
      skerry pipeline vacuum --tables lake --older-than 24
    """
    require_tables(tables)
    from skerry.spark.jobs.vacuum import vacuum as vacuum_tables
    from skerry.spark.lake.lake import Lake
    from skerry.spark.report.formatting import bytes_text, count

    output = current_output()
    # Only files are listed and deleted, which does not need a session.
    lake = Lake(cast("SparkSession", None), tables)
    done = vacuum_tables(lake, keep_hours, dry_run=dry_run)
    if as_json:
        output.json_line({**asdict(done), "is_dry_run": dry_run})
        return
    files = "1 file" if done.file_count == 1 else f"{count(done.file_count)} files"
    verb = "would be deleted" if dry_run else "deleted"
    output.line(f"{tables}: {files}, {bytes_text(done.byte_count)} {verb}")
