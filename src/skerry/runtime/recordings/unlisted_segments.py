"""Finds segments in a folder that are not in its manifest, and adds lines for them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from skerry.recording.index import Segment
from skerry.runtime.clock import wall_ns
from skerry.runtime.recordings.manifest import Manifest
from skerry.runtime.recordings.repairs import index_file, list_unlisted, unlisted_names

__all__ = ["UnlistedSegments"]

_QUIET_NS: Final = 1_000_000_000
"""Two changes within this time may leave the folder with the same time of change."""


class UnlistedSegments:
    """The segments of a folder that are not in its manifest; searched when the folder changed."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self._listed_ns = -1
        """Time of change of the folder when it was listed; -1 to list it again."""
        self.segments: list[Segment] = []
        """Segments that could not be added because the folder is not writable."""
        self.unindexed: tuple[str, ...] = ()
        """Names of files that are named like segments but are not, or are still being copied."""

    def refresh(self) -> None:
        """Read the lines that were added to the manifest, and list the folder if it changed."""
        changed_ns = self._folder.stat().st_mtime_ns
        self._manifest.refresh()
        if changed_ns == self._listed_ns:
            return
        names = unlisted_names(self._folder, self._manifest)
        if names and os.access(self._folder, os.W_OK):
            # Without permission or disk space, the segments follow the others without a line.
            with suppress(OSError):
                list_unlisted(self._folder, self._manifest)
            # A segment that was sealed meanwhile has its line by now.
            self._manifest.refresh()
            names = unlisted_names(self._folder, self._manifest)
        self.segments = self._indexed(names)
        self.unindexed = tuple(sorted(set(names) - {segment.name for segment in self.segments}))
        # Two changes in quick succession can leave the same time of change. So the folder is listed
        # again until it was quiet for a while, and as long as a segment is being copied.
        is_quiet = wall_ns() - changed_ns > _QUIET_NS and not self.unindexed
        self._listed_ns = changed_ns if is_quiet else -1

    def _indexed(self, names: list[str]) -> list[Segment]:
        first = self._manifest.line_count
        found = (
            index_file(self._folder, name, line=first + number) for number, name in enumerate(names)
        )
        return [segment for segment in found if segment is not None]
