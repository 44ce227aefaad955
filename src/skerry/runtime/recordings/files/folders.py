"""The folder of a recording: its identity, its files and the lock of its writer.

recording.json              identity; written once
manifest.jsonl              sealed, dropped and repaired segments, in order
manifest.jsonl.new          a shorter manifest that is being written
<id>-<number>.arrow         sealed segments
<id>-<number>.arrow.open    the segment that is being written
followers/                  one file per follower
recorder.lock               locked by the recorder
recorder.reserve            disk space for the end of the recording, while a recorder runs

A recording contains every published update, regardless of the permissions to subscribe to it. So
new folders and files are private to their owner. An existing folder keeps its mode.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any, Final

from skerry.errors import LimitExceeded, RecordingError
from skerry.recording.format import FORMAT_VERSION
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.recordings.files.remote_paths import RemotePath, store_errors
from skerry.runtime.whole_files import read_whole, replace_files

RECORDING_RESERVE_BYTES: Final = 64 * 1024
"""Disk space that a recorder reserves, and frees when it ends: enough for gap rows, the end of a
segment and most manifest lines, so that a recording that ends on a full disk has its gap row."""

IDENTITY_NAME: Final = "recording.json"
PRIVATE_FILE: Final = 0o600
"""Mode of the files of recordings."""
_PRIVATE_FOLDER: Final = 0o700
SEALED_SUFFIX: Final = ".arrow"
OPEN_SUFFIX: Final = ".arrow.open"

_LOCK_NAME: Final = "recorder.lock"
_LOCK_WAIT_NS: Final = 200_000_000
"""Time to wait for the lock: `is_being_written` may hold it for a moment."""
_LOCK_RETRY_S: Final = 0.01
_NAME: Final = re.compile(r"([\w-]{1,40})-(\d{10})\.arrow(\.open)?")
_IDENTITY_BYTES_MAX: Final = 65536
_RESERVE_NAME: Final = "recorder.reserve"
_OUR_NAMES: Final = frozenset(
    {"followers", "lost+found", "manifest.jsonl", "manifest.jsonl.new", _LOCK_NAME, _RESERVE_NAME}
)
"""Names that a folder may contain before it becomes a recording; the root folder of a disk has
`lost+found`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingIdentity:
    id: str
    """16 hexadecimal digits."""
    space: str
    created_ns: int


def is_recording(folder: Path) -> bool:
    """Whether a folder is a recording; RecordingError without permission to look into it."""
    try:
        return (folder / IDENTITY_NAME).is_file()
    except PermissionError:
        error = RecordingError(f"cannot look into {folder}: permission denied")
        error.hint = "recordings are private: run this as the user of the recorder"
        raise error from None


def find_recordings(path: Path | RemotePath) -> list[Path] | list[RemotePath]:
    """The folder itself, or the recordings directly in it, sorted by name."""
    found = _find_remote(path) if isinstance(path, RemotePath) else _find_local(path)
    if found is None:
        error = RecordingError(f"there is no folder {path}")
        is_local = isinstance(path, Path)
        command = "make a recording with `skerry record --to DIR`"
        error.hint = command if is_local else f"copy one there: `skerry record copy DIR {path}`"
        raise error
    if not found:
        error = RecordingError(f"{path} is not a recording and contains none")
        error.hint = f"a recording is a folder with a file {IDENTITY_NAME}"
        raise error
    return found


def _find_local(path: Path) -> list[Path] | None:
    if is_recording(path):
        return [path]
    if not path.is_dir():
        return None
    return sorted(folder for folder in path.iterdir() if is_recording(folder))


def _find_remote(path: RemotePath) -> list[RemotePath] | None:
    with store_errors("cannot look for recordings at", path, RecordingError):
        if (path / IDENTITY_NAME).exists():
            return [path]
        try:
            folders = path.folders()
        except FileNotFoundError:
            return None
        return [folder for folder in folders if (folder / IDENTITY_NAME).exists()]


def reject_parent_of_recordings(path: RemotePath, name: str) -> None:
    """RecordingError if a remote path contains recordings: a recording there would hide them.

    `name` is a possible name of the new recording among them.
    """
    found = _find_remote(path)
    if found and found != [path]:
        error = RecordingError(f"{path} contains recordings, such as {found[0].name}")
        error.hint = f"copy it to a remote path of its own: {path / name}"
        raise error


def reject_recording(path: RemotePath) -> None:
    """RecordingError if a remote path is a recording: recordings in it would not be found."""
    if _find_remote(path) == [path]:
        error = RecordingError(f"{path} is a recording itself, which would hide those in it")
        error.hint = "copy the recordings to another remote path"
        raise error


def create_identity(folder: Path, *, space: str) -> RecordingIdentity:
    """Make a folder a new recording, or continue the recording that it is already."""
    make_folder(folder)
    if is_recording(folder):
        known = read_identity(folder)
        if known.space != space:
            error = RecordingError(f"{folder} is a recording of {known.space}, not of {space}")
            error.hint = "record each space to a folder of its own"
            raise error
        return known
    reject_foreign_folder(folder)
    identity = RecordingIdentity(id=secrets.token_hex(8), space=space, created_ns=wall_ns())
    facts = {
        "format": FORMAT_VERSION,
        "id": identity.id,
        "space": identity.space,
        "created_ns": identity.created_ns,
    }
    content = (json.dumps(facts, indent=2) + "\n").encode()
    replace_files({folder / IDENTITY_NAME: content}, mode=PRIVATE_FILE)
    sync_folder(folder)
    return identity


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, durable against a power cut; new folders are private."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing or [folder]):
        path.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """An `opener` for `open` that creates files only their owner can read."""
    return os.open(path, flags, PRIVATE_FILE)


def read_identity(folder: Path | RemotePath) -> RecordingIdentity:
    """The identity of a recording; RecordingError if it is missing or invalid."""
    path = folder / IDENTITY_NAME
    try:
        facts: Any = json.loads(_identity_text(path))
        version, name = facts["format"], facts["id"]
        space, created_ns = facts["space"], facts["created_ns"]
    except (OSError, ValueError, KeyError, TypeError, LimitExceeded) as error:
        raise _invalid_identity(path, f"{type(error).__name__}: {error}") from error
    if version != FORMAT_VERSION:
        newer = RecordingError(
            f"{folder} has format {version}; this version reads {FORMAT_VERSION}"
        )
        newer.hint = "use the version of skerry that made it, or a newer one"
        raise newer
    if not isinstance(name, str) or not re.fullmatch("[0-9a-f]{16}", name):
        raise _invalid_identity(path, f"{name!r} is not an id of 16 hexadecimal digits")
    if not isinstance(space, str) or type(created_ns) is not int:
        raise _invalid_identity(path, "space or created_ns is missing")
    return RecordingIdentity(id=name, space=space, created_ns=created_ns)


def segment_name(recording: str, number: int) -> str:
    """The file name of a sealed segment."""
    return f"{recording[:8]}-{number:010d}{SEALED_SUFFIX}"


def segment_number(recording: str, name: str) -> int:
    """The number of a segment of this recording; -1 for a segment of another one."""
    match = _NAME.fullmatch(name)
    return int(match[2]) if match is not None and match[1] == recording[:8] else -1


def sealed_names(folder: Path) -> list[str]:
    """Names of the files that are named like sealed segments, sorted."""
    return sorted(path.name for path in folder.iterdir() if _is_segment(path.name, SEALED_SUFFIX))


def open_names(folder: Path) -> list[str]:
    """Names of the segments that are being written or that a crash left, sorted."""
    return sorted(path.name for path in folder.iterdir() if _is_segment(path.name, OPEN_SUFFIX))


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of the writer; RecordingError if another recorder holds it."""
    import fcntl  # not on every platform

    until_ns = monotonic_ns() + _LOCK_WAIT_NS
    with open(folder / _LOCK_NAME, "a+b", opener=open_private) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # The holder may only be checking whether a recorder runs.
                if monotonic_ns() < until_ns:
                    sleep(_LOCK_RETRY_S)
                    continue
                error = RecordingError(f"another recorder writes to {folder}")
                error.hint = "stop that recorder, or record to another folder"
                raise error from None
        yield


def hold_reserve(folder: Path) -> None:
    """Reserve disk space for the end of the recording; no effect on a full disk."""
    with suppress(OSError), open(folder / _RESERVE_NAME, "wb", opener=open_private) as file:
        # Also if a crash left the file: it may be too small.
        os.posix_fallocate(file.fileno(), 0, RECORDING_RESERVE_BYTES)


def release_reserve(folder: Path) -> None:
    """Release the reserved disk space."""
    with suppress(OSError):
        (folder / _RESERVE_NAME).unlink(missing_ok=True)


def is_being_written(folder: Path) -> bool:
    """Whether a recorder writes to the folder now."""
    import fcntl  # not on every platform

    try:
        # A shared lock: two processes that check at the same time do not block each other.
        with (folder / _LOCK_NAME).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False  # no recorder has run here, or the file is not readable


def sync_folder(folder: Path) -> None:
    """Make created, renamed and removed names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _identity_text(path: Path | RemotePath) -> bytes:
    if isinstance(path, Path):
        return read_whole(path, bytes_max=_IDENTITY_BYTES_MAX)
    with store_errors("cannot read", path, RecordingError):
        return path.read(0, _IDENTITY_BYTES_MAX)


def _invalid_identity(path: Path | RemotePath, detail: str) -> RecordingError:
    error = RecordingError(f"{path} does not identify a recording: {detail}")
    error.hint = (
        "restore the file from a copy, or copy the segments into the folder of another recording"
        " of the space"
    )
    return error


def reject_foreign_folder(folder: Path) -> None:
    """RecordingError for a folder that is not a recording and contains other files."""
    for path in folder.iterdir() if not is_recording(folder) else ():
        is_ours = _NAME.fullmatch(path.name) or path.name in _OUR_NAMES
        if not is_ours and not path.name.startswith("."):
            error = RecordingError(f"{folder} is not a recording and not empty: it has {path.name}")
            error.hint = "name a folder that is empty or does not exist yet"
            raise error


def _is_segment(name: str, suffix: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and name.endswith(suffix)
