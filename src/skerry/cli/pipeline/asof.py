"""`skerry pipeline asof`: the objects at an instant."""

from __future__ import annotations

from collections.abc import Mapping
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
@click.option(
    "--type", "type_name", metavar="T", help="Only objects of this type; by default of all."
)
@click.option(
    "--at",
    "at_ns",
    required=True,
    metavar="INSTANT",
    callback=instant_of,
    help="The instant, as 2026-11-15T14:03:07Z or in nanoseconds since 1970.",
)
@click.option("--where", metavar="E", help="Only objects for which this SQL condition is true.")
@limit_option
@engine_options
@json_option
def asof(
    *,
    tables: str,
    type_name: str | None,
    at_ns: int,
    where: str | None,
    limit: int | None,
    choice: SparkChoice | None,
    as_json: bool,
) -> None:
    """Show the state of all objects at an instant.

    Each is shown with its age at that instant. With --json each line has the fields of the object
    by name, and _type, _key, _subject, _sender, _age_s, _life (how often it had been created) and
    _space. Without --type, objects of all types are shown, including status objects of nodes.

    \b
    Examples:
      skerry pipeline asof --tables lake --type Vessel --at 2026-11-15T14:03:07Z
      skerry pipeline asof --tables lake --type Vessel --at 2026-11-15T14:03:07Z \\
          --where "speed > 12"
      skerry pipeline asof --tables lake --at 2026-11-15T14:03:07Z --json
    """
    output = current_output()
    with opened_queries(output, tables, choice, "skerry pipeline asof", at_ns) as queries:
        with waiting(output, "querying"):
            rows = queries.asof(type_name, at_ns, where)
            types = queries.types()
            names = sorted(types) if type_name is None else [type_name]
            fields = {name: fields_of(types, name) for name in names}
        print_rows(
            output,
            rows,
            as_json=as_json,
            limit=limit,
            to_json=lambda row: _object_row(row, type_name, fields),
            to_cells=lambda row: _cells(row, None if type_name is None else fields[type_name]),
        )


def _object_row(
    row: dict[str, Any], type_name: str | None, fields: Mapping[str, Fields]
) -> dict[str, Any]:
    own = fields[type_name or row["type"]]
    # A query over all types has the fields in one column.
    columns = row if type_name is not None else own.row_of(row["object"])
    return {
        **own.values(columns),
        "_type": type_name or row["type"],
        "_key": own.key(columns),
        "_subject": row["subject"],
        "_sender": row["sender"],
        "_age_s": row["age_s"],
        "_life": row["life"],
        "_space": row["space"],
    }


def _cells(row: dict[str, Any], fields: Fields | None) -> dict[str, Any]:
    age = f"{row['age_s']:.3f} s"
    if fields is None:
        return {"type": row["type"], "subject": row["subject"], "object": row["object"], "age": age}
    values = {**dict.fromkeys(fields.columns.values()), **fields.values(row, text_value)}
    return {**values, fields.fact("age"): age}
