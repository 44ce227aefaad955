"""`skerry pipeline tables`, `compact`, `vacuum` and `retain`: lists the tables, maintains them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

import click

from skerry.cli.config import load_section
from skerry.cli.output import current_output, json_option
from skerry.cli.parameters import FiniteFloat
from skerry.cli.pipeline.settings import PipelineConfig
from skerry.cli.pipeline.spark_session import (
    SparkChoice,
    require_tables,
    spark_options,
    tables_option,
)
from skerry.cli.progress import status_line
from skerry.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command()
@tables_option
@json_option
def tables(*, tables: str, as_json: bool) -> None:
    """List the tables with their number of rows, files and bytes.

    The sizes are read from the logs of the tables; Spark is not started.

    \b
    Examples:
      skerry pipeline tables --tables lake
      skerry pipeline tables --tables lake --json
    """
    from skerry.spark.startup.extras import require_lake

    require_lake()
    from skerry.formatting import bytes_text
    from skerry.lake.reader import OpenLake

    output = current_output()
    found = OpenLake(tables).tables()
    if as_json:
        for table in found:
            output.json_line(
                name=table.name, rows=table.rows, files=table.files, bytes=table.byte_count
            )
        return
    if not found:
        output.note(f"there are no tables in {tables}; create them with `skerry pipeline run`")
        return
    rows = [(t.name, f"{t.rows:,}", f"{t.files:,}", bytes_text(t.byte_count)) for t in found]
    output.table(("table", "rows", "files", "size"), rows)


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
        from skerry.spark.jobs.maintenance import compact as compact_tables
        from skerry.spark.lake.lake import Lake

        with status_line(output, "compacting"):
            made = compact_tables(Lake(spark, tables))
    if as_json:
        for name, (before, after) in sorted(made.items()):
            output.json_line(name=name, files_before=before, files=after)
    elif made:
        rows = [(name, before, after) for name, (before, after) in sorted(made.items())]
        output.table(("table", "files", "now"), rows)
    else:
        output.note("there are no small files to compact")


@click.command()
@tables_option
@click.option(
    "--older-than",
    "keep_hours",
    type=FiniteFloat(min=0),
    default=168.0,
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
    from skerry.formatting import bytes_text, count
    from skerry.spark.jobs.maintenance import vacuum as vacuum_tables
    from skerry.spark.lake.lake import Lake

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


@click.command()
@tables_option
@click.option(
    "--keep",
    metavar="AGE",
    help="Maximum age of rows of all types, such as 30d or 12h; by default pipeline.keep of the"
    " configuration.",
)
@click.option(
    "--type",
    "kept_types",
    multiple=True,
    metavar="T=AGE",
    help="Maximum age for one type, or T= to keep all of its rows; may be given several times, in"
    " addition to pipeline.keep_types of the configuration.",
)
@click.option("--dry-run", is_flag=True, help="Only count the rows that would be deleted.")
@json_option
def retain(
    *, tables: str, keep: str | None, kept_types: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Delete updates and old states by age.

    The table rollups/T keeps figures of each object by the minute: the number of updates, and for
    each field the count, the last value, the mean, the minimum and the maximum. Queries about later
    times have the same results as before; queries about earlier times are rejected. Ages are
    rounded to full hours. latest, gone, raw and the derived tables do not change.
    `pipeline vacuum` frees the disk space. Spark is not started.

    \b
    Examples:
      skerry pipeline retain --tables lake --keep 90d --dry-run
      skerry pipeline retain --tables lake --keep 90d --type Radar=2d --type Voyage=
    """
    require_tables(tables)
    from skerry.lake.reader import OpenLake, instant_text
    from skerry.lake.retention import retain as retain_rows
    from skerry.runtime.clock import wall_ns

    config = load_section("pipeline", PipelineConfig).value
    names = OpenLake(tables).types()
    try:
        ages = ages_of(names, config.keep if keep is None else keep, config.keep_types, kept_types)
    except PipelineError as error:
        raise click.UsageError(f"{error}; {error.hint}") from None
    output = current_output()
    found = retain_rows(tables, ages, now_ns=wall_ns(), dry_run=dry_run)
    if as_json:
        for dropped in found:
            output.json_line({**asdict(dropped), "is_dry_run": dry_run})
        return
    if not found:
        output.note("no rows are old enough" if ages else "no maximum age is given: see --keep")
        return
    rows = [
        (
            d.type_name,
            instant_text(d.before_ns),
            f"{d.updates:,}",
            f"{d.states:,}",
            f"{d.rollups:,}",
        )
        for d in found
    ]
    verb = "to delete" if dry_run else "deleted"
    output.table(("type", "before", f"updates {verb}", f"states {verb}", "rollups added"), rows)


def ages_of(names: Iterable[str], keep: str, *lists: Iterable[str]) -> Mapping[str, int]:
    """The maximum age of rows in ns by type; types without one are left out."""
    from skerry.lake.series import duration_ns
    from skerry.spark.lake.state_lookup import unknown_name

    known = list(names)
    ages = dict.fromkeys(known, duration_ns(keep)) if keep else {}
    for text in (item for items in lists for item in items):
        name, equals, age = text.partition("=")
        if not equals:
            error = PipelineError(f"{text!r} has no age")
            error.hint = "write it as Vessel=7d"
            raise error
        if name not in known:
            raise unknown_name(name, known)
        ages.pop(name, None)
        if age:
            ages[name] = duration_ns(age)
    return ages
