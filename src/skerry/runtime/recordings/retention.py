"""Which segments a recording may lose, by age and by size."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from skerry.recording.index import Segment
from skerry.runtime.recordings.config import Durability, RecordingConfig
from skerry.runtime.recordings.manifest import Manifest

__all__ = ["RECORDING_DROPPED_KEPT", "drop_segments", "due_segments", "remove_dropped"]

RECORDING_DROPPED_KEPT: Final = 1000
"""Dropped segments, and repairs, that a shortened manifest still lists. It is shortened at twice as
many. A follower that fell behind learns from them what is missing: half an hour of segments that
are sealed every two seconds."""

log = logging.getLogger(__name__)


def due_segments(
    segments: Sequence[Segment], config: RecordingConfig, *, now_ns: int
) -> list[tuple[Segment, str]]:
    """What is to be dropped, in the order of the manifest, and why. `now_ns` is wall time.

    The newest stays in any case. Who follows could never see it otherwise, and what a recorder
    finds at its beginning may be older than all that is kept.
    """
    due: list[tuple[Segment, str]] = []
    kept: list[Segment] = []
    for segment in segments[:-1]:
        if config.keep_s and segment.time_max_ns < now_ns - int(config.keep_s * 1e9):
            due.append((segment, "age"))
        else:
            kept.append(segment)
    excess = sum(segment.byte_count for segment in (*kept, *segments[-1:])) - config.keep_bytes
    if config.keep_bytes:
        for segment in kept:
            if excess <= 0:
                break
            due.append((segment, "size"))
            excess -= segment.byte_count
    return due


def drop_segments(
    folder: Path, manifest: Manifest, config: RecordingConfig, *, now_ns: int
) -> list[str]:
    """Drop what is due; the names of what is gone."""
    if not due_segments(list(manifest.segments.values()), config, now_ns=now_ns):
        return []
    with manifest.locked():
        due = due_segments(list(manifest.segments.values()), config, now_ns=now_ns)
        # The lines first, and on the disk: who finds a line without its file must know why.
        for index, (segment, reason) in enumerate(due, 1):
            is_synced = index == len(due) and config.durability != Durability.NONE
            manifest.add_dropped(segment.name, reason, sync=is_synced)
        for segment, _ in due:
            (folder / segment.name).unlink(missing_ok=True)
        _shorten_if_due(manifest)
    return [segment.name for segment, _ in due]


def remove_dropped(folder: Path, manifest: Manifest) -> None:
    """Remove what a crash left of segments that were just being dropped."""
    for name in manifest.dropped:
        (folder / name).unlink(missing_ok=True)


def _shorten_if_due(manifest: Manifest) -> None:
    """Let the manifest forget old ones, before it has more of them than of those that are there.

    So each line is copied a few times at the most, however many stay.
    """
    if len(manifest.dropped) <= max(2 * RECORDING_DROPPED_KEPT, len(manifest.segments)):
        return
    try:
        manifest.shorten(kept=RECORDING_DROPPED_KEPT)
    except OSError as error:
        # It only stays longer than it should be, until it works when the next one is dropped.
        log.warning(
            "cannot shorten the manifest",
            extra={"path": str(manifest.path), "reason": error.strerror or str(error)},
        )
