"""`skerry record cut`: copy a part of a recording into a new one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.record.options import (
    bare_option,
    opened,
    row_progress,
    selection_options,
    warn_of_absent,
)


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@click.argument("target", metavar="NEW", type=click.Path())
@selection_options
@bare_option
@json_option
def cut(*, folder: str, target: str, chosen: dict[str, Any], bare: bool, as_json: bool) -> None:
    """Copy a part of a recording into a new one: a time range, types or subjects.

    With --from, the new recording begins with the objects that existed at that time, as a recording
    that was started then. They have the times of their last changes. NEW is a folder, or a remote
    path such as s3a://bucket/accident.

    \b
    Examples:
      skerry record cut today accident --from 2026-11-15T14:00:00Z --to 2026-11-15T14:10:00Z
      skerry record cut today vessels --types Vessel
    """
    output = current_output()
    recordings = opened(folder)
    warn_of_absent(output, recordings, chosen)
    from skerry.recording.selection import selection_of
    from skerry.runtime.recordings.copying import cut_recording
    from skerry.runtime.recordings.files.remote_paths import resolve_path

    with row_progress(output, "cutting") as show:
        done = cut_recording(
            recordings,
            resolve_path(target),
            selection_of(**chosen),
            has_state=not bare,
            on_progress=show,
        )
    if as_json:
        output.json_line({"folder": str(target), **asdict(done)})
    else:
        output.line(f"{target}: {done.rows:,} rows")
