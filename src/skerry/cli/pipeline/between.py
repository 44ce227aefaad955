"""`skerry pipeline between`: what was said from one instant up to another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.pipeline.answers import Fields, fields_of, instant_of, limit_option, tell
from skerry.cli.pipeline.sparks import (
    SparkChoice,
    is_little,
    require_tables,
    spark_options,
    tables_option,
    waiting,
)

__all__ = ["between"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@click.command()
@tables_option
@click.option("--type", "type_name", required=True, metavar="T", help="Updates of this type.")
@click.option(
    "--from", "from_ns", required=True, metavar="INSTANT", callback=instant_of, help="From here on."
)
@click.option(
    "--to",
    "to_ns",
    required=True,
    metavar="INSTANT",
    callback=instant_of,
    help="Up to before here.",
)
@click.option("--where", metavar="E", help="Only updates for which this is true, in Spark SQL.")
@limit_option
@spark_options
@json_option
def between(
    *,
    tables: str,
    type_name: str,
    from_ns: int,
    to_ns: int,
    where: str | None,
    limit: int | None,
    choice: SparkChoice,
    as_json: bool,
) -> None:
    """Show every update of a type in a time.

    They are in order: who said what about which object. Fields that an update does not speak of
    are left out. With --json each line has _operation, _time (seconds since 1970), _type, _key,
    _subject, _sender and _space beside the fields.

    \b
    Examples:
      skerry pipeline between --tables lake --type Alarm \\
          --from 2026-11-15T14:00Z --to 2026-11-15T15:00Z
      skerry pipeline between --tables lake --type Vessel --where "mmsi = 244660000" \\
          --from 2026-11-15T14:00Z --to 2026-11-15T14:01Z --json
    """
    if to_ns < from_ns:
        raise click.UsageError("--to is before --from")
    require_tables(tables)
    output = current_output()
    with choice.session(output, "skerry pipeline between", is_brief=is_little(tables)) as spark:
        from skerry.spark.lake import Lake
        from skerry.spark.tables import Tables

        with waiting(output, "looking it up"):
            frame = Tables(spark, tables).between(type_name, from_ns, to_ns)
            fields = fields_of(Lake(spark, tables), type_name)
            if where is not None:
                frame = frame.where(where)
        tell(
            output,
            frame.orderBy("order_ns", "node", "position", "sender", "sequence"),
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
    return {
        fields.fact("time"): _time_text(row["order_ns"]),
        fields.fact("change"): row["change"],
        fields.fact("sender"): row["sender"],
        **dict.fromkeys(fields.columns.values()),
        **fields.values(row),
    }


def _time_text(time_ns: int) -> str:
    return f"{_EPOCH + timedelta(microseconds=time_ns // 1000):%Y-%m-%d %H:%M:%S.%f}"
