"""`skerry record merge`: several recordings as one."""

from __future__ import annotations

from dataclasses import asdict

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.record.options import opened, row_progress

__all__ = ["merge"]


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=click.Path())
@click.argument("target", metavar="NEW", type=click.Path())
@json_option
def merge(*, folders: tuple[str, ...], target: str, as_json: bool) -> None:
    """Make one recording of several of one space.

    Rows are put in the order of their times. What more than one recorder has recorded is in the
    new one once, and a gap of one of them that others fill is not in it. NEW is a folder, or a
    place such as s3a://bucket/ship.

    \b
    Examples:
      skerry record merge recordings/bridge recordings/engine recordings/ship
    """
    output = current_output()
    recordings = opened(*folders)
    from skerry.runtime.recordings.copying import merge_recordings
    from skerry.runtime.recordings.files.remote_paths import resolve_path

    with row_progress(output, "merging") as tell:
        done = merge_recordings(recordings, resolve_path(target), on_progress=tell)
    if as_json:
        output.json_line({"folder": str(target), **asdict(done)})
    else:
        output.line(
            f"{target}: {done.rows:,} rows of {len(recordings)} recordings;"
            f" {done.duplicates:,} were there twice, {done.filled_gaps:,} gaps are filled"
        )
