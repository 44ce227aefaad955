"""Recordings for others to read: what is sealed, copied to an object store or a file system.

A sealed segment never changes, so it is copied once. The manifest goes last, as it was before the
first segment went: all it names is there when it comes, and who reads meanwhile sees the one
before. A copy that was interrupted is begun anew and finds what it did.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skerry.errors import RecordingError
from skerry.recording.index import Segment
from skerry.runtime.recordings.folders import IDENTITY_NAME, read_identity
from skerry.runtime.recordings.manifest import MANIFEST_NAME
from skerry.runtime.recordings.manifest_lines import Lines
from skerry.runtime.recordings.places import Place, told
from skerry.runtime.recordings.reader import Recording

__all__ = ["Uploaded", "upload_recording"]

_PIECE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """What was copied."""

    segments: int
    byte_count: int
    """Of the segments that were not there yet."""
    skipped: int
    """Segments that were there."""


def upload_recording(
    folder: Path, place: Place, *, on_progress: Callable[[int, int], None] | None = None
) -> Uploaded:
    """Copy what is sealed of a recording to a place, as far as it is not there.

    RecordingError if that place has another recording, or does not take it.
    """
    with told("cannot copy to", place, RecordingError):
        return _Upload(folder, place, on_progress).run()


class _Upload:
    def __init__(
        self, folder: Path, place: Place, on_progress: Callable[[int, int], None] | None
    ) -> None:
        self._folder = folder
        self._place = place
        self._on_progress = on_progress
        self._copied: list[Segment] = []

    def run(self) -> Uploaded:
        is_known = self._check_identity()
        while True:
            manifest, segments = self._snapshot()
            there = self._sizes()
            missing = [s for s in segments if there.get(s.name) != s.byte_count]
            if self._copy_all(missing):
                break
        if not is_known:
            (self._place / IDENTITY_NAME).write((self._folder / IDENTITY_NAME).read_bytes())
        (self._place / MANIFEST_NAME).write(manifest)
        return Uploaded(
            segments=len(self._copied),
            byte_count=sum(segment.byte_count for segment in self._copied),
            skipped=len(segments) - len(missing),
        )

    def _check_identity(self) -> bool:
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
        # Who looks gives a line to segments that were copied into the folder.
        Recording(self._folder).segments()
        path = self._folder / MANIFEST_NAME
        data = path.read_bytes() if path.exists() else b""
        manifest = data[: data.rfind(b"\n") + 1]
        lines = Lines(self._folder, has_batches=False)
        lines.read_rest(manifest)
        return manifest, list(lines.segments.values())

    def _sizes(self) -> dict[str, int]:
        try:
            return self._place.sizes()
        except FileNotFoundError:
            return {}

    def _copy_all(self, missing: list[Segment]) -> bool:
        """Copy segments; False if one was dropped meanwhile, which the manifest then says."""
        total = sum(segment.byte_count for segment in missing)
        done = 0
        for segment in missing:
            if not segment.path.exists():
                self._require_dropped(segment)
                return False
            self._copy(segment)
            done += segment.byte_count
            if self._on_progress is not None:
                self._on_progress(done, total)
        return True

    def _copy(self, segment: Segment) -> None:
        target = self._place / segment.name
        with (
            segment.path.open("rb") as file,
            target.files.open_output_stream(target.path) as stream,
        ):
            shutil.copyfileobj(file, stream, _PIECE_BYTES)
        self._copied.append(segment)

    def _require_dropped(self, segment: Segment) -> None:
        _, segments = self._snapshot()
        if any(other.name == segment.name for other in segments):
            error = RecordingError(f"{segment.path} is gone, and its manifest names it")
            error.hint = "look at the folder with `skerry record verify DIR`"
            raise error
