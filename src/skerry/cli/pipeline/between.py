"""`skerry pipeline between`: the updates from one instant to another."""

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
@click.option("--type", "type_name", required=True, metavar="T", help="Updates of this type.")
@click.option(
    "--from",
    "from_ns",
    required=True,
    metavar="INSTANT",
    callback=instant_of,
    help="Start of the range.",
)
@click.option(
    "--to",
    "to_ns",
    required=True,
    metavar="INSTANT",
    callback=instant_of,
    help="End of the range, exclusive.",
)
@click.option("--where", metavar="E", help="Only updates for which this SQL condition is true.")
@limit_option
@engine_options
@json_option
def between(
    *,
    tables: str,
    type_name: str,
    from_ns: int,
    to_ns: int,
    where: str | None,
    limit: int | None,
    choice: SparkChoice | None,
    as_json: bool,
) -> None:
    """Show all updates of a type in a range of time.

    Updates are shown in order, with sender and object. Fields that are not in an update are left
    out. With --json each line has _operation, _time (seconds since 1970), _type, _key, _subject,
    _sender and _space in addition to the fields.

    \b
    Examples:
      skerry pipeline between --tables lake --type Alarm \\
          --from 2026-11-15T14:00Z --to 2026-11-15T15:00Z
      skerry pipeline between --tables lake --type Vessel --where "mmsi = 244660000" \\
          --from 2026-11-15T14:00Z --to 2026-11-15T14:01Z --json
    """
    if to_ns < from_ns:
        raise click.UsageError("--to is before --from")
    output = current_output()
    with opened_queries(
        output, tables, choice, "skerry pipeline between", from_ns, to_ns
    ) as queries:
        with waiting(output, "querying"):
            rows = queries.between(type_name, from_ns, to_ns, where)
            fields = fields_of(queries.types(), type_name)
        print_rows(
            output,
            rows,
            as_json=as_json,
            limit=limit,
            to_json=lambda row: _update_row(row, type_name, fields),
            to_cells=lambda row: _cells(row, fields),
        )


def _update_row(row: dict[str, Any], type_name: str, fields: Fields) -> dict[str, Any]:
    return {
        **fields.values(row),
        "_operation": row["change"],
        "_time": row["order_ns"] / 1e9,
        "_type": type_name,
        "_key": fields.key(row),
        "_subject": row["subject"],
        "_sender": row["sender"],
        "_space": row["space"],
    }


def _cells(row: dict[str, Any], fields: Fields) -> dict[str, Any]:
    from skerry.lake.reader import instant_text

    return {
        fields.fact("time"): instant_text(row["order_ns"]),
        fields.fact("change"): row["change"],
        fields.fact("sender"): row["sender"],
        **dict.fromkeys(fields.columns.values()),
        **fields.values(row, text_value),
    }
