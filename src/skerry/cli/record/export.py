"""`skerry record export`: convert a recording to MCAP or JSON lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.record.options import (
    is_uri,
    opened,
    row_progress,
    selection_options,
    warn_of_absent,
)


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["mcap", "jsonl"]),
    help="MCAP for viewers, or one JSON line per update. Default: by the suffix of FILE.",
)
@click.option(
    "--channels",
    type=click.Choice(["type", "subject"]),
    default="type",
    help="Channels of the MCAP file: one per type, or one per subject.",
)
@selection_options
@json_option
def export(
    *,
    folder: str,
    target: Path,
    form: str | None,
    channels: Any,
    chosen: dict[str, Any],
    as_json: bool,
) -> None:
    """Convert a recording to MCAP, which common viewers open, or to JSON lines.

    If FILE is `-`, JSON lines are written to standard output.

    \b
    Examples:
      skerry record export recordings/today today.mcap
      skerry record export recordings/today - --types Vessel | head
      skerry record export recordings/today day.jsonl --from 2026-11-15T14:00:00Z
    """
    if is_uri(target):
        raise click.BadParameter(
            "an export is written to a local file; give its path, and upload the file with the"
            " tools of the store.",
            param_hint="FILE",
        )
    output = current_output()
    recordings = opened(folder)
    warn_of_absent(output, recordings, chosen)
    from skerry.recording.selection import selection_of
    from skerry.runtime.recordings.exports import export_json_lines, export_mcap, json_lines

    selection = selection_of(**chosen)
    if str(target) == "-":
        if form == "mcap":
            raise click.UsageError("MCAP cannot be written to standard output; give a FILE")
        for line in json_lines(recordings, selection):
            output.line(line)
        return
    kind = form or {".mcap": "mcap", ".jsonl": "jsonl"}.get(target.suffix)
    if kind is None:
        raise click.UsageError(
            f"the format of {target.name} is unknown: give --format mcap or jsonl"
        )
    with row_progress(output, "exporting") as show:
        if kind == "mcap":
            count = export_mcap(
                recordings, target, selection, channels_by=channels, on_progress=show
            )
        else:
            count = export_json_lines(recordings, target, selection, on_progress=show)
    text = f"{target}: {count:,} rows"
    output.result(text, as_json=as_json, file=str(target), format=kind, rows=count)
