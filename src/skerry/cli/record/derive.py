"""`skerry record cut` and `merge`: make new recordings of existing ones."""

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
    text = f"{target}: {done.rows:,} rows"
    output.result(text, as_json=as_json, folder=target, **asdict(done))


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=click.Path())
@click.argument("target", metavar="NEW", type=click.Path())
@json_option
def merge(*, folders: tuple[str, ...], target: str, as_json: bool) -> None:
    """Merge several recordings of one space into a new one.

    Rows are ordered by time. Rows that more than one recorder wrote are kept once, and a gap that
    another recording fills is removed. NEW is a folder, or a remote path such as s3a://bucket/ship.

    \b
    Examples:
      skerry record merge recordings/bridge recordings/engine recordings/ship
    """
    output = current_output()
    recordings = opened(*folders)
    from skerry.runtime.recordings.copying import merge_recordings
    from skerry.runtime.recordings.files.remote_paths import resolve_path

    with row_progress(output, "merging") as show:
        done = merge_recordings(recordings, resolve_path(target), on_progress=show)
    text = (
        f"{target}: {done.rows:,} rows of {len(recordings)} recordings;"
        f" {done.duplicates:,} duplicates removed, {done.filled_gaps:,} gaps filled"
    )
    output.result(text, as_json=as_json, folder=target, **asdict(done))
