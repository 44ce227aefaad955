"""`skerry record`: record what crosses a space, until told to stop."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.nodes import NodeChoice, node_options
from skerry.cli.output import Output, current_output, json_option
from skerry.cli.parameters import CheckedText, FiniteFloat, check_pattern
from skerry.cli.record.options import (
    Age,
    Size,
    group_options,
    node_wishes,
    opened,
    shown_size,
)
from skerry.cli.stopping import stop_on_signals

if TYPE_CHECKING:
    from skerry.apps.recorder.program import Recorder, RecorderSummary
    from skerry.observe.recorder_metrics import RecorderStatistics

__all__ = ["line_of", "record"]

_SHOW_S: Final = 0.5


def _checked_folder(
    _context: click.Context, _option: click.Parameter, folder: Path | None
) -> Path | None:
    # A path has lost one of the two slashes by now.
    if folder is not None and re.match(r"[a-z][a-z0-9+]+:/", str(folder), re.IGNORECASE):
        raise click.BadParameter(
            "a recorder writes to a disk; record to a folder, and bring it elsewhere with"
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
    help="Folder of the recording; one that is there goes on.",
)
@click.option(
    "--types",
    multiple=True,
    metavar="NAME",
    help="Record this type; several are fine. Without, and without --subjects: everything.",
)
@click.option(
    "--subjects",
    multiple=True,
    type=CheckedText(check_pattern),
    metavar="PATTERN",
    help="Record what is under this pattern.",
)
@click.option(
    "--space", metavar="NAME", help="Name of the space in the rows; `local` if not given."
)
@click.option(
    "--durability",
    type=click.Choice(["none", "interval", "batch"]),
    help="When rows are synced to the disk; each second (`interval`) if not given.",
)
@click.option("--keep-age", type=Age(), metavar="AGE", help="Drop what is older, such as 7d.")
@click.option("--keep-size", type=Size(), metavar="SIZE", help="Keep no more than, such as 20G.")
@click.option("--seconds", type=FiniteFloat(min=0), metavar="S", help="End after this time.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after N updates.")
@click.option("--metrics", metavar="HOST:PORT|off", help="Where metrics and health are served.")
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
    """Record what crosses a space, until Ctrl-C or SIGTERM; or work with recordings.

    What is there when it begins is recorded first. When the connection is lost it is restored, and
    a gap in the recording says how many updates are missing. The space never waits for the disk:
    while that is full, fails or is too slow, updates wait in a bounded queue; past the bound new
    ones are dropped, and a gap says which.

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
        raise click.UsageError("say where to with --to DIR, or name a command")
    if types and given["multicast"] and given["kind"] == "bytes":
        raise click.UsageError("a group of bytes has no types; see --subjects and --kind objects")
    _check_extra()
    output = current_output()
    recorder = _recorder(folder, output, given)
    _add_sources(recorder, types, subjects, choice, output, given)
    with stop_on_signals() as stop, _live_line(output) as show:
        summary = asyncio.run(
            recorder.run(
                lambda: stop.is_requested,
                seconds=seconds,
                count=count,
                show=show,
                on_started=lambda: output.note(f"recording to {folder}; Ctrl-C ends it"),
            )
        )
    if as_json:
        output.json_line(asdict(summary))
    else:
        output.line(_summary_text(summary))


def _check_extra() -> None:
    """RecordingError that tells what to install, before anything is begun."""
    opened()


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
    recorder = Recorder(folder, config, tell=output.note)
    for repair in recorder.repairs:
        output.warning(
            f"{repair.name} was not sealed: {repair.kept_rows} rows are kept, and"
            f" {repair.lost_bytes} bytes of an unfinished batch are cut off"
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
    from skerry.apps.recorder.group_source import GroupSource, GroupWishes
    from skerry.apps.recorder.node_source import NodeSource

    queue, space, tell = recorder.queue, recorder.space, output.note
    if given["multicast"]:
        group = GroupWishes(
            group=given["multicast"],
            interface=given["interface"],
            ttl=given["ttl"],
            dialect=given["dialect"],
            kind=given["kind"],
            key_file=given["key_file"],
            types=types,
            subjects=subjects,
        )
        recorder.add(GroupSource(queue, group, space=space, tell=tell, ending=recorder.ending))
    if choice.endpoint or not given["multicast"]:
        wishes = node_wishes(choice, types=types, subjects=subjects)
        recorder.add(NodeSource(queue, wishes, space=space, tell=tell, ending=recorder.ending))


@contextmanager
def _live_line(output: Output) -> Iterator[Callable[[RecorderStatistics], None]]:
    """On a terminal, a line that tells how it goes."""
    if not (output.config.progress and sys.stderr.isatty()):
        yield lambda _now: None
        return
    with output.console(sys.stderr).status("recording") as status:
        shown_s, shown_rows = monotonic(), 0

        def show(now: RecorderStatistics) -> None:
            nonlocal shown_s, shown_rows
            passed_s = monotonic() - shown_s
            if passed_s >= _SHOW_S:
                status.update(line_of(now, (now.rows - shown_rows) / passed_s))
                shown_s, shown_rows = monotonic(), now.rows

        yield show


def line_of(now: RecorderStatistics, rate: float) -> str:
    """How a recording goes, in a line."""
    parts = [
        f"{now.rows:,} rows",
        f"{rate:,.0f} rows/s",
        shown_size(now.bytes),
        f"{now.gaps} gaps",
        f"{shown_size(now.queued_bytes)} wait",
    ]
    if now.trouble:
        parts.append(f"trouble: {now.trouble}")
    return ", ".join(parts)


def _summary_text(summary: RecorderSummary) -> str:
    return (
        f"{summary.folder}: {summary.updates:,} updates in {summary.seconds:.1f} s,"
        f" {summary.rows:,} rows, {shown_size(summary.bytes)}, {summary.gaps} gaps,"
        f" {summary.lost_rows:,} rows dropped"
    )
