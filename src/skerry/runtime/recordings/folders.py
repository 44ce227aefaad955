"""The folder of a recording: whose it is, what lies in it, and who may write.

recording.json              identity; written once
manifest.jsonl              what is sealed, dropped and repaired, in order
manifest.jsonl.new          a shorter one that is being written
<id>-<number>.arrow         sealed segments
<id>-<number>.arrow.open    the one that is being written
followers/                  a file of each who follows
recorder.lock               held by who writes
recorder.reserve            room on the disk for the end of the recording, while one writes

A recording has all that was published, regardless of the permissions to subscribe to it. So the
folders and files that are made here are private to their owner; an existing folder keeps its mode.
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
from skerry.runtime.recordings.remote_paths import RemotePath, told
from skerry.runtime.whole_files import read_whole, replace_files

__all__ = [
    "IDENTITY_NAME",
    "OPEN_SUFFIX",
    "PRIVATE_FILE",
    "RECORDING_RESERVE_BYTES",
    "SEALED_SUFFIX",
    "RecordingIdentity",
    "create_identity",
    "find_recordings",
    "hold_reserve",
    "is_being_written",
    "is_recording",
    "make_folder",
    "open_names",
    "open_private",
    "read_identity",
    "refuse_holder",
    "refuse_recording",
    "refuse_strange",
    "release_reserve",
    "sealed_names",
    "segment_name",
    "segment_number",
    "sync_folder",
    "writer_lock",
]

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
_LOOKED_AT_NS: Final = 200_000_000
"""How long a look at the lock may take, at the most."""
_LOOK_AGAIN_S: Final = 0.01
_NAME: Final = re.compile(r"([\w-]{1,40})-(\d{10})\.arrow(\.open)?")
_IDENTITY_BYTES_MAX: Final = 65536
_RESERVE_NAME: Final = "recorder.reserve"
_OUR_NAMES: Final = frozenset(
    {"followers", "lost+found", "manifest.jsonl", "manifest.jsonl.new", _LOCK_NAME, _RESERVE_NAME}
)
"""What a folder may have before it is one of a recording; the root of a disk has `lost+found`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingIdentity:
    """What never changes about a recording."""

    id: str
    """16 hexadecimal digits."""
    space: str
    created_ns: int


def is_recording(folder: Path) -> bool:
    """Whether a folder is one of a recording; RecordingError if the user may not know."""
    try:
        return (folder / IDENTITY_NAME).is_file()
    except PermissionError:
        error = RecordingError(f"cannot look into {folder}: the permission is missing")
        error.hint = "recordings are private: run this as the user of the recorder"
        raise error from None


def find_recordings(path: Path | RemotePath) -> list[Path] | list[RemotePath]:
    """The folder itself, or those directly in it that are recordings, by name."""
    found = _found_at(path) if isinstance(path, RemotePath) else _found_in(path)
    if found is None:
        error = RecordingError(f"there is no folder {path}")
        is_here = isinstance(path, Path)
        command = "make a recording with `skerry record --to DIR`"
        error.hint = command if is_here else f"copy one there: `skerry record copy DIR {path}`"
        raise error
    if not found:
        error = RecordingError(f"{path} is no recording, and there is none in it")
        error.hint = f"a recording is a folder with a file {IDENTITY_NAME}"
        raise error
    return found


def _found_in(path: Path) -> list[Path] | None:
    if is_recording(path):
        return [path]
    if not path.is_dir():
        return None
    return sorted(folder for folder in path.iterdir() if is_recording(folder))


def _found_at(place: RemotePath) -> list[RemotePath] | None:
    with told("cannot look for recordings at", place, RecordingError):
        if (place / IDENTITY_NAME).exists():
            return [place]
        try:
            folders = place.folders()
        except FileNotFoundError:
            return None
        return [folder for folder in folders if (folder / IDENTITY_NAME).exists()]


def refuse_holder(place: RemotePath, name: str) -> None:
    """RecordingError for a place that has recordings in it: one of its own would hide them.

    `name` is what the new recording could be called among them.
    """
    found = _found_at(place)
    if found and found != [place]:
        error = RecordingError(f"{place} has recordings in it, as {found[0].name}")
        error.hint = f"name a place of its own: {place / name}"
        raise error


def refuse_recording(place: RemotePath) -> None:
    """RecordingError for a place that is a recording: those in it would not be found."""
    if _found_at(place) == [place]:
        error = RecordingError(f"{place} is a recording itself, which would hide those in it")
        error.hint = "name another place for the recordings"
        raise error


def create_identity(folder: Path, *, space: str) -> RecordingIdentity:
    """Make a folder the one of a new recording, or go on with the one that it is already."""
    make_folder(folder)
    if is_recording(folder):
        known = read_identity(folder)
        if known.space != space:
            error = RecordingError(f"{folder} is a recording of {known.space}, not of {space}")
            error.hint = "record each space to a folder of its own"
            raise error
        return known
    refuse_strange(folder)
    identity = RecordingIdentity(id=secrets.token_hex(8), space=space, created_ns=wall_ns())
    plain = {
        "format": FORMAT_VERSION,
        "id": identity.id,
        "space": identity.space,
        "created_ns": identity.created_ns,
    }
    content = (json.dumps(plain, indent=2) + "\n").encode()
    replace_files({folder / IDENTITY_NAME: content}, mode=PRIVATE_FILE)
    sync_folder(folder)
    return identity


def make_folder(folder: Path) -> None:
    """Make a folder and its parents durably, so that a power cut does not remove it.

    All folders that did not exist become private.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing or [folder]):
        path.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """An `opener` for `open`: a file that is made is for its owner alone."""
    return os.open(path, flags, PRIVATE_FILE)


def read_identity(folder: Path | RemotePath) -> RecordingIdentity:
    """Whose recording a folder is; RecordingError if that cannot be told."""
    path = folder / IDENTITY_NAME
    try:
        plain: Any = json.loads(_identity_text(path))
        version, name = plain["format"], plain["id"]
        space, created_ns = plain["space"], plain["created_ns"]
    except (OSError, ValueError, KeyError, TypeError, LimitExceeded) as error:
        raise _unidentified(path, f"{type(error).__name__}: {error}") from error
    if version != FORMAT_VERSION:
        newer = RecordingError(
            f"{folder} has format {version}; this version reads {FORMAT_VERSION}"
        )
        newer.hint = "use the version of skerry that made it, or a newer one"
        raise newer
    if not isinstance(name, str) or not re.fullmatch("[0-9a-f]{16}", name):
        raise _unidentified(path, f"{name!r} is no id")
    if not isinstance(space, str) or type(created_ns) is not int:
        raise _unidentified(path, "its space and its beginning are missing")
    return RecordingIdentity(id=name, space=space, created_ns=created_ns)


def segment_name(recording: str, number: int) -> str:
    """The file of a sealed segment."""
    return f"{recording[:8]}-{number:010d}{SEALED_SUFFIX}"


def segment_number(recording: str, name: str) -> int:
    """The number of a segment of this recording; -1 if it is one of another."""
    match = _NAME.fullmatch(name)
    return int(match[2]) if match is not None and match[1] == recording[:8] else -1


def sealed_names(folder: Path) -> list[str]:
    """Files that are, or look like, sealed segments, by name."""
    return sorted(path.name for path in folder.iterdir() if _is_segment(path.name, SEALED_SUFFIX))


def open_names(folder: Path) -> list[str]:
    """Files of segments that are being written, or that a crash left, by name."""
    return sorted(path.name for path in folder.iterdir() if _is_segment(path.name, OPEN_SUFFIX))


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Be the only one who writes; RecordingError if another does."""
    import fcntl  # not everywhere

    until_ns = monotonic_ns() + _LOOKED_AT_NS
    with open(folder / _LOCK_NAME, "a+b", opener=open_private) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # Somebody may just be looking whether there is a recorder.
                if monotonic_ns() < until_ns:
                    sleep(_LOOK_AGAIN_S)
                    continue
                error = RecordingError(f"another recorder writes to {folder}")
                error.hint = "stop that one, or record to another folder"
                raise error from None
        yield


def hold_reserve(folder: Path) -> None:
    """Reserve room on the disk for the end of the recording; no effect on a full disk."""
    with suppress(OSError), open(folder / _RESERVE_NAME, "wb", opener=open_private) as file:
        # Also if a crash left a file: it may be too small.
        os.posix_fallocate(file.fileno(), 0, RECORDING_RESERVE_BYTES)


def release_reserve(folder: Path) -> None:
    """Release the reserved room."""
    with suppress(OSError):
        (folder / _RESERVE_NAME).unlink(missing_ok=True)


def is_being_written(folder: Path) -> bool:
    """Whether a recorder writes to it now."""
    import fcntl  # not everywhere

    try:
        # Locked for reading only: who looks at the same time is not taken for a recorder.
        with (folder / _LOCK_NAME).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False  # no recorder was here, or who looks may not read it


def sync_folder(folder: Path) -> None:
    """Let names that were given or taken in a folder be on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _identity_text(path: Path | RemotePath) -> bytes:
    if isinstance(path, Path):
        return read_whole(path, bytes_max=_IDENTITY_BYTES_MAX)
    with told("cannot read", path, RecordingError):
        return path.read(0, _IDENTITY_BYTES_MAX)


def _unidentified(path: Path | RemotePath, detail: str) -> RecordingError:
    error = RecordingError(f"{path} does not tell what recording this is: {detail}")
    error.hint = (
        "put a copy of the file in its place; or copy the segments into the folder of another"
        " recording of the space"
    )
    return error


def refuse_strange(folder: Path) -> None:
    """RecordingError for a folder that is no recording and has other things in it."""
    for path in folder.iterdir() if not is_recording(folder) else ():
        is_ours = _NAME.fullmatch(path.name) or path.name in _OUR_NAMES
        if not is_ours and not path.name.startswith("."):
            error = RecordingError(f"{folder} is no recording and not empty: {path.name} is in it")
            error.hint = "name a folder that is empty or not there yet"
            raise error


def _is_segment(name: str, suffix: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and name.endswith(suffix)
