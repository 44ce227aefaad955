"""`skerry record copy`: upload a recording to an object store or another file system."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.record.options import found_folders, row_progress, shown_size
from skerry.errors import SkerryError

if TYPE_CHECKING:
    from skerry.runtime.recordings.files.remote_paths import RemotePath


class _Folder(click.Path):
    """A local folder; a remote path is rejected."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from skerry.runtime.recordings.files.remote_paths import RemotePath, resolve_path

        if isinstance(resolve_path(value), RemotePath):
            self.fail(
                f"{value} is a remote path, and DIR must be a local folder; copy from there with"
                " the tools of the store, or with `skerry record cut`",
                param,
                ctx,
            )
        return super().convert(str(resolve_path(value)), param, ctx)


@click.command()
@click.argument("folder", metavar="DIR", type=_Folder(exists=True, file_okay=False))
@click.argument("target", metavar="URI")
@json_option
def copy(*, folder: str, target: str, as_json: bool) -> None:
    """Copy the sealed segments of a recording to an object store or another file system.

    Segments that exist at URI are not copied again, so the command can be repeated, also while a
    recorder writes; `pipeline follow` then reads the new segments. The manifest is copied after the
    segments, so that readers find every segment that it lists. If DIR is a folder of recordings,
    each is copied to a folder of its name, and a failure does not stop the others.

    \b
    Examples:
      skerry record copy recordings/today s3a://bucket/recordings/today
      skerry record copy recordings s3a://bucket/recordings
    """
    output = current_output()
    folders = found_folders(folder)
    from skerry.runtime.recordings.files.folders import reject_recording
    from skerry.runtime.recordings.files.remote_paths import RemotePath, resolve_path

    place = resolve_path(target)
    if not isinstance(place, RemotePath):
        raise click.UsageError(
            f"{target} is a local folder; give a remote path such as"
            f" s3a://bucket/{place.name or 'recordings'}, or copy the folder with any tool"
        )
    if len(folders) == 1 and folders[0].samefile(folder):
        _copy(output, folders[0], place, as_json=as_json)
        return
    reject_recording(place)
    failed = 0
    for each in folders:
        try:
            _copy(output, each, place / each.name, as_json=as_json)
        except SkerryError as error:
            failed += 1
            output.error(str(error), error.hint)
    if failed:
        output.error(f"{failed} of {len(folders)} recordings were not copied")
        click.get_current_context().exit(1)


def _copy(output: Output, folder: Path, goal: RemotePath, *, as_json: bool) -> None:
    from skerry.runtime.recordings.uploads import upload_recording

    with row_progress(output, f"copying {folder.name}") as show:
        done = upload_recording(folder, goal, on_progress=show)
    if as_json:
        output.json_line(folder=str(goal), **asdict(done))
        return
    for text in done.warnings:
        output.warning(f"{folder}: {text}")
    output.line(
        f"{goal}: {done.segments:,} segments and {shown_size(done.byte_count)} copied,"
        f" {done.skipped:,} existed already"
    )
