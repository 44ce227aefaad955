"""`skerry pipeline asof`, `between` and `diff`: queries about instants and ranges of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.parameters import Command, Instant
from skerry.cli.pipeline.answers import Fields, fields_of, limit_option, print_rows, text_value
from skerry.cli.pipeline.engines import engine_options, opened_queries
from skerry.cli.pipeline.spark_session import SparkChoice, tables_option
from skerry.cli.progress import status_line


def _instant_option(flag: str, name: str, text: str) -> Callable[[Command], Command]:
    return click.option(flag, name, required=True, type=Instant(), metavar="INSTANT", help=text)


@click.command()
@tables_option
@click.option(
    "--type", "type_name", metavar="T", help="Only objects of this type; by default of all."
)
@_instant_option(
    "--at", "at_ns", "The instant, as 2026-11-15T14:03:07Z or in nanoseconds since 1970."
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
        with status_line(output, "querying"):
            rows = queries.asof(type_name, at_ns, where)
            types = queries.types()
            names = sorted(types) if type_name is None else [type_name]
            fields = {name: fields_of(types, name) for name in names}
        to_row = (lambda row: _object_row(row, type_name, fields)) if as_json else None
        print_rows(
            output,
            rows,
            limit,
            to_row,
            lambda row: object_cells(row, None if type_name is None else fields[type_name]),
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


def object_cells(row: dict[str, Any], fields: Fields | None) -> dict[str, Any]:
    age = f"{row['age_s']:.3f} s"
    if fields is None:
        return {"type": row["type"], "subject": row["subject"], "object": row["object"], "age": age}
    values = {**dict.fromkeys(fields.columns.values()), **fields.values(row, text_value)}
    return {**values, fields.fact("age"): age}


# -- between


@click.command()
@tables_option
@click.option("--type", "type_name", required=True, metavar="T", help="Updates of this type.")
@_instant_option("--from", "from_ns", "Start of the range.")
@_instant_option("--to", "to_ns", "End of the range, exclusive.")
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
        with status_line(output, "querying"):
            rows = queries.between(type_name, from_ns, to_ns, where)
            fields = fields_of(queries.types(), type_name)
        to_row = (lambda row: _update_row(row, type_name, fields)) if as_json else None
        print_rows(output, rows, limit, to_row, lambda row: update_cells(row, fields))


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


def update_cells(row: dict[str, Any], fields: Fields) -> dict[str, Any]:
    from skerry.lake.reader import instant_text

    return {
        fields.fact("time"): instant_text(row["order_ns"]),
        fields.fact("change"): row["change"],
        fields.fact("sender"): row["sender"],
        **dict.fromkeys(fields.columns.values()),
        **fields.values(row, text_value),
    }


# -- diff


@click.command()
@tables_option
@click.option("--type", "type_name", required=True, metavar="T", help="Objects of this type.")
@_instant_option("--from", "from_ns", "The first instant.")
@_instant_option("--to", "to_ns", "The second instant.")
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
        with status_line(output, "comparing"):
            rows = queries.diff(type_name, from_ns, to_ns)
            fields = fields_of(queries.types(), type_name)
        to_row = (lambda row: _difference_row(row, type_name, fields)) if as_json else None
        print_rows(output, rows, limit, to_row, lambda row: _difference_cells(row, fields))


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


def _difference_cells(row: dict[str, Any], fields: Fields) -> dict[str, Any]:
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
