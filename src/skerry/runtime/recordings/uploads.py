"""Recordings for others to read: what is sealed, copied to an object store or a file system.

A sealed segment never changes, so it is copied once. The manifest goes after the segments, as it
was before the first of them went: all it names is there when it comes, and who reads meanwhile sees
the one before. At the first time the identity goes last: a place is no recording before it is one.
A copy that was interrupted is begun anew and finds what it did.

What is lost of a segment is lost in the copy, too: zeros take its place, which fit no checksum, and
so it is a gap to whoever reads. Else all that comes after it would be waited for in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Final

from skerry.errors import RecordingError
from skerry.limits import RECORDING_SEGMENT_BYTES_MAX
from skerry.recording.index import Segment
from skerry.runtime.recordings.folders import IDENTITY_NAME, read_identity, refuse_holder
from skerry.runtime.recordings.manifest import MANIFEST_NAME
from skerry.runtime.recordings.manifest_copies import (
    following,
    lines_of,
    sealed_line,
    whole_lines,
)
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.remote_paths import RemotePath, told

__all__ = ["Uploaded", "upload_recording"]

_PIECE_BYTES: Final = 1024 * 1024
_ROUNDS: Final = 4
"""How often it is begun anew since a segment was dropped meanwhile. A recorder that drops faster
than is copied would never let it end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """What was copied."""

    segments: int
    byte_count: int
    """Of the segments that were not there yet."""
    skipped: int
    """Segments that were there."""
    warnings: tuple[str, ...] = ()
    """What is not as it should be in the folder."""


def upload_recording(
    folder: Path, place: RemotePath, *, on_progress: Callable[[int, int], None] | None = None
) -> Uploaded:
    """Copy what is sealed of a recording to a place, as far as it is not there.

    RecordingError if that place has another recording, or others in it, or does not take it.
    """
    with told("cannot copy to", place, RecordingError):
        return _Upload(folder, place, on_progress).run()


class _Upload:
    def __init__(
        self, folder: Path, place: RemotePath, on_progress: Callable[[int, int], None] | None
    ) -> None:
        self._folder = folder
        self._place = place
        self._on_progress = on_progress
        self._copied: list[int] = []
        """How many bytes each segment had that was copied."""
        self._warnings: dict[str, None] = {}
        """Each once, in their order."""

    def run(self) -> Uploaded:
        if not self._is_known():
            refuse_holder(self._place, self._folder.absolute().name)
        for left in reversed(range(_ROUNDS)):
            manifest, segments = self._snapshot()
            there = self._sizes()
            missing = [s for s in segments if there.get(s.name) != s.byte_count]
            if self._copy_all(missing, is_last=left == 0):
                break
        self._publish(manifest)
        return Uploaded(
            segments=len(self._copied),
            byte_count=sum(self._copied),
            skipped=len(segments) - len(missing),
            warnings=tuple(self._warnings),
        )

    def _is_known(self) -> bool:
        """Whether the place has this recording already; RecordingError if it has another."""
        if not (self._place / IDENTITY_NAME).exists():
            return False
        ours, theirs = read_identity(self._folder), read_identity(self._place)
        if ours.id != theirs.id:
            error = RecordingError(f"{self._place} has another recording: {theirs.id}")
            error.hint = "copy each recording to a place of its own"
            raise error
        return True

    def _snapshot(self) -> tuple[bytes, list[Segment]]:
        """The manifest as it is now, and the segments that it names."""
        with _reading(self._folder):
            recording = Recording(self._folder)
            # Who looks gives a line to segments that were copied into the folder, if it may.
            found = recording.segments()
            path = self._folder / MANIFEST_NAME
            manifest = whole_lines(path.read_bytes()) if path.exists() else b""
        lines = lines_of(manifest)
        known = lines.segments.keys() | lines.dropped.keys()
        strays = [s for s in found if s.line >= recording.line_count and s.name not in known]
        manifest += b"".join(map(sealed_line, strays))
        for name in recording.unindexed:
            self._warn(f"{name} is no segment, or is still being copied; it was left out")
        named = (replace(s, folder=self._folder) for s in lines.segments.values())
        return manifest, [*named, *strays]

    def _sizes(self) -> dict[str, int]:
        try:
            return self._place.sizes()
        except FileNotFoundError:
            return {}

    def _copy_all(self, missing: list[Segment], *, is_last: bool) -> bool:
        """Copy segments; False if one was dropped meanwhile, which the manifest then says."""
        total = sum(segment.byte_count for segment in missing)
        done = 0
        for segment in missing:
            _check_size(segment)
            file = self._opened(segment)
            if file is None:
                if not is_last and self._is_dropped(segment):
                    return False
                file = BytesIO()
            with file:
                self._copy(segment, file)
            done += segment.byte_count
            if self._on_progress is not None:
                self._on_progress(done, total)
        return True

    def _opened(self, segment: Segment) -> IO[bytes] | None:
        """The file of a segment, or None if there is none."""
        with _reading(segment.path), suppress(FileNotFoundError):
            return segment.path.open("rb")
        return None

    def _copy(self, segment: Segment, file: IO[bytes]) -> None:
        target = self._place / segment.name
        size = segment.byte_count
        with target.files.open_output_stream(target.path) as stream:
            copied = 0
            while piece := _read(segment.path, file, min(_PIECE_BYTES, size - copied)):
                stream.write(piece)
                copied += len(piece)
            for start in range(copied, size, _PIECE_BYTES):
                stream.write(bytes(min(_PIECE_BYTES, size - start)))
        self._copied.append(copied)
        if copied < size:
            what = f"has {copied} bytes, and not {size}" if copied else "is gone, or empty"
            self._warn(f"{segment.name} {what}; zeros were copied in place of what is missing")
        elif file.read(1):
            self._warn(f"{segment.name} has more than its {size} bytes; the rest was left out")

    def _is_dropped(self, segment: Segment) -> bool:
        _, segments = self._snapshot()
        return all(other.name != segment.name for other in segments)

    def _publish(self, manifest: bytes) -> None:
        target = self._place / MANIFEST_NAME
        # Looked for again, since another copy may have been faster.
        if not self._is_known():
            target.write(manifest)
            (self._place / IDENTITY_NAME).write((self._folder / IDENTITY_NAME).read_bytes())
            return
        try:
            theirs = target.read()
        except FileNotFoundError:
            theirs = b""
        new = following(whole_lines(theirs), manifest)
        if new != theirs:
            target.write(new)

    def _warn(self, text: str) -> None:
        self._warnings.setdefault(text)


def _check_size(segment: Segment) -> None:
    """RecordingError for a size that no segment has: so many zeros would be copied."""
    if segment.byte_count > 2 * RECORDING_SEGMENT_BYTES_MAX:
        error = RecordingError(
            f"the manifest says that {segment.path} has {segment.byte_count} bytes, and none has"
        )
        error.hint = "remove that line from the manifest; the segment gets one of its own"
        raise error


def _read(path: Path, file: IO[bytes], size: int) -> bytes:
    with _reading(path):
        return file.read(size)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Inside, a failure of the disk becomes one: it would be taken for one of the store."""
    try:
        yield
    except OSError as error:
        unreadable = RecordingError(f"cannot read {path}: {error.strerror or error}")
        unreadable.hint = "look at the folder with `skerry record verify DIR`"
        raise unreadable from error
