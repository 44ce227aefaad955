"""`skerry record export`: a recording for other tools."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.record.options import (
    opened,
    row_progress,
    selection_options,
    warn_of_absent,
)

__all__ = ["export"]


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["mcap", "jsonl"]),
    help="MCAP for viewers, or a line of JSON for each update. If not given, the name tells.",
)
@click.option(
    "--channels",
    type=click.Choice(["type", "subject"]),
    default="type",
    show_default=True,
    help="MCAP: a channel for each type, or for each subject.",
)
@selection_options
@json_option
def export(
    *,
    folder: str,
    target: Path,
    form: str | None,
    channels: Any,
    from_ns: int | None,
    to_ns: int | None,
    types: tuple[str, ...],
    subjects: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write a recording as MCAP, which common viewers open, or as lines of JSON.

    FILE `-` writes lines of JSON to standard output.

    \b
    Examples:
      skerry record export recordings/today today.mcap
      skerry record export recordings/today - --types Vessel | head
      skerry record export recordings/today day.jsonl --from 2026-11-15T14:00:00Z
    """
    # A path has lost one of the two slashes by now.
    if re.match(r"[a-z][a-z0-9+]+:/", str(target), re.IGNORECASE):
        raise click.BadParameter(
            "an export is written to a file of this computer; name it by its path, and bring it"
            " elsewhere with the store's own tools.",
            param_hint="FILE",
        )
    output = current_output()
    recordings = opened(folder)
    warn_of_absent(output, recordings, types)
    from skerry.recording.selection import selection_of
    from skerry.runtime.recordings.exports import export_json_lines, export_mcap, json_lines

    selection = selection_of(
        from_ns=from_ns, to_ns=to_ns, types=types or None, subjects=subjects or None
    )
    if str(target) == "-":
        if form == "mcap":
            raise click.UsageError("MCAP is written to a file, and not to standard output")
        for line in json_lines(recordings, selection):
            output.line(line)
        return
    kind = form or {".mcap": "mcap", ".jsonl": "jsonl"}.get(target.suffix)
    if kind is None:
        raise click.UsageError(f"say with --format what {target.name} is to be: mcap or jsonl")
    with row_progress(output, "exporting") as tell:
        if kind == "mcap":
            count = export_mcap(
                recordings, target, selection, channels_by=channels, on_progress=tell
            )
        else:
            count = export_json_lines(recordings, target, selection, on_progress=tell)
    if as_json:
        output.json_line({"file": str(target), "format": kind, "rows": count})
    else:
        output.line(f"{target}: {count:,} rows")
