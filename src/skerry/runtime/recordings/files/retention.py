"""Retention: drops the segments of a recording that are too old or too large together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from skerry.recording.index import Segment
from skerry.runtime.recordings.config import Durability, RecordingConfig
from skerry.runtime.recordings.files.manifest import Manifest

RECORDING_DROPPED_KEPT: Final = 1000
"""Dropped segments, and repairs, that a shortened manifest still lists. It is shortened at twice as
many. A follower that fell behind learns from them what is missing: half an hour of segments that
are sealed every two seconds."""

log = logging.getLogger(__name__)


def due_segments(
    segments: Sequence[Segment], config: RecordingConfig, *, now_ns: int
) -> list[tuple[Segment, str]]:
    """The segments to drop, in the order of the manifest, each with the reason.

    `now_ns` is wall time. The newest segment is never dropped: followers would otherwise never see
    it, and the snapshot rows of a new recording may be older than the limit.
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
    """Drop the segments that are due; their names."""
    if not due_segments(list(manifest.lines.segments.values()), config, now_ns=now_ns):
        return []
    with manifest.locked():
        due = due_segments(list(manifest.lines.segments.values()), config, now_ns=now_ns)
        # The lines are durable before the files are removed: a missing file must have a reason.
        for index, (segment, reason) in enumerate(due, 1):
            is_synced = index == len(due) and config.durability != Durability.NONE
            manifest.add_dropped(segment.name, reason, sync=is_synced)
        for segment, _ in due:
            (folder / segment.name).unlink(missing_ok=True)
        _shorten_if_due(manifest)
    return [segment.name for segment, _ in due]


def remove_dropped(folder: Path, manifest: Manifest) -> None:
    """Remove files of dropped segments that a crash left."""
    for name in manifest.lines.dropped:
        (folder / name).unlink(missing_ok=True)


def _shorten_if_due(manifest: Manifest) -> None:
    """Shorten the manifest if it has more dropped segments than present ones.

    So each line is copied a few times at most, however many segments are kept.
    """
    if len(manifest.lines.dropped) <= max(2 * RECORDING_DROPPED_KEPT, len(manifest.lines.segments)):
        return
    try:
        manifest.shorten(kept=RECORDING_DROPPED_KEPT)
    except OSError as error:
        # The manifest only stays long until the next segment is dropped.
        log.warning(
            "cannot shorten the manifest",
            extra={"path": str(manifest.path), "reason": error.strerror or str(error)},
        )
