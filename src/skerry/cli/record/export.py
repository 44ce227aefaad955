"""`skerry record export`: convert a recording to MCAP, JSON lines or a DOTS record."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

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
    type=click.Choice(["mcap", "jsonl", "dots"]),
    help="MCAP for viewers, one JSON line per update, or a record for DOTS programs. Default: by"
    " the suffix of FILE, which is .mcap, .jsonl or .rec.",
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
    """Convert a recording to MCAP, which common viewers open, to JSON lines, or to a DOTS record.

    If FILE is `-`, JSON lines are written to standard output. A DOTS record is a DotsRecordHeader
    and the frames of the DOTS protocol, with descriptions of the types. It has no gaps.

    \b
    Examples:
      skerry record export recordings/today today.mcap
      skerry record export recordings/today - --types Vessel | head
      skerry record export recordings/today day.jsonl --from 2026-11-15T14:00:00Z
      skerry record export recordings/today today.dots.rec
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
    from skerry.runtime.recordings.exports import (
        export_dots,
        export_json_lines,
        export_mcap,
        json_lines,
    )

    selection = selection_of(**chosen)
    if str(target) == "-":
        if form in ("mcap", "dots"):
            raise click.UsageError(f"{form} cannot be written to standard output; give a FILE")
        for line in json_lines(recordings, selection):
            output.line(line)
        return
    kind = form or _FORMATS.get(target.suffix)
    if kind is None:
        raise click.UsageError(
            f"the format of {target.name} is unknown: give --format mcap, jsonl or dots"
        )
    left_out = 0
    with row_progress(output, "exporting") as show:
        if kind == "mcap":
            count = export_mcap(
                recordings, target, selection, channels_by=channels, on_progress=show
            )
        elif kind == "dots":
            count, left_out = export_dots(recordings, target, selection, on_progress=show)
        else:
            count = export_json_lines(recordings, target, selection, on_progress=show)
    text = f"{target}: {count:,} rows"
    if left_out:
        text += f"; {left_out:,} gaps and rows of unknown types are left out"
    output.result(
        text, as_json=as_json, file=str(target), format=kind, rows=count, left_out=left_out
    )


_FORMATS: Final = {".mcap": "mcap", ".jsonl": "jsonl", ".rec": "dots"}
