"""Who follows a recording: each touches a file of its own, and is gone when that gets old."""

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

__all__ = [
    "FOLLOWED_NS",
    "FOLLOWERS_NAME",
    "RECORDING_FOLLOWER_COUNT_MAX",
    "forget_follower",
    "forget_gone",
    "is_followed",
    "touch_follower",
]

RECORDING_FOLLOWER_COUNT_MAX: Final = 1000
"""Files that are examined to find the followers. Each was written by a follower once."""

FOLLOWERS_NAME: Final = "followers"

FOLLOWED_NS: Final = 10_000_000_000
"""Age of its file at which somebody counts as gone; each second it is touched."""


_GONE_NS: Final = 3600 * 1_000_000_000


def touch_follower(folder: Path, name: str) -> None:
    """Say that somebody follows, who is to call this every second."""
    path = _file_of(folder, name)
    try:
        # Not private: a recorder of another user has to see it, and nothing recorded is in it.
        path.parent.mkdir(exist_ok=True)
        path.touch()
    except OSError as error:
        failure = RecordingError(f"cannot say that {name} follows {folder}: {error}")
        failure.hint = "let the one who follows write to the folder `followers` in it"
        raise failure from error


def forget_follower(folder: Path, name: str) -> None:
    """Say that somebody follows no longer, without waiting for the file to get old."""
    _file_of(folder, name).unlink(missing_ok=True)


def forget_gone(folder: Path) -> None:
    """Remove the files of those who have been gone for long, so that they do not pile up."""
    oldest_ns = wall_ns() - _GONE_NS
    for path, touched_ns in _touched(folder):
        if touched_ns < oldest_ns:
            # What is no file of one who follows is none of ours, and in nobody's way.
            with suppress(OSError):
                path.unlink()


def is_followed(folder: Path, *, now_ns: int | None = None) -> bool:
    """Whether anybody follows. `now_ns` is wall time."""
    now_ns = wall_ns() if now_ns is None else now_ns
    looked_at = islice(_touched(folder), RECORDING_FOLLOWER_COUNT_MAX)
    # A time ahead of the clock is one from before the clock was set back.
    return any(abs(now_ns - touched_ns) <= FOLLOWED_NS for _, touched_ns in looked_at)


def _touched(folder: Path) -> Iterator[tuple[Path, int]]:
    """Files of those who follow, or did, and when they were touched.

    A recorder must not stop because somebody cannot be seen: a folder that is not there or cannot
    be read has nobody in it, and a file that went this moment is one of nobody.
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
        raise RecordingError(f"{name!r:.120} cannot be the name of a file of one who follows")
    return folder / FOLLOWERS_NAME / name
