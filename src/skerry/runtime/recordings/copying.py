"""Makes new recordings from existing ones: a part of one, or several merged into one.

A new recording is written to a temporary folder beside its target and renamed when it is complete,
so a copy that fails leaves no incomplete recording. For a remote target it is written to a
temporary folder and uploaded.

A merged recording has no gap that another one fills: every position of its range is in a row of
some recording. The manifest has the positions of each batch, so only batches are read that may
contain one of them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import GAP, SNAPSHOT, Update
from skerry.errors import RecordingError
from skerry.recording.gaps import readable_gap
from skerry.recording.index import RecordedBatch
from skerry.recording.seen import SeenUpdates
from skerry.recording.selection import ALL_ROWS, RowSelection
from skerry.recording.unions import united_types
from skerry.recording.updates import is_description, updates_of
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.recordings.files.folders import (
    IDENTITY_NAME,
    is_recording,
    make_folder,
    reject_parent_of_recordings,
    sync_folder,
)
from skerry.runtime.recordings.files.remote_paths import RemotePath, store_errors
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.updates import Progress, range_updates, read_all_types, read_updates
from skerry.runtime.recordings.uploads import upload_recording
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Counts of the rows that were copied and left out."""

    rows: int
    """Updates and gaps, without descriptions of types."""
    duplicates: int
    """Updates that were left out because another recording has them, too."""
    filled_gaps: int = 0
    """Gaps that were left out because another recording has the missing updates."""


def cut_recording(
    recordings: Sequence[Recording],
    target: Path | RemotePath,
    selection: RowSelection = ALL_ROWS,
    *,
    has_state: bool = True,
    config: RecordingConfig | None = None,
    on_progress: Progress | None = None,
) -> Copied:
    """Make a recording of a selection. The target must not exist, or be an empty folder.

    It begins with the objects that existed at `selection.from_ns`, unless `has_state` is False:
    updates of those objects could not be interpreted without them.
    """
    known = read_all_types(recordings)
    seen = SeenUpdates()
    if has_state:
        united = united_types(known)
        # Objects that were updated with several definitions are described by their union.
        known |= {fingerprint(type_): type_ for type_ in united.values()}
        updates = range_updates(recordings, united, selection, seen=seen, on_progress=on_progress)
    else:
        updates = read_updates(recordings, selection, seen=seen, on_progress=on_progress)
    return _copy(updates, known, seen, _space(recordings), target, config)


def merge_recordings(
    recordings: Sequence[Recording],
    target: Path | RemotePath,
    *,
    config: RecordingConfig | None = None,
    on_progress: Progress | None = None,
) -> Copied:
    """Merge several recordings into one; updates in more than one of them are copied once."""
    space = _space(recordings)
    known = read_all_types(recordings)
    seen = SeenUpdates()
    filled = filled_gaps(recordings)
    filled_count = 0
    updates = read_updates(recordings, seen=seen, on_progress=on_progress)

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
    with new_recording(target, space=space, config=config) as writer:
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
def new_recording(
    target: Path | RemotePath, *, space: str, config: RecordingConfig | None = None
) -> Iterator[RecordingWriter]:
    """The writer of a new recording, which is at the target when the context ends.

    The target must not exist, or be an empty folder. After a failure nothing is there.
    """
    with (
        _remote_target(target)
        if isinstance(target, RemotePath)
        else _local_target(target) as folder,
        closing(RecordingWriter(folder, config, space=space)) as writer,
    ):
        yield writer


@contextmanager
def _local_target(target: Path) -> Iterator[Path]:
    """A folder beside the target, renamed to it on success and removed after a failure."""
    _check_free(target)
    # A path such as `..` has no name of its own.
    final = Path(os.path.abspath(target))  # noqa: PTH100 - links must not be resolved
    part = final.with_name(f".{final.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        make_folder(final.parent)
        yield part
        if final.exists():
            # The existing folder is empty, and the user chose its mode.
            part.chmod(final.stat().st_mode & 0o7777)
        part.rename(final)
        sync_folder(final.parent)
    except (OSError, RecordingError) as error:
        detail = error.strerror or error if isinstance(error, OSError) else error
        failure = RecordingError(f"cannot make {target}: {detail}".replace(str(part), final.name))
        failure.hint = getattr(error, "hint", "") or "name another folder"
        raise failure from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _remote_target(target: RemotePath) -> Iterator[Path]:
    """A temporary folder that is uploaded to the target on success."""
    with store_errors("cannot make", target, RecordingError):
        is_recorded = (target / IDENTITY_NAME).exists()
        _reject_if(target, "is a recording already" if is_recorded else "")
        reject_parent_of_recordings(target, "new")
    with tempfile.TemporaryDirectory(prefix="skerry-record-") as folder:
        part = Path(folder, "part")
        yield part
        upload_recording(part, target)


def _check_free(target: Path) -> None:
    what = ""
    if is_recording(target):
        what = "is a recording already"
    elif target.is_dir() and any(target.iterdir()):
        what = "is not empty"
    elif target.exists() and not target.is_dir():
        what = "is not a folder"
    _reject_if(target, what)


def _reject_if(target: Path | RemotePath, what: str) -> None:
    if what:
        error = RecordingError(f"{target} {what}")
        error.hint = "name a folder that does not exist yet"
        raise error


def _space(recordings: Sequence[Recording]) -> str:
    spaces = {recording.space for recording in recordings}
    if len(spaces) != 1:
        error = RecordingError(f"the recordings are of {len(spaces)} spaces: {sorted(spaces)}")
        error.hint = "make one recording per space"
        raise error
    return spaces.pop()


RECORDING_FILLED_COUNT_MAX: Final = 100_000_000
"""Updates of one gap that are looked up in another recording, with a byte of memory for each. A
longer gap is not one that another recorder could fill."""

Range: TypeAlias = tuple[int, int, int]
"""A node, the first missing position, and the first that is not missing any more."""


def filled_gaps(
    recordings: Sequence[Recording], *, count_max: int = RECORDING_FILLED_COUNT_MAX
) -> frozenset[Range]:
    """The gaps whose updates are all in one of the recordings.

    Gaps of more than `count_max` updates are not examined and count as unfilled.
    """
    wanted = {found for found in _ranges(recordings) if 0 < found[2] - found[1] <= count_max}
    return frozenset(found for found in wanted if _is_filled(recordings, found))


def range_of(update: Update) -> Range | None:
    """The range of a gap row; None for other rows and for gaps without positions."""
    if update.operation != GAP or update.sender:
        return None
    gap = readable_gap(update.payload)
    return (update.node, gap.first, gap.stop) if 0 < gap.first < gap.stop else None


def _ranges(recordings: Sequence[Recording]) -> Iterator[Range]:
    for rows in _batches(recordings, lambda batch: "" in batch.types):
        gaps = rows.filter(pc.equal(rows.column("operation"), GAP))
        for update in updates_of(gaps):
            found = range_of(update)
            if found is not None:
                yield found


def _is_filled(recordings: Sequence[Recording], wanted: Range) -> bool:
    node, first, stop = wanted
    is_present = np.zeros(stop - first, bool)

    def may_have(batch: RecordedBatch) -> bool:
        return batch.position_max >= first and 0 < batch.position_min < stop

    for rows in _batches(recordings, may_have):
        positions = rows.column("position").to_numpy()
        operations = rows.column("operation").to_numpy()
        is_update = (operations != GAP) & (operations != SNAPSHOT)
        is_in = (positions >= first) & (positions < stop)
        is_own = rows.column("node").to_numpy() == node
        is_present[positions[is_update & is_in & is_own] - first] = True
    return bool(is_present.all())


def _batches(
    recordings: Sequence[Recording], may_have: Callable[[RecordedBatch], bool]
) -> Iterator[pa.RecordBatch]:
    for recording in recordings:
        for segment in recording.segments():
            for _, rows in recording.batches(segment, may_have):
                yield rows
