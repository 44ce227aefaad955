"""What people and monitors see of a job: how many rows wait, how quick it is, what it is doing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from skerry.cli.output import Output
from skerry.observe.pipeline_metrics import PipelineStatistics

if TYPE_CHECKING:
    from skerry.spark.jobs.loop import Progress

__all__ = [
    "Watch",
    "metrics_option",
    "progress_text",
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
        """The job reports how far it is."""
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
    from skerry.apps.node.config import split_place

    if text is not None:
        try:
            split_place(text)
        except ValueError as error:
            raise click.BadParameter(f"{error}.") from None
    return text


@contextmanager
def served_metrics(place: str | None, watch: Watch, output: Output) -> Iterator[None]:
    """Inside, metrics and health are served at HOST:PORT, if one is given."""
    if place is None:
        yield
        return
    from skerry.apps.node.config import split_place
    from skerry.client.io.loop_thread import LoopThread
    from skerry.observe.metrics import CONTENT_TYPE, scrape
    from skerry.observe.pipeline_metrics import pipeline_registry
    from skerry.runtime.health import HealthServer, Page

    registry = pipeline_registry(lambda: watch.statistics)
    server = HealthServer(
        {
            "/healthz": lambda: Page(body=b"ok\n"),
            "/metrics": lambda: Page(body=scrape(registry), content_type=CONTENT_TYPE),
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
            read = now.read_count + _read_in_batch(now)
            total = now.read_count + now.backlog_rows
            bars.update(rows, completed=read, total=total or None, words=progress_text(now))
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
            output.note(progress_text(now))

    return note


def _read_in_batch(now: Progress) -> int:
    """Rows of the running batch that are done, by the tasks that are."""
    return now.batch_rows * now.stages_done // now.stages_total if now.stages_total else 0


def progress_text(now: Progress) -> str:
    """How far a job is, and when it will be done."""
    words = [
        f"{now.read_count + _read_in_batch(now):,} rows read",
        f"{now.row_count:,} merged",
        f"{now.backlog_rows:,} wait",
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
    """How far a job has come, in a line."""
    waiting = f", {now.backlog_rows:,} wait" if now.backlog_rows else ""
    batches = "1 batch" if now.batch_count == 1 else f"{now.batch_count:,} batches"
    return f"{now.row_count:,} rows in {batches}{waiting}"
