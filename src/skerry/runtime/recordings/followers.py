"""Who follows a recording: each touches a file of its own, and is gone when that gets old."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from skerry.errors import RecordingError
from skerry.limits import RECORDING_FOLLOWER_COUNT_MAX
from skerry.runtime.clock import wall_ns

__all__ = [
    "FOLLOWED_NS",
    "FOLLOWERS_NAME",
    "forget_follower",
    "forget_gone",
    "is_followed",
    "touch_follower",
]

FOLLOWERS_NAME: Final = "followers"

FOLLOWED_NS: Final = 10_000_000_000
"""Age of its file at which somebody counts as gone; each second it is touched."""


_GONE_NS: Final = 3600 * 1_000_000_000


def touch_follower(folder: Path, name: str) -> None:
    """Say that somebody follows, who is to call this every second."""
    path = _file_of(folder, name)
    try:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    except OSError as error:
        raise RecordingError(f"cannot say that {name} follows {folder}: {error}") from error


def forget_follower(folder: Path, name: str) -> None:
    """Say that somebody follows no longer, without waiting for the file to get old."""
    _file_of(folder, name).unlink(missing_ok=True)


def forget_gone(folder: Path) -> None:
    """Remove the files of those who have been gone for long, so that they do not pile up."""
    oldest_ns = wall_ns() - _GONE_NS
    followers = folder / FOLLOWERS_NAME
    for path in followers.iterdir() if followers.is_dir() else ():
        if path.stat().st_mtime_ns < oldest_ns:
            path.unlink(missing_ok=True)


def is_followed(folder: Path, *, now_ns: int | None = None) -> bool:
    """Whether anybody follows. `now_ns` is wall time."""
    now_ns = wall_ns() if now_ns is None else now_ns
    try:
        with os.scandir(folder / FOLLOWERS_NAME) as entries:
            for _, entry in zip(range(RECORDING_FOLLOWER_COUNT_MAX), entries, strict=False):
                # A time ahead of the clock is one from before the clock was set back.
                if abs(now_ns - entry.stat().st_mtime_ns) <= FOLLOWED_NS:
                    return True
    except FileNotFoundError:
        return False  # nobody ever did, or the last one went just now
    return False


def _file_of(folder: Path, name: str) -> Path:
    if not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise RecordingError(f"{name!r:.120} cannot be the name of a file of one who follows")
    return folder / FOLLOWERS_NAME / name
