"""`skerry pipeline tables`: lists the tables and their sizes."""

from __future__ import annotations

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.pipeline.spark_session import tables_option


@click.command(name="tables")
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
    from skerry.lake.extras import require_lake

    require_lake()
    from skerry.lake.reader import OpenLake
    from skerry.spark.report.formatting import bytes_text

    output = current_output()
    found = OpenLake(tables).tables()
    if as_json:
        for table in found:
            output.json_line(
                {
                    "name": table.name,
                    "rows": table.rows,
                    "files": table.files,
                    "bytes": table.byte_count,
                }
            )
        return
    if not found:
        output.note(f"there are no tables in {tables}; create them with `skerry pipeline run`")
        return
    rows = [(t.name, f"{t.rows:,}", f"{t.files:,}", bytes_text(t.byte_count)) for t in found]
    output.table(("table", "rows", "files", "size"), rows)
