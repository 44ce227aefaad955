"""`skerry pipeline retain`: deletes rows by age, and keeps figures by the minute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

import click

from skerry.cli.config import load_section
from skerry.cli.output import current_output, json_option
from skerry.cli.pipeline.settings import PipelineConfig
from skerry.cli.pipeline.spark_session import require_tables, tables_option
from skerry.errors import PipelineError


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
