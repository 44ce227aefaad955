"""`skerry pipeline follow`: keeps the tables up to date with recordings."""

from __future__ import annotations

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
@click.option(
    "--interval",
    "interval_s",
    type=FiniteFloat(min=0.1),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Minimum time from the start of one batch to the start of the next, in seconds.",
)
@click.option(
    "--derived-interval",
    "derived_interval_s",
    type=FiniteFloat(min=0),
    default=60.0,
    show_default=True,
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
    status = JobStatus()
    with (
        choice.session(output, "skerry pipeline follow") as spark,
        # After the session is started, because Spark installs its own signal handler.
        stop_on_signals() as stop,
        served_metrics(metrics, status, output),
        shown_progress(output, status) as show,
    ):
        from skerry.spark.jobs.follow import follow as follow_recordings
        from skerry.spark.lake.lake import Lake, LakeConfig

        output.note(f"following {', '.join(recordings)}; stop with Ctrl-C")
        config = LakeConfig(
            vacuum_hours=vacuum_hours, batch_bytes=batch_bytes, derived=configured_derived()
        )
        done = follow_recordings(
            Lake(spark, tables, config, trace=status.trace),
            recordings,
            is_stopping=lambda: stop.is_requested,
            on_progress=show,
            interval_s=interval_s,
            derived_interval_s=derived_interval_s,
        )
    if as_json:
        output.json_line(
            {"rows": done.row_count, "batches": done.batch_count, "backlog": done.backlog_rows}
        )
    else:
        output.line(f"{tables}: {summary_text(done)}")
