"""New recordings from old ones: a part of one, or several as one.

They are made beside their place and take it when they are whole: a copy that could not be finished
leaves nothing that could be taken for one. Those for a place elsewhere are made among the temporary
files, and copied there.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from skerry.codec.envelope import GAP, Update
from skerry.errors import RecordingError
from skerry.recording.seen import SeenUpdates
from skerry.recording.selection import RowSelection, selection_of
from skerry.recording.unions import united_types
from skerry.recording.updates import is_description
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.recordings.folders import (
    IDENTITY_NAME,
    is_recording,
    make_folder,
    refuse_holder,
    sync_folder,
)
from skerry.runtime.recordings.gap_filling import filled_gaps, range_of
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.remote_paths import RemotePath, told
from skerry.runtime.recordings.time_range import span_updates
from skerry.runtime.recordings.updates import Progress, read_all_types, selected_updates
from skerry.runtime.recordings.uploads import upload_recording
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import StructType

__all__ = ["Copied", "cut_recording", "merge_recordings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a new recording was made of."""

    rows: int
    """Updates and gaps; descriptions of types are written as they are needed."""
    duplicates: int
    """Updates that were left out since they were there already."""
    filled_gaps: int = 0
    """Gaps that were left out since what one recorder missed is there from another."""


def cut_recording(
    recordings: Sequence[Recording],
    target: Path | RemotePath,
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
    types: Iterable[str] | None = None,
    subjects: Iterable[str] | None = None,
    has_state: bool = True,
    config: RecordingConfig | None = None,
    on_progress: Progress | None = None,
) -> Copied:
    """Make a recording of what is asked for. The target must not be there yet, or be empty.

    What was there at `from_ns` comes first, unless it is not wanted (`has_state=False`): without
    it, updates of objects that were made before would say too little.
    """
    selection = selection_of(from_ns=from_ns, to_ns=to_ns, types=types, subjects=subjects)
    known = read_all_types(recordings)
    seen = SeenUpdates()
    if has_state:
        united = united_types(known)
        # Objects that were updated by several definitions are described by their union.
        known |= {fingerprint(type_): type_ for type_ in united.values()}
        updates = span_updates(recordings, united, selection, seen=seen, on_progress=on_progress)
    else:
        updates = selected_updates(recordings, selection, seen=seen, on_progress=on_progress)
    return _copy(updates, known, seen, _space(recordings), target, config)


def merge_recordings(
    recordings: Sequence[Recording],
    target: Path | RemotePath,
    *,
    config: RecordingConfig | None = None,
    on_progress: Progress | None = None,
) -> Copied:
    """Make one recording of several; what more than one of them has is in it once."""
    space = _space(recordings)
    known = read_all_types(recordings)
    seen = SeenUpdates()
    filled = filled_gaps(recordings)
    filled_count = 0
    updates = selected_updates(recordings, RowSelection(), seen=seen, on_progress=on_progress)

    def unfilled() -> Iterator[Update]:
        nonlocal filled_count
        for update in updates:
            if update.operation == GAP and range_of(update) in filled:
                filled_count += 1
            else:
                yield update

    done = _copy(unfilled(), known, seen, space, target, config)
    return replace(done, filled_gaps=filled_count)


def _copy(
    updates: Iterable[Update],
    known: dict[int, StructType],
    seen: SeenUpdates,
    space: str,
    target: Path | RemotePath,
    config: RecordingConfig | None,
) -> Copied:
    rows = 0
    with (
        _going_to(target) if isinstance(target, RemotePath) else _taking_place(target) as folder,
        closing(RecordingWriter(folder, config, space=space)) as writer,
    ):
        for type_ in known.values():
            writer.describe(type_)
        for update in updates:
            if not is_description(update):
                writer.append(update)
                rows += 1
                if writer.is_full:
                    writer.flush_if_due(monotonic_ns())
    return Copied(rows=rows, duplicates=seen.duplicate_count)


@contextmanager
def _taking_place(target: Path) -> Iterator[Path]:
    """A folder beside the target, which takes its place at the end; and is gone after a failure."""
    _check_free(target)
    # A place such as `..` has no name of its own.
    place = Path(os.path.abspath(target))  # noqa: PTH100 - where a link leads does not count
    part = place.with_name(f".{place.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        make_folder(place.parent)
        yield part
        if place.exists():
            # It is empty, and its mode was chosen by the user.
            part.chmod(place.stat().st_mode & 0o7777)
        part.rename(place)
        sync_folder(place.parent)
    except (OSError, RecordingError) as error:
        detail = error.strerror or error if isinstance(error, OSError) else error
        failure = RecordingError(f"cannot make {target}: {detail}".replace(str(part), place.name))
        failure.hint = getattr(error, "hint", "") or "name another folder"
        raise failure from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _going_to(target: RemotePath) -> Iterator[Path]:
    """A folder of this computer, which is copied to the target at the end."""
    with told("cannot make", target, RecordingError):
        _refuse_taken(target, "is a recording already" if _has_identity(target) else "")
        refuse_holder(target, "new")
    with tempfile.TemporaryDirectory(prefix="skerry-record-") as folder:
        part = Path(folder, "part")
        yield part
        upload_recording(part, target)


def _has_identity(target: RemotePath) -> bool:
    return (target / IDENTITY_NAME).exists()


def _check_free(target: Path) -> None:
    what = ""
    if is_recording(target):
        what = "is a recording already"
    elif target.is_dir() and any(target.iterdir()):
        what = "is not empty"
    elif target.exists() and not target.is_dir():
        what = "is no folder"
    _refuse_taken(target, what)


def _refuse_taken(target: Path | RemotePath, what: str) -> None:
    if what:
        error = RecordingError(f"{target} {what}")
        error.hint = "name a folder that is not there yet"
        raise error


def _space(recordings: Sequence[Recording]) -> str:
    spaces = {recording.space for recording in recordings}
    if len(spaces) != 1:
        error = RecordingError(f"the recordings are of {len(spaces)} spaces: {sorted(spaces)}")
        error.hint = "make a recording of each space"
        raise error
    return spaces.pop()
