"""The status of a running job: progress on the terminal, and metrics."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.output import Output
from skerry.cli.parameters import CheckedText, check_host_port
from skerry.cli.progress import is_shown
from skerry.observe.number_metrics import PipelineStatistics

if TYPE_CHECKING:
    from skerry.spark.jobs.loop import Progress

_NOTE_GAP_S: Final = 60.0
"""Interval of progress messages without a terminal."""


class JobStatus:
    """The last reported status of a job."""

    def __init__(self) -> None:
        self.statistics = PipelineStatistics()
        self.step = ""

    def trace(self, step: str) -> None:
        self.step = step

    def progress(self, now: Progress) -> None:
        if now.batch_count > self.statistics.batches:
            self.batch_done(seconds=now.batch_s, at_s=time())
        self.statistics = replace(
            self.statistics,
            batches=now.batch_count,
            rows=now.row_count,
            backlog_rows=now.backlog_rows,
            rows_per_second=now.rows_per_s,
            is_running=True,
        )

    def batch_done(self, *, seconds: float, at_s: float) -> None:
        self.statistics = replace(
            self.statistics, batch_seconds=seconds, last_batch_timestamp_seconds=at_s
        )


metrics_option = click.option(
    "--metrics",
    metavar="HOST:PORT",
    type=CheckedText(check_host_port),
    help="Address at which metrics and health are served; by default they are not.",
)


@contextmanager
def served_metrics(address: str | None, status: JobStatus, output: Output) -> Iterator[None]:
    """Within the context, metrics and health are served at HOST:PORT, if one is given."""
    if address is None:
        yield
        return
    from skerry.apps.node.config import split_host_port
    from skerry.client.io.loop_thread import LoopThread
    from skerry.observe.metrics import CONTENT_TYPE, scrape
    from skerry.observe.number_metrics import pipeline_registry
    from skerry.runtime.health import HealthServer, Page

    registry = pipeline_registry(lambda: status.statistics)
    server = HealthServer(
        {
            "/healthz": lambda: Page(body=b"ok\n"),
            "/metrics": lambda: Page(body=scrape(registry), content_type=CONTENT_TYPE),
        }
    )
    thread = LoopThread("skerry-pipeline-metrics")
    try:
        output.note(f"metrics at {thread.run(server.listen(*split_host_port(address)))}/metrics")
        yield
    finally:
        thread.run(server.close())
        thread.end()


@contextmanager
def shown_progress(output: Output, status: JobStatus) -> Iterator[Callable[[Progress], None]]:
    """Shows the progress of a job: bars on a terminal, otherwise a line each minute."""
    if not is_shown(output, sys.stderr):
        yield _noted(output, status)
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
        notice_count = 0

        def show(now: Any) -> None:
            nonlocal notice_count
            status.progress(now)
            for notice in now.notices[notice_count:]:
                output.warning(notice)
            notice_count = len(now.notices)
            read = now.read_count + _read_in_batch(now)
            total = now.read_count + now.backlog_rows
            bars.update(rows, completed=read, total=total or None, words=progress_text(now))
            bars.update(
                tasks,
                description=status.step or "waiting",
                completed=now.stages_done,
                total=now.stages_total or None,
                words=f"{now.stages_done} of {now.stages_total} tasks" if now.stages_total else "",
            )

        yield show


def _noted(output: Output, status: JobStatus) -> Callable[[Progress], None]:
    noted_s, noted_batches, notice_count = monotonic(), 0, 0

    def note(now: Progress) -> None:
        nonlocal noted_s, noted_batches, notice_count
        status.progress(now)
        for notice in now.notices[notice_count:]:
            output.warning(notice)
        notice_count = len(now.notices)
        if now.batch_count > noted_batches and monotonic() - noted_s >= _NOTE_GAP_S:
            noted_s, noted_batches = monotonic(), now.batch_count
            output.note(progress_text(now))

    return note


def _read_in_batch(now: Progress) -> int:
    """Estimated number of processed rows of the running batch, by its completed tasks."""
    return now.batch_rows * now.stages_done // now.stages_total if now.stages_total else 0


def progress_text(now: Progress) -> str:
    """The progress of a job and its estimated remaining time."""
    words = [
        f"{now.read_count + _read_in_batch(now):,} rows read",
        f"{now.row_count:,} merged",
        f"{now.backlog_rows:,} in the backlog",
    ]
    if now.rows_per_s:
        words.append(f"{now.rows_per_s:,.0f} rows/s")
    if now.left_s and now.backlog_rows:
        words.append(f"about {_duration(now.left_s)} left")
    return ", ".join(words)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def summary_text(now: Progress) -> str:
    """The result of a job in one line."""
    waiting = f", {now.backlog_rows:,} in the backlog" if now.backlog_rows else ""
    batches = "1 batch" if now.batch_count == 1 else f"{now.batch_count:,} batches"
    return f"{now.row_count:,} rows in {batches}{waiting}"
