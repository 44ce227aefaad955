"""`skerry record merge`: combine several recordings."""

from __future__ import annotations

from dataclasses import asdict

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.record.options import opened, row_progress


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
    if as_json:
        output.json_line({"folder": str(target), **asdict(done)})
    else:
        output.line(
            f"{target}: {done.rows:,} rows of {len(recordings)} recordings;"
            f" {done.duplicates:,} duplicates removed, {done.filled_gaps:,} gaps filled"
        )
