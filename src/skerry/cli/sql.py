"""`skerry sql`: SQL queries on the tables of the pipeline, executed by DuckDB."""

from __future__ import annotations

import csv
import io
from itertools import chain
from typing import Any

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.pipeline.answers import json_value, lake_rows, limit_option, print_rows, text_value
from skerry.cli.pipeline.spark_session import tables_option
from skerry.cli.progress import status_line


@click.command()
@click.argument("query")
@tables_option
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values with a header.")
@limit_option
@json_option
def sql(*, query: str, tables: str, as_csv: bool, limit: int | None, as_json: bool) -> None:
    """Query the tables of the pipeline in SQL.

    QUERY is a statement in the SQL of DuckDB. latest.Vessel holds the current objects,
    history.Vessel their past states, states.Vessel both, and updates.Vessel every update; rates,
    links, sessions, alarms and raw have their own names. Vessel alone means latest.Vessel.
    `SHOW ALL TABLES` lists the tables. With --json, times are seconds since 1970 and null values
    are omitted.

    \b
    Examples:
      skerry sql --tables lake "SELECT mmsi, name, speed FROM Vessel WHERE speed > 12"
      skerry sql --tables lake --csv \\
          "SELECT minute, type, updates FROM rates ORDER BY minute" > rates.csv
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    from skerry.spark.startup.extras import require_lake

    require_lake("duckdb")
    from skerry.lake.reader import OpenLake

    output = current_output()
    with status_line(output, "running the query"):
        answer = OpenLake(tables).sql(query)
    rows = lake_rows(answer)
    if as_csv:
        texts = ([text_value(v) for v in row.values()] for row in rows(limit))
        for values in chain([answer.schema.names], texts):
            line = io.StringIO()
            csv.writer(line, lineterminator="").writerow(values)
            output.line(line.getvalue())
        return

    def json_row(row: dict[str, Any]) -> dict[str, Any]:
        return {name: json_value(value) for name, value in row.items() if value is not None}

    shown = print_rows(
        output,
        rows,
        limit,
        json_row if as_json else None,
        lambda row: {name: text_value(value) for name, value in row.items()},
    )
    if not shown and not as_json:
        columns = ", ".join(answer.schema.names)
        output.note(f"no rows; the columns are {columns}" if columns else "done")
