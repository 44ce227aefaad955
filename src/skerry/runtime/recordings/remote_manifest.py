"""The manifest of a recording that lies elsewhere: read where it changed, and never written.

A store has no locks and cannot add a line to a file, so there is nobody who does. Whoever copies
the recording puts another file in the place of the old one; it is read from where the old one
ended, as long as it begins like it. One with fewer lines is left aside: two who copy at once may
put the older one last, and the next copy mends that.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from skerry.errors import RecordingError
from skerry.recording.index import Segment
from skerry.runtime.recordings.manifest_facts import MANIFEST_NAME, ManifestFacts
from skerry.runtime.recordings.manifest_lines import Lines
from skerry.runtime.recordings.remote_paths import RemotePath, Version, told

__all__ = ["RemoteManifest"]

log = logging.getLogger(__name__)

_TRIES: Final = 5
"""A file that changes while it is read is read again; who copies does not do so all the time."""
_ASKED_COUNT_MAX: Final = 16
"""Of more files than this the folder is listed, a thousand at a time, instead of each asked for."""


class RemoteManifest(ManifestFacts):
    """What the manifest at a place says."""

    def __init__(self, place: RemotePath) -> None:
        super().__init__(Lines(str(place), has_batches=True))
        self.path = place / MANIFEST_NAME
        self._place = place
        self._version: Version | None = None
        self._there: set[str] = set()
        """Segments whose files were seen, whole."""
        self._has_complained = False

    @property
    def is_there(self) -> bool:
        """Whether there was a file at the last look."""
        return self._version is not None

    def refresh(self) -> None:
        with told("cannot read", self.path, RecordingError):
            for _ in range(_TRIES):
                version = self.path.version()
                if version == self._version:
                    return
                lines, rest = self._read(version)
                # Parts of two files make no manifest.
                if self.path.version() == version:
                    lines.read_rest(rest)
                    if lines.count < self.line_count:
                        self._complain()
                    else:
                        self._go_on_with(lines, self.path)
                    self._version = version
                    return
        error = RecordingError(f"{self.path} changes faster than it can be read")
        error.hint = "copy a recording no more often than once a second"
        raise error

    def absent(self) -> list[Segment]:
        """Segments of the lines that were read whose files are not there, or not whole yet."""
        unseen = [s for s in self.segments.values() if s.name not in self._there]
        if not unseen:
            return []
        is_few = len(unseen) <= _ASKED_COUNT_MAX
        sizes = self._sizes([segment.name for segment in unseen] if is_few else None)
        missing = [s for s in unseen if sizes.get(s.name, -1) < s.byte_count]
        self._there |= {s.name for s in unseen} - {s.name for s in missing}
        return missing

    def _complain(self) -> None:
        if not self._has_complained:
            log.warning("%s has fewer lines than before; the next copy mends it", self.path)
        self._has_complained = True

    def _sizes(self, names: Collection[str] | None) -> dict[str, int]:
        with told("cannot read", self._place, RecordingError):
            return self._place.sizes(None if names is None else list(names))

    def _read(self, version: Version | None) -> tuple[Lines, bytes]:
        """The lines that the file that is there goes on with, and what it has after them."""
        old = self._lines
        size = 0 if version is None else version[0]
        try:
            if size >= old.offset and self.path.read(0, len(old.head)) == old.head:
                return old, self.path.read(old.offset, size)
            return old.fresh(), self.path.read(0, size)
        except FileNotFoundError:
            return old.fresh(), b""
