"""Copies the sealed segments of a recording to a remote path, for other programs to read.

A sealed segment never changes, so it is copied once. The manifest is read before the first segment
is copied and written after the last one: every segment it names exists by then, and until then
readers see the previous manifest. It is always copied as a whole. The first copy writes the
identity last, so the remote path is not a recording before it is complete. A copy that was
interrupted is repeated and skips what it copied before.

What a segment has lost is lost in the copy, too. Zeros replace it, which match no checksum, so
readers see a gap. Without them, readers would wait for the segment and never reach the later ones.
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
from skerry.recording.manifest_lines import ManifestLines, parse_manifest
from skerry.runtime.recordings.files.folders import (
    IDENTITY_NAME,
    read_identity,
    reject_parent_of_recordings,
)
from skerry.runtime.recordings.files.manifest import MANIFEST_NAME
from skerry.runtime.recordings.files.remote_paths import RemotePath, store_errors
from skerry.runtime.recordings.reader import Recording

_PIECE_BYTES: Final = 1024 * 1024
_ROUNDS: Final = 4
"""How often the copy starts again because a segment was dropped meanwhile. Without a bound, a
recorder that drops segments faster than they are copied would keep it from ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """What a copy transferred."""

    segments: int
    byte_count: int
    """Of the segments that were copied."""
    skipped: int
    """Segments that had been copied before."""
    warnings: tuple[str, ...] = ()
    """Problems found in the folder."""


def upload_recording(
    folder: Path, target: RemotePath, *, on_progress: Callable[[int, int], None] | None = None
) -> Uploaded:
    """Copy the sealed segments of a recording that are missing at a remote path, and its manifest.

    RecordingError if the remote path is another recording, contains recordings, or cannot be
    written.
    """
    with store_errors("cannot copy to", target, RecordingError):
        return _Upload(folder, target, on_progress).run()


class _Upload:
    def __init__(
        self, folder: Path, target: RemotePath, on_progress: Callable[[int, int], None] | None
    ) -> None:
        self._folder = folder
        self._target = target
        self._on_progress = on_progress
        self._copied: list[int] = []
        self._warnings: dict[str, None] = {}
        """An ordered set."""

    def run(self) -> Uploaded:
        if not self._is_known():
            reject_parent_of_recordings(self._target, self._folder.absolute().name)
        for left in reversed(range(_ROUNDS)):
            manifest, segments = self._snapshot()
            sizes = self._sizes()
            missing = [s for s in segments if sizes.get(s.name) != s.byte_count]
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
        """Whether the target is this recording already; RecordingError if it is another one."""
        if not (self._target / IDENTITY_NAME).exists():
            return False
        ours, theirs = read_identity(self._folder), read_identity(self._target)
        if ours.id != theirs.id:
            error = RecordingError(f"{self._target} has another recording: {theirs.id}")
            error.hint = "copy each recording to a remote path of its own"
            raise error
        return True

    def _snapshot(self) -> tuple[bytes, list[Segment]]:
        """The manifest as it is now, and the segments that it names."""
        with _reading(self._folder):
            recording = Recording(self._folder)
            # This adds lines for segments that were copied into the folder, if it is writable.
            found = recording.segments()
            path = self._folder / MANIFEST_NAME
            manifest = path.read_bytes() if path.exists() else b""
        lines = parse_manifest(manifest)
        listed = lines.segments.keys() | lines.dropped.keys()
        for segment in found:
            if segment.line >= recording.lines.count and segment.name not in listed:
                # Its line would have another number once the recorder adds it to the manifest.
                self._warn(
                    f"{segment.name} is not in the manifest, which cannot be written;"
                    " it was left out"
                )
        for name in recording.unindexed:
            self._warn(f"{name} is not a segment, or is still being copied; it was left out")
        segments = [replace(s, folder=self._folder) for s in lines.segments.values()]
        return manifest[: lines.byte_count], segments

    def _sizes(self) -> dict[str, int]:
        try:
            return self._target.sizes()
        except FileNotFoundError:
            return {}

    def _copy_all(self, missing: list[Segment], *, is_last: bool) -> bool:
        """Copy segments; False if one was dropped meanwhile, so that the manifest is outdated."""
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
        """The open file of a segment, or None if it does not exist."""
        with _reading(segment.path), suppress(FileNotFoundError):
            return segment.path.open("rb")
        return None

    def _copy(self, segment: Segment, file: IO[bytes]) -> None:
        target = self._target / segment.name
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
            what = f"has {copied} bytes instead of {size}" if copied else "is missing or empty"
            self._warn(f"{segment.name} {what}; zeros were copied for the missing bytes")
        elif file.read(1):
            self._warn(f"{segment.name} has more than its {size} bytes; the rest was left out")

    def _is_dropped(self, segment: Segment) -> bool:
        _, segments = self._snapshot()
        return all(other.name != segment.name for other in segments)

    def _publish(self, manifest: bytes) -> None:
        target = self._target / MANIFEST_NAME
        # Checked again: another copy may have been faster.
        if not self._is_known():
            target.write(manifest)
            (self._target / IDENTITY_NAME).write((self._folder / IDENTITY_NAME).read_bytes())
            return
        try:
            theirs = target.read()
        except FileNotFoundError:
            theirs = b""
        if theirs == manifest:
            return
        known = parse_manifest(theirs)
        if _continues(known, parse_manifest(manifest)):
            target.write(manifest)
            return
        # A faster copy has written a later state of the folder, unless the folder itself does not
        # continue what was copied before.
        now, _ = self._snapshot()
        if not _continues(known, parse_manifest(now)):
            error = RecordingError(
                f"the manifest of {self._folder} does not continue the one at {self._target}:"
                " it was written again, and numbers the segments in another way"
            )
            error.hint = "copy the recording to another remote path"
            raise error

    def _warn(self, text: str) -> None:
        self._warnings.setdefault(text)


def _continues(before: ManifestLines, now: ManifestLines) -> bool:
    """Whether a reader of the one manifest can continue with the other.

    No line may be missing, and a segment keeps its number unless it was listed again since.
    """
    if (now.count, now.forgotten.times) < (before.count, before.forgotten.times):
        return False
    numbers = _line_numbers(before)
    return all(
        number >= before.count or numbers.get(name, -1) == number
        for name, number in _line_numbers(now).items()
    )


def _line_numbers(lines: ManifestLines) -> dict[str, int]:
    known = (*lines.dropped_segments.values(), *lines.segments.values())
    return {segment.name: segment.line for segment in known}


def _check_size(segment: Segment) -> None:
    """RecordingError for an impossible size: that many zeros would be copied."""
    size_max = 2 * RECORDING_SEGMENT_BYTES_MAX
    if segment.byte_count > size_max:
        error = RecordingError(
            f"the manifest states {segment.byte_count} bytes for {segment.path};"
            f" a segment has at most {size_max}"
        )
        error.hint = "remove that line from the manifest; the segment is then listed again"
        raise error


def _read(path: Path, file: IO[bytes], size: int) -> bytes:
    with _reading(path):
        return file.read(size)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise RecordingError for OSError of the disk, which would be reported as one of the store."""
    try:
        yield
    except OSError as error:
        unreadable = RecordingError(f"cannot read {path}: {error.strerror or error}")
        unreadable.hint = "check the folder with `skerry record verify DIR`"
        raise unreadable from error
