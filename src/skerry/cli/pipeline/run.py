"""`skerry pipeline run`: merges everything that is recorded into tables, then ends."""

from __future__ import annotations

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.pipeline.job_status import (
    JobStatus,
    metrics_option,
    served_metrics,
    shown_progress,
    summary_text,
)
from skerry.cli.pipeline.settings import configured_derived
from skerry.cli.pipeline.spark_session import (
    SparkChoice,
    batch_option,
    is_small,
    recordings_option,
    require_folder,
    spark_options,
    tables_option,
    vacuum_option,
)
from skerry.cli.stopping import stop_on_signals


@click.command()
@recordings_option
@tables_option
@vacuum_option(168.0)
@batch_option
@spark_options
@metrics_option
@click.option("--strict", is_flag=True, help="Exit with status 1 if a segment is damaged.")
@json_option
def run(
    *,
    recordings: tuple[str, ...],
    tables: str,
    vacuum_hours: float | None,
    batch_bytes: int | None,
    choice: SparkChoice,
    metrics: str | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Merge everything that is recorded into the tables, and end.

    Segments that are in the tables already are not read again, so the command can be repeated at
    any time. It may be stopped at any time, by Ctrl-C or kill -9; the next run continues. Of a
    recording that is being written, closed segments are read. A damaged segment is reported, and
    the missing updates become a gap in the table raw; all other rows are merged, also with
    --strict.

    \b
    Examples:
      skerry pipeline run --recordings recordings --tables lake
      skerry pipeline run --recordings recordings --tables lake --master 'local[2]' --memory 4g
      skerry pipeline run --recordings /shared/recordings --tables /shared/lake \\
          --master spark://spark-1:7077
      skerry pipeline run --recordings s3a://bucket/recordings --tables lake
    """
    require_folder(tables)
    output = current_output()
    status = JobStatus()
    with (
        choice.session(
            output, "skerry pipeline run", is_brief=is_small(tables, recordings)
        ) as spark,
        # After the session is started, because Spark installs its own signal handler.
        stop_on_signals() as stop,
        served_metrics(metrics, status, output),
        shown_progress(output, status) as show,
    ):
        from skerry.spark.jobs.run import run_all
        from skerry.spark.lake.lake import Lake, LakeConfig

        config = LakeConfig(
            vacuum_hours=vacuum_hours, batch_bytes=batch_bytes, derived=configured_derived()
        )
        lake = Lake(spark, tables, config, trace=status.trace)
        done = run_all(lake, recordings, on_progress=show, is_stopping=lambda: stop.is_requested)
    if as_json:
        output.json_line(
            {
                "rows": done.row_count,
                "read": done.read_count,
                "batches": done.batch_count,
                "backlog": done.backlog_rows,
                "damaged": done.damaged_count,
            }
        )
    else:
        output.line(f"{tables}: {summary_text(done)}")
    if strict and done.damaged_count:
        output.error(f"{_segments(done.damaged_count)} damaged; all other rows are in the tables")
        click.get_current_context().exit(1)


def _segments(segments: int) -> str:
    return "1 segment is" if segments == 1 else f"{segments:,} segments are"
