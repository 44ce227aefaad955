"""`skerry pipeline retain`: drop rows by their age, and keep figures by the minute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

import click

from skerry.cli.config import load_section
from skerry.cli.output import current_output, json_option
from skerry.cli.pipeline.settings import PipelineConfig
from skerry.cli.pipeline.spark_session import require_tables, tables_option
from skerry.errors import PipelineError

__all__ = ["ages_of", "retain"]


@click.command()
@tables_option
@click.option(
    "--keep",
    metavar="AGE",
    help="Drop rows of all types that are older, as 30d or 12h; pipeline.keep if not given.",
)
@click.option(
    "--type",
    "kept_types",
    multiple=True,
    metavar="T=AGE",
    help="Another age for one type, or T= to keep all of it; may be given several times. Those of"
    " pipeline.keep_types hold besides.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be dropped.")
@json_option
def retain(
    *, tables: str, keep: str | None, kept_types: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Drop updates and old states by their age.

    Figures of each object by the minute are kept in the table rollups/T: how many updates, and of
    each field the count, the last value, the mean, the lowest and the highest. What is asked about
    later times is answered as before; a question about earlier ones is refused. Bounds are full
    hours. latest, gone, raw and the derived tables keep all they have. Disk space is freed by
    `pipeline vacuum`. No Spark is started for it.

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
        output.note("nothing is old enough" if ages else "no age is given: see --keep")
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
    verb = "would go" if dry_run else "dropped"
    output.table(("type", "before", f"updates {verb}", f"states {verb}", "rollups added"), rows)


def ages_of(names: Iterable[str], keep: str, *lists: Iterable[str]) -> Mapping[str, int]:
    """How old rows of each type may become, in ns; types that are kept whole are left out."""
    from skerry.lake.series import duration_ns
    from skerry.spark.lake.state_lookup import unknown_name

    known = list(names)
    ages = dict.fromkeys(known, duration_ns(keep)) if keep else {}
    for text in (item for items in lists for item in items):
        name, equals, age = text.partition("=")
        if not equals:
            error = PipelineError(f"{text!r} names no age")
            error.hint = "write it as Vessel=7d"
            raise error
        if name not in known:
            raise unknown_name(name, known)
        ages.pop(name, None)
        if age:
            ages[name] = duration_ns(age)
    return ages
