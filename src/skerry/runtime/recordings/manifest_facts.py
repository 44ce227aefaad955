"""What a manifest says, whoever reads it and wherever it lies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

from skerry.errors import RecordingError
from skerry.recording.index import Segment
from skerry.runtime.recordings.manifest_lines import Forgotten, Lines, Repair
from skerry.runtime.recordings.remote_paths import RemotePath

__all__ = ["MANIFEST_NAME", "ManifestFacts"]

MANIFEST_NAME: Final = "manifest.jsonl"


class ManifestFacts(ABC):
    """What was read of a manifest. `refresh` reads what was added since."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    @abstractmethod
    def refresh(self) -> None:
        """Read the lines that were added; all of them, where another file took its place."""

    @property
    def line_count(self) -> int:
        """One more than the number of the last line."""
        return self._lines.count

    @property
    def segments(self) -> dict[str, Segment]:
        """Those that are there, in the order of their lines."""
        return self._lines.segments

    @property
    def dropped(self) -> dict[str, str]:
        """Why segments are gone, by name; of those that are not forgotten."""
        return self._lines.dropped

    @property
    def gone(self) -> dict[str, Segment]:
        """What their lines said of them but for the batches."""
        return self._lines.gone

    @property
    def forgotten(self) -> Forgotten:
        """What is not known one by one any more."""
        return self._lines.forgotten

    @property
    def repairs(self) -> list[Repair]:
        """What crashes have taken."""
        return self._lines.repairs

    @property
    def unreadable(self) -> list[int]:
        """Lines that say nothing, counted from 0."""
        return self._lines.unreadable

    @property
    def last(self) -> Segment | None:
        """The one of the last line about one that is there, with its batches in any case."""
        return self._lines.last

    def _go_on_with(self, lines: Lines, path: Path | RemotePath) -> None:
        """Take these lines for those that are known; RecordingError if they are fewer."""
        if lines.count < self._lines.count:
            error = RecordingError(f"{path} became shorter; it was changed by hand")
            error.hint = "begin to read anew"
            raise error
        self._lines = lines
