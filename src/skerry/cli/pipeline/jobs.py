"""`skerry pipeline run` and `follow`: merge recordings into tables, once or continuously."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.parameters import FiniteFloat
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
from skerry.cli.stopping import Stop, stop_on_signals

if TYPE_CHECKING:
    from skerry.spark.jobs.loop import Progress
    from skerry.spark.lake.lake import Lake


@contextmanager
def _job(
    choice: SparkChoice,
    tables: str,
    name: str,
    metrics: str | None,
    *,
    vacuum_hours: float | None,
    batch_bytes: int | None,
    is_brief: bool,
) -> Iterator[tuple[Lake, Stop, Callable[[Progress], None]]]:
    """The tables, stop requests and the function that shows the progress of a job."""
    output, status = current_output(), JobStatus()
    with (
        choice.session(output, name, is_brief=is_brief) as spark,
        # After the session is started, because Spark installs its own signal handler.
        stop_on_signals() as stop,
        served_metrics(metrics, status, output),
        shown_progress(output, status) as show,
    ):
        from skerry.spark.lake.lake import Lake, LakeConfig

        config = LakeConfig(
            vacuum_hours=vacuum_hours, batch_bytes=batch_bytes, derived=configured_derived()
        )
        yield Lake(spark, tables, config, trace=status.trace), stop, show


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
    with _job(
        choice,
        tables,
        "skerry pipeline run",
        metrics,
        vacuum_hours=vacuum_hours,
        batch_bytes=batch_bytes,
        is_brief=is_small(tables, recordings),
    ) as (lake, stop, show):
        from skerry.spark.jobs.loop import run_all

        done = run_all(lake, recordings, on_progress=show, is_stopping=lambda: stop.is_requested)
    output.result(
        f"{tables}: {summary_text(done)}",
        as_json=as_json,
        rows=done.row_count,
        read=done.read_count,
        batches=done.batch_count,
        backlog=done.backlog_rows,
        damaged=done.damaged_count,
    )
    if strict and done.damaged_count:
        found = done.damaged_count
        segments = "1 segment is" if found == 1 else f"{found:,} segments are"
        output.error(f"{segments} damaged; all other rows are in the tables")
        click.get_current_context().exit(1)


@click.command()
@recordings_option
@tables_option
@click.option(
    "--interval",
    "interval_s",
    type=FiniteFloat(min=0.1),
    default=1.0,
    metavar="S",
    help="Minimum time from the start of one batch to the start of the next, in seconds.",
)
@click.option(
    "--derived-interval",
    "derived_interval_s",
    type=FiniteFloat(min=0),
    default=60.0,
    metavar="S",
    help="Time from one build of the tables rates, links, sessions and alarms to the next, in"
    " seconds.",
)
@vacuum_option(2.0)
@batch_option
@spark_options
@metrics_option
@json_option
def follow(
    *,
    recordings: tuple[str, ...],
    tables: str,
    interval_s: float,
    derived_interval_s: float,
    vacuum_hours: float | None,
    batch_bytes: int | None,
    choice: SparkChoice,
    metrics: str | None,
    as_json: bool,
) -> None:
    """Keep the tables up to date with recordings.

    It runs until Ctrl-C or SIGTERM. While it runs, recorders of local recordings close a segment
    every two seconds. From recordings at remote paths it reads the segments that were copied there.
    Each update is in the tables exactly once, even after a crash; an unfinished batch is repeated
    by the next job.

    \b
    Examples:
      skerry pipeline follow --recordings recordings --tables lake
      skerry pipeline follow --recordings recordings --tables lake --metrics 127.0.0.1:11239
    """
    require_folder(tables)
    output = current_output()
    with _job(
        choice,
        tables,
        "skerry pipeline follow",
        metrics,
        vacuum_hours=vacuum_hours,
        batch_bytes=batch_bytes,
        is_brief=False,
    ) as (lake, stop, show):
        from skerry.spark.jobs.loop import follow as follow_recordings

        output.note(f"following {', '.join(recordings)}; stop with Ctrl-C")
        done = follow_recordings(
            lake,
            recordings,
            is_stopping=lambda: stop.is_requested,
            on_progress=show,
            interval_s=interval_s,
            derived_interval_s=derived_interval_s,
        )
    facts = {"rows": done.row_count, "batches": done.batch_count, "backlog": done.backlog_rows}
    output.result(f"{tables}: {summary_text(done)}", as_json=as_json, **facts)
