"""`skerry pipeline asof`: what was there at an instant."""

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
    shown_value,
    tell,
)
from skerry.cli.pipeline.engines import asked, engine_options
from skerry.cli.pipeline.spark_session import SparkChoice, tables_option, waiting

__all__ = ["asof"]


@click.command()
@tables_option
@click.option("--type", "type_name", metavar="T", help="Objects of this type; without, of all.")
@click.option(
    "--at",
    "at_ns",
    required=True,
    metavar="INSTANT",
    callback=instant_of,
    help="As 2026-11-15T14:03:07Z, or in nanoseconds since 1970.",
)
@click.option("--where", metavar="E", help="Only objects for which this is true, in SQL.")
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

    Each comes with its age then. With --json each line has the object by field names, and _type,
    _key, _subject, _sender, _age_s, _life (how often it had been created) and _space. Without
    --type objects of all types are shown, the node's own included.

    \b
    Examples:
      skerry pipeline asof --tables lake --type Vessel --at 2026-11-15T14:03:07Z
      skerry pipeline asof --tables lake --type Vessel --at 2026-11-15T14:03:07Z \\
          --where "speed > 12"
      skerry pipeline asof --tables lake --at 2026-11-15T14:03:07Z --json
    """
    output = current_output()
    with asked(output, tables, choice, "skerry pipeline asof", at_ns) as questions:
        with waiting(output, "looking it up"):
            rows = questions.asof(type_name, at_ns, where)
            types = questions.types()
            names = sorted(types) if type_name is None else [type_name]
            fields = {name: fields_of(types, name) for name in names}
        tell(
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
    # With all types the fields are one column.
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
        return {
            "type": row["type"],
            "subject": row["subject"],
            "object": row["object"],
            "age": age,
        }
    values = {**dict.fromkeys(fields.columns.values()), **fields.values(row, shown_value)}
    return {**values, fields.fact("age"): age}
