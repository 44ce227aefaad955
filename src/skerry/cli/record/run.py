"""`skerry record`: record the updates of a space until a stop request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.node_options import NodeChoice, is_node_named, node_options
from skerry.cli.output import Output, current_output, json_option
from skerry.cli.parameters import CheckedText, FiniteFloat, count_option
from skerry.cli.progress import status_line
from skerry.cli.record.options import (
    Age,
    Size,
    group_options,
    is_uri,
    node_options_of,
    opened,
    shown_size,
)
from skerry.cli.stopping import stop_on_signals
from skerry.protocol.patterns import check_pattern

if TYPE_CHECKING:
    from skerry.apps.recorder.program import Recorder, RecorderSummary
    from skerry.observe.number_metrics import RecorderStatistics

_SHOW_S: Final = 0.5


def _checked_folder(
    _context: click.Context, _option: click.Parameter, folder: Path | None
) -> Path | None:
    if folder is not None and is_uri(folder):
        raise click.BadParameter(
            "a recorder writes to a local folder; record to one, and upload it with"
            " `skerry record copy`."
        )
    return folder


@click.group(invoke_without_command=True)
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    callback=_checked_folder,
    help="Folder of the recording. An existing recording is continued.",
)
@click.option(
    "-t",
    "--types",
    multiple=True,
    metavar="NAME",
    help="Record this type; may be repeated. Default: all types, unless --subjects is given.",
)
@click.option(
    "--subjects",
    multiple=True,
    type=CheckedText(check_pattern),
    metavar="PATTERN",
    help="Record subjects that match this pattern; may be repeated. Default: all subjects.",
)
@click.option("--space", metavar="NAME", help="Name of the space in the rows. Default: local.")
@click.option(
    "--durability",
    type=click.Choice(["none", "interval", "batch"]),
    help="When rows are synced to disk: never, each second or after each batch. Default: interval.",
)
@click.option(
    "--keep-age",
    type=Age(),
    metavar="AGE",
    help="Drop segments older than this, such as 90s, 30m, 12h or 7d. Default: keep all.",
)
@click.option(
    "--keep-size",
    type=Size(),
    metavar="SIZE",
    help="Drop the oldest segments above this size, such as 500M or 20G. Default: keep all.",
)
@click.option(
    "--seconds",
    type=FiniteFloat(min=0),
    metavar="S",
    help="End after S seconds. Default: no limit.",
)
@count_option("updates")
@click.option(
    "--metrics",
    metavar="HOST:PORT|off",
    help="Address at which metrics and health are served, or off. Default: off.",
)
@group_options
@node_options
@json_option
def record(
    *,
    folder: Path | None,
    types: tuple[str, ...],
    subjects: tuple[str, ...],
    seconds: float | None,
    count: int | None,
    choice: NodeChoice,
    as_json: bool,
    **given: Any,
) -> None:
    """Record the updates of a space until Ctrl-C or SIGTERM; or work with recordings.

    The objects that exist at the start are recorded first. A lost connection is restored, and a gap
    in the recording states how many updates are missing. The space never waits for the disk: while
    the disk is full, slow or failing, updates wait in a bounded queue. If the queue is full, new
    updates are dropped, and a gap states which.

    \b
    Examples:
      skerry record --to recordings/today
      skerry record --to recordings/fleet --types Vessel --types Voyage --keep-age 7d
      skerry record --to recordings/prices --multicast 239.192.7.1:4711 --interface eth0
      skerry record info recordings/today
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    if folder is None:
        raise click.UsageError("give the folder with --to DIR, or a command")
    if types and given["multicast"] and given["kind"] == "bytes":
        raise click.UsageError("a group of bytes has no types; use --subjects, or --kind objects")
    opened()  # raises the error of a missing package before the recording starts
    output = current_output()
    recorder = _recorder(folder, output, given)
    _add_sources(recorder, types, subjects, choice, output, given)
    with stop_on_signals() as stop, status_line(output, "recording") as show:
        summary = asyncio.run(
            recorder.run(
                lambda: stop.is_requested,
                seconds=seconds,
                count=count,
                show=_at_intervals(show),
                on_started=lambda: output.note(f"recording to {folder}; Ctrl-C ends it"),
            )
        )
    output.result(_summary_text(summary), as_json=as_json, **asdict(summary))


def _recorder(folder: Path, output: Output, given: dict[str, Any]) -> Recorder:
    from skerry.apps.recorder.config import RecorderConfig
    from skerry.apps.recorder.program import Recorder
    from skerry.cli.config import load_section

    flags = {
        f"recorder.{key}": (flag, given[name])
        for key, flag, name in (
            ("space", "--space", "space"),
            ("durability", "--durability", "durability"),
            ("keep_s", "--keep-age", "keep_age"),
            ("keep_bytes", "--keep-size", "keep_size"),
            ("metrics", "--metrics", "metrics"),
        )
    }
    config = load_section("recorder", RecorderConfig, flags).value
    recorder = Recorder(folder, config, report=output.note)
    for repair in recorder.writer.repairs:
        output.warning(
            f"{repair.name} was not sealed: {repair.kept_rows} rows are kept, and"
            f" {repair.lost_bytes} bytes of an incomplete batch are truncated"
        )
    return recorder


def _add_sources(
    recorder: Recorder,
    types: tuple[str, ...],
    subjects: tuple[str, ...],
    choice: NodeChoice,
    output: Output,
    given: dict[str, Any],
) -> None:
    from skerry.apps.recorder.group_source import GroupOptions, GroupSource
    from skerry.apps.recorder.node_source import NodeSource

    queue, writer, report = recorder.queue, recorder.writer, output.note
    space, ending = writer.space, writer.resume_point
    if given["multicast"]:
        reach = {name: given[name] for name in ("interface", "ttl", "dialect", "kind", "key_file")}
        group = GroupOptions(group=given["multicast"], types=types, subjects=subjects, **reach)
        recorder.add(GroupSource(queue, group, space=space, report=report, ending=ending))
    if is_node_named() or not given["multicast"]:
        node = node_options_of(choice, types=types, subjects=subjects)
        recorder.add(NodeSource(queue, node, space=space, report=report, ending=ending))


def _at_intervals(show: Callable[[str], None]) -> Callable[[RecorderStatistics], None]:
    """A function that shows statistics and the rate since the last time, every _SHOW_S."""
    shown_s, shown_rows = monotonic(), 0

    def show_due(now: RecorderStatistics) -> None:
        nonlocal shown_s, shown_rows
        passed_s = monotonic() - shown_s
        if passed_s >= _SHOW_S:
            show(progress_text(now, (now.rows - shown_rows) / passed_s))
            shown_s, shown_rows = monotonic(), now.rows

    return show_due


def progress_text(now: RecorderStatistics, rate: float) -> str:
    parts = [
        f"{now.rows:,} rows",
        f"{rate:,.0f} rows/s",
        shown_size(now.bytes),
        f"{now.gaps} gaps",
        f"{shown_size(now.queued_bytes)} queued",
    ]
    if now.trouble:
        parts.append(f"error: {now.trouble}")
    return ", ".join(parts)


def _summary_text(summary: RecorderSummary) -> str:
    return (
        f"{summary.folder}: {summary.updates:,} updates in {summary.seconds:.1f} s,"
        f" {summary.rows:,} rows, {shown_size(summary.bytes)}, {summary.gaps} gaps,"
        f" {summary.lost_rows:,} rows dropped"
    )
