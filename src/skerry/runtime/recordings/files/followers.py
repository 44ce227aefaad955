"""Followers of a recording: each touches its own file, and counts as gone when that gets old."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from skerry.errors import RecordingError
from skerry.runtime.clock import wall_ns

RECORDING_FOLLOWER_COUNT_MAX: Final = 1000
"""Files that are examined to find the followers. Each was written by a follower once."""

FOLLOWERS_NAME: Final = "followers"

FOLLOWED_NS: Final = 10_000_000_000
"""Age of its file at which a follower counts as gone. Followers touch their files every second."""

_STALE_NS: Final = 3600 * 1_000_000_000
"""Age at which the file of a follower is removed."""


def touch_follower(folder: Path, name: str) -> None:
    """Register a follower, which must call this every second."""
    path = _file_of(folder, name)
    try:
        # Not private: a recorder of another user must see it, and it contains no recorded data.
        path.parent.mkdir(exist_ok=True)
        path.touch()
    except OSError as error:
        failure = RecordingError(f"cannot register follower {name} of {folder}: {error}")
        failure.hint = f"give the follower permission to write to {folder / FOLLOWERS_NAME}"
        raise failure from error


def remove_follower(folder: Path, name: str) -> None:
    """Unregister a follower without waiting for its file to get old."""
    _file_of(folder, name).unlink(missing_ok=True)


def remove_stale_followers(folder: Path) -> None:
    """Remove the files of followers that are long gone, so that they do not accumulate."""
    oldest_ns = wall_ns() - _STALE_NS
    for path, touched_ns in _touched(folder):
        if touched_ns < oldest_ns:
            # A folder or a file of another user may stay: it does no harm.
            with suppress(OSError):
                path.unlink()


def is_followed(folder: Path, *, now_ns: int | None = None) -> bool:
    """Whether the recording has a follower. `now_ns` is wall time."""
    now_ns = wall_ns() if now_ns is None else now_ns
    checked = islice(_touched(folder), RECORDING_FOLLOWER_COUNT_MAX)
    # A time in the future is from before the clock was set back.
    return any(abs(now_ns - touched_ns) <= FOLLOWED_NS for _, touched_ns in checked)


def _touched(folder: Path) -> Iterator[tuple[Path, int]]:
    """The files of followers and when they were touched.

    Errors are ignored, because they must not stop a recorder: a folder that is missing or
    unreadable has no followers, and a file may be removed at any moment.
    """
    with suppress(OSError), os.scandir(folder / FOLLOWERS_NAME) as entries:
        for entry in entries:
            try:
                touched_ns = entry.stat().st_mtime_ns
            except OSError:
                continue
            yield Path(entry.path), touched_ns


def _file_of(folder: Path, name: str) -> Path:
    if not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise RecordingError(
            f"{name!r:.120} is not a valid name of a follower: use letters, digits, _ . and -"
        )
    return folder / FOLLOWERS_NAME / name
