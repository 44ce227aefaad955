"""What people and monitors see of a job: how many rows wait, how quick it is, what it is doing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from skerry.cli.output import Output
from skerry.observe.pipeline_metrics import PipelineStatistics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skerry.spark.jobs.stream import Progress

__all__ = [
    "Watch",
    "heard_batches",
    "metrics_option",
    "served_metrics",
    "shown_progress",
    "summary_text",
]

Command = TypeVar("Command", bound=Callable[..., Any])

_NOTE_GAP_S: Final = 60.0
"""How often a job that nobody looks at says something."""


class Watch:
    """A job as it was told last."""

    def __init__(self) -> None:
        self.statistics = PipelineStatistics()
        self.step = ""
        """What the batch is at."""

    def trace(self, step: str) -> None:
        """The batch is at something else."""
        self.step = step

    def progress(self, now: Progress) -> None:
        """The job tells how it is."""
        self.statistics = replace(
            self.statistics,
            batches=now.batch_count,
            rows=now.row_count,
            backlog_rows=now.backlog_rows,
            rows_per_second=now.rows_per_s,
            is_running=True,
        )

    def batch_done(self, *, seconds: float, at_s: float) -> None:
        """A batch came to its end at this time of the clock."""
        self.statistics = replace(self.statistics, batch_s=seconds, last_batch_s=at_s)


def metrics_option(command: Command) -> Command:
    """Gives a command `--metrics`."""
    return click.option(
        "--metrics",
        metavar="HOST:PORT",
        callback=_checked_place,
        help="Where metrics and health are served.",
    )(command)


def _checked_place(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> str | None:
    from skerry.apps.node_config import split_place

    if text is not None:
        try:
            split_place(text)
        except ValueError as error:
            raise click.BadParameter(f"{error}.") from None
    return text


@contextmanager
def heard_batches(spark: SparkSession, watch: Watch) -> Iterator[None]:
    """Inside, the watch is told of the batches that Spark reports."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802  (its name in Spark)
            pass

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            from time import time

            # Spark also reports, now and then, that there was nothing to do.
            if event.progress.durationMs.get("addBatch"):
                watch.batch_done(seconds=event.progress.batchDuration / 1000, at_s=time())

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            pass

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        spark.streams.removeListener(listener)


@contextmanager
def served_metrics(place: str | None, watch: Watch, output: Output) -> Iterator[None]:
    """Inside, metrics and health are served at HOST:PORT, if one is given."""
    if place is None:
        yield
        return
    from skerry.apps.node_config import split_place
    from skerry.client.loop_thread import LoopThread
    from skerry.observe.metrics import CONTENT_TYPE, written
    from skerry.observe.pipeline_metrics import pipeline_registry
    from skerry.runtime.health import HealthServer, Page

    registry = pipeline_registry(lambda: watch.statistics)
    server = HealthServer(
        {
            "/healthz": lambda: Page(body=b"ok\n"),
            "/metrics": lambda: Page(body=written(registry), content_type=CONTENT_TYPE),
        }
    )
    thread = LoopThread("skerry-pipeline-metrics")
    try:
        output.note(f"metrics at {thread.run(server.listen(*split_place(place)))}/metrics")
        yield
    finally:
        thread.run(server.close())
        thread.end()


@contextmanager
def shown_progress(output: Output, watch: Watch) -> Iterator[Callable[[Progress], None]]:
    """Shows how a job goes: bars on a terminal, elsewhere a line each minute."""
    if not (output.config.progress and sys.stderr.isatty()):
        yield _noted(output, watch)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[words]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=output.console(sys.stderr), transient=True) as bars:
        rows = bars.add_task("rows", total=None, words="")
        tasks = bars.add_task("starting", total=None, words="")
        told: list[str] = []

        def show(now: Any) -> None:
            watch.progress(now)
            for notice in now.notices[len(told) :]:
                told.append(notice)
                output.warning(notice)
            total = now.row_count + now.backlog_rows
            words = (
                f"{now.row_count:,} done, {now.backlog_rows:,} wait, {now.rows_per_s:,.0f} rows/s"
            )
            bars.update(rows, completed=now.row_count, total=total or None, words=words)
            bars.update(
                tasks,
                description=watch.step or "waiting",
                completed=now.stages_done,
                total=now.stages_total or None,
                words=f"{now.stages_done} of {now.stages_total} tasks" if now.stages_total else "",
            )

        yield show


def _noted(output: Output, watch: Watch) -> Callable[[Progress], None]:
    noted_s, noted_batches, told = monotonic(), 0, 0

    def note(now: Progress) -> None:
        nonlocal noted_s, noted_batches, told
        watch.progress(now)
        for notice in now.notices[told:]:
            output.warning(notice)
        told = len(now.notices)
        if now.batch_count > noted_batches and monotonic() - noted_s >= _NOTE_GAP_S:
            noted_s, noted_batches = monotonic(), now.batch_count
            output.note(summary_text(now))

    return note


def summary_text(now: Progress) -> str:
    """How far a job has come, in a line."""
    waiting = f", {now.backlog_rows:,} wait" if now.backlog_rows else ""
    batches = "1 batch" if now.batch_count == 1 else f"{now.batch_count:,} batches"
    return f"{now.row_count:,} rows in {batches}{waiting}"
