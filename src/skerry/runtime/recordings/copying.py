"""New recordings from old ones: a part of one, or several as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from skerry.errors import RecordingError
from skerry.recording.seen import Seen
from skerry.recording.selection import Selection, selection_of
from skerry.recording.updates import is_description
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.recordings.folders import is_recording
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.updates import Progress, read_all_types, selected_updates
from skerry.runtime.recordings.writer import RecordingWriter

__all__ = ["Copied", "cut_recording", "merge_recordings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a new recording was made of."""

    rows: int
    """Updates and gaps; descriptions of types are written as they are needed."""
    duplicates: int
    """Updates that were left out since they were there already."""


def cut_recording(
    recordings: Sequence[Recording],
    target: Path,
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
    types: Iterable[str] | None = None,
    subjects: Iterable[str] | None = None,
    config: RecordingConfig | None = None,
    on_progress: Progress | None = None,
) -> Copied:
    """Make a recording of what is asked for. The target must not be one yet."""
    selection = selection_of(from_ns=from_ns, to_ns=to_ns, types=types, subjects=subjects)
    return _copy(recordings, target, selection, config, on_progress)


def merge_recordings(
    recordings: Sequence[Recording],
    target: Path,
    *,
    config: RecordingConfig | None = None,
    on_progress: Progress | None = None,
) -> Copied:
    """Make one recording of several; what more than one of them has is in it once."""
    return _copy(recordings, target, Selection(), config, on_progress)


def _copy(
    recordings: Sequence[Recording],
    target: Path,
    selection: Selection,
    config: RecordingConfig | None,
    on_progress: Progress | None,
) -> Copied:
    if is_recording(target):
        error = RecordingError(f"{target} is a recording already")
        error.hint = "name a folder that is not there yet"
        raise error
    seen = Seen()
    rows = 0
    updates = selected_updates(recordings, selection, seen=seen, on_progress=on_progress)
    with closing(RecordingWriter(target, config, space=_space(recordings))) as writer:
        for type_ in read_all_types(recordings).values():
            writer.describe(type_)
        for update in updates:
            if not is_description(update):
                writer.append(update)
                rows += 1
                if writer.is_full:
                    writer.flush_if_due(monotonic_ns())
    return Copied(rows=rows, duplicates=seen.duplicate_count)


def _space(recordings: Sequence[Recording]) -> str:
    spaces = {recording.space for recording in recordings}
    if len(spaces) != 1:
        error = RecordingError(f"the recordings are of {len(spaces)} spaces: {sorted(spaces)}")
        error.hint = "make a recording of each space"
        raise error
    return spaces.pop()
