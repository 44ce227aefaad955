"""Reads rows of recordings as updates in order, with the state at the start of the range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skerry.codec.envelope import Update
from skerry.recording.selection import RowSelection
from skerry.recording.updates import is_description
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.time_range import range_updates
from skerry.runtime.recordings.updates import read_united_types, read_updates
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import StructType


class RowReader:
    """Iterates over the updates of recordings, any number of times, and holds their types."""

    def __init__(
        self, recordings: Sequence[Recording], selection: RowSelection, *, has_state: bool
    ) -> None:
        """With `has_state`, begin with the objects that existed at the start of the time range,
        which reads all rows before it."""
        self._recordings = recordings
        self._has_state = has_state
        self._selection = selection
        self.types: dict[int, StructType] = read_united_types(recordings)
        """The union of compatible definitions by the fingerprint of each definition, and by its own
        fingerprint, which an object has that was updated with several definitions."""
        self.types |= {fingerprint(type_): type_ for type_ in self.types.values()}

    def __iter__(self) -> Iterator[Update]:
        """The selected rows and gaps, without type descriptions."""
        if self._has_state:
            return range_updates(self._recordings, self.types, self._selection)
        found = read_updates(self._recordings, self._selection)
        return (update for update in found if not is_description(update))
