"""Segments in a folder that its manifest does not know: found by looking, and given a line."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from skerry.recording.index import Segment
from skerry.runtime.clock import wall_ns
from skerry.runtime.recordings.manifest import Manifest
from skerry.runtime.recordings.repairs import adopt_strays, index_file, stray_names

__all__ = ["UnlistedSegments"]

_QUIET_NS: Final = 1_000_000_000


class UnlistedSegments:
    """The strays of a folder, looked for when it has changed."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self._listed_ns = -1
        """When the folder had last changed at the last look."""
        self.segments: list[Segment] = []
        """Those that could not be given a line, since one may not write there."""
        self.unindexed: tuple[str, ...] = ()
        """Files that are named like segments and are none, or are still being copied."""

    def look(self) -> None:
        """Read the lines that were added to the manifest, and look for what it does not know."""
        changed_ns = self._folder.stat().st_mtime_ns
        self._manifest.refresh()
        if changed_ns == self._listed_ns:
            return
        names = stray_names(self._folder, self._manifest)
        if names and os.access(self._folder, os.W_OK):
            # Where one may not write after all, or there is no room, they come last as well.
            with suppress(OSError):
                adopt_strays(self._folder, self._manifest)
            # What is sealed from here on has its line when it is looked for next.
            self._manifest.refresh()
            names = stray_names(self._folder, self._manifest)
        self.segments = self._indexed(names)
        self.unindexed = tuple(sorted(set(names) - {segment.name for segment in self.segments}))
        # What changes twice in a moment has the same time after both, so a folder is looked at
        # again until it has been quiet for a while; and one with a half copied segment, too.
        is_quiet = wall_ns() - changed_ns > _QUIET_NS and not self.unindexed
        self._listed_ns = changed_ns if is_quiet else -1

    def _indexed(self, names: list[str]) -> list[Segment]:
        first = self._manifest.line_count
        found = (
            index_file(self._folder, name, line=first + number) for number, name in enumerate(names)
        )
        return [segment for segment in found if segment is not None]
