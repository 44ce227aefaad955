"""`skerry record copy`: a recording for others to read, on an object store or a file system."""

from __future__ import annotations

from dataclasses import asdict

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.record.options import opened, row_progress, shown_size

__all__ = ["copy"]


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.argument("target", metavar="URI")
@json_option
def copy(*, folder: str, target: str, as_json: bool) -> None:
    """Copy what is sealed of a recording to an object store or another file system.

    What is there already is not copied again, so it may be called as often as one likes, also while
    a recorder writes; `pipeline follow` brings in what has come. Segments go first and the manifest
    last, so that whoever reads meanwhile finds all that it names. Of a folder of recordings each
    goes to a folder of its own name.

    \b
    Examples:
      skerry record copy recordings/today s3a://bucket/recordings/today
      skerry record copy recordings s3a://bucket/recordings
    """
    output = current_output()
    recordings = opened(folder)
    from skerry.runtime.recordings.places import Place, place_of
    from skerry.runtime.recordings.uploads import upload_recording

    place = place_of(target)
    if not isinstance(place, Place):
        raise click.UsageError(
            f"{target} is a folder of this computer; name a place such as s3a://bucket/{target},"
            " or copy the folder with any tool"
        )
    is_one = len(recordings) == 1 and recordings[0].folder.samefile(folder)
    for recording in recordings:
        goal = place if is_one else place / recording.folder.name
        with row_progress(output, f"copying {recording.folder.name}") as tell:
            done = upload_recording(recording.folder, goal, on_progress=tell)
        if as_json:
            output.json_line({"folder": str(goal), **asdict(done)})
        else:
            output.line(
                f"{goal}: {done.segments:,} segments and {shown_size(done.byte_count)} copied,"
                f" {done.skipped:,} were there"
            )
