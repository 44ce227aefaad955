"""The manifest of a recording at a remote path: read when it changed, and never written.

An object store has no locks and cannot append to a file, so a copy of a recording replaces the
whole manifest. As long as the new file begins like the old one, only the rest is read. A file with
fewer lines is ignored: of two copies that run at once, the older may finish last, and the next copy
puts that right.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from io import BytesIO
from typing import Final

from skerry.errors import RecordingError
from skerry.recording.index import Segment
from skerry.recording.manifest_lines import ManifestLines
from skerry.runtime.recordings.files.manifest import MANIFEST_NAME, ManifestReader
from skerry.runtime.recordings.files.remote_paths import RemotePath, Version, store_errors

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
"""A file that changes while it is read is read again. Copies are made less often than that."""
_STAT_COUNT_MAX: Final = 16
"""For more files than this the folder is listed, a thousand entries per request, instead of
requesting the size of each file."""


class RemoteManifest(ManifestReader):
    def __init__(self, folder: RemotePath) -> None:
        super().__init__(ManifestLines(str(folder), has_batches=True))
        self.path = folder / MANIFEST_NAME
        self._folder = folder
        self._version: Version | None = None
        self._complete_names: set[str] = set()
        """Segments whose files were found in full size."""
        self._has_warned = False

    @property
    def exists(self) -> bool:
        """Whether the file existed at the last refresh."""
        return self._version is not None

    def refresh(self) -> None:
        with store_errors("cannot read", self.path, RecordingError):
            for _ in range(_ATTEMPTS):
                version = self.path.version()
                if version == self._version:
                    return
                lines, rest = self._read(version)
                # If the file changed meanwhile, parts of two manifests may have been read.
                if self.path.version() == version:
                    lines.read(BytesIO(rest))
                    if lines.count < self.lines.count:
                        self._warn()
                    else:
                        self._continue_with(lines, self.path)
                    self._version = version
                    return
        error = RecordingError(f"{self.path} changes faster than it can be read")
        error.hint = "copy a recording at most once a second"
        raise error

    def absent(self) -> list[Segment]:
        """Segments in the manifest whose files are missing or not complete yet."""
        unseen = [s for s in self.lines.segments.values() if s.name not in self._complete_names]
        if not unseen:
            return []
        is_few = len(unseen) <= _STAT_COUNT_MAX
        sizes = self._sizes([segment.name for segment in unseen] if is_few else None)
        missing = [s for s in unseen if sizes.get(s.name, -1) < s.byte_count]
        self._complete_names |= {s.name for s in unseen} - {s.name for s in missing}
        return missing

    def _warn(self) -> None:
        if not self._has_warned:
            log.warning("%s has fewer lines than before; the next copy will fix it", self.path)
        self._has_warned = True

    def _sizes(self, names: Collection[str] | None) -> dict[str, int]:
        with store_errors("cannot read", self._folder, RecordingError):
            return self._folder.sizes(None if names is None else list(names))

    def _read(self, version: Version | None) -> tuple[ManifestLines, bytes]:
        """The lines that the present file begins with, and the bytes that follow them."""
        old = self.lines
        size = 0 if version is None else version[0]
        try:
            if size >= old.byte_count and self.path.read(0, len(old.head)) == old.head:
                return old, self.path.read(old.byte_count, size)
            return old.empty(), self.path.read(0, size)
        except FileNotFoundError:
            return old.empty(), b""
