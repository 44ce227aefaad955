"""`skerry pipeline diff`: the objects that differ between two instants."""

from __future__ import annotations

from typing import Any

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.pipeline.answers import (
    Fields,
    fields_of,
    instant_of,
    limit_option,
    print_rows,
    text_value,
)
from skerry.cli.pipeline.engines import engine_options, opened_queries
from skerry.cli.pipeline.spark_session import SparkChoice, tables_option, waiting


@click.command()
@tables_option
@click.option("--type", "type_name", required=True, metavar="T", help="Objects of this type.")
@click.option(
    "--from",
    "from_ns",
    required=True,
    metavar="INSTANT",
    callback=instant_of,
    help="The first instant.",
)
@click.option(
    "--to",
    "to_ns",
    required=True,
    metavar="INSTANT",
    callback=instant_of,
    help="The second instant.",
)
@limit_option
@engine_options
@json_option
def diff(
    *,
    tables: str,
    type_name: str,
    from_ns: int,
    to_ns: int,
    limit: int | None,
    choice: SparkChoice | None,
    as_json: bool,
) -> None:
    """Show the objects that differ between two instants.

    They were added, removed, replaced or changed. An object that was removed and created again is
    replaced. With --json each line has _change, _changed (names of fields), _before and _after (the
    object at that instant, null if it did not exist), and _type, _key, _subject and _space.

    \b
    Examples:
      skerry pipeline diff --tables lake --type Vessel \\
          --from 2026-11-15T14:00Z --to 2026-11-15T15:00Z
    """
    output = current_output()
    with opened_queries(output, tables, choice, "skerry pipeline diff", from_ns, to_ns) as queries:
        with waiting(output, "comparing"):
            rows = queries.diff(type_name, from_ns, to_ns)
            fields = fields_of(queries.types(), type_name)
        print_rows(
            output,
            rows,
            as_json=as_json,
            limit=limit,
            to_json=lambda row: _difference_row(row, type_name, fields),
            to_cells=lambda row: _cells(row, fields),
        )


def _difference_row(row: dict[str, Any], type_name: str, fields: Fields) -> dict[str, Any]:
    before, after = _objects(row)
    return {
        "_change": row["change"],
        "_changed": [fields.columns[name] for name in row["changed"]],
        "_before": None if before is None else fields.values(before),
        "_after": None if after is None else fields.values(after),
        "_type": type_name,
        "_key": fields.key(after or before or {}),
        "_subject": row["subject"],
        "_space": row["space"],
    }


def _cells(row: dict[str, Any], fields: Fields) -> dict[str, Any]:
    before, after = _objects(row)
    ours = {} if before is None else fields.values(before, text_value)
    theirs = {} if after is None else fields.values(after, text_value)
    names = [fields.columns[name] for name in row["changed"]]
    words = [f"{name}: {ours.get(name)} -> {theirs.get(name)}" for name in names]
    return {"subject": row["subject"], "change": row["change"], "what": ", ".join(words)}


def _objects(row: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The object before and after; None if it did not exist."""
    before = None if row["change"] == "added" else row["before"]
    after = None if row["change"] == "removed" else row["after"]
    return before, after
