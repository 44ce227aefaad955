"""Reads rows of recordings as updates in order, with the state at the start of the range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skerry.codec.envelope import Update
from skerry.recording.selection import selection_of
from skerry.recording.updates import is_description
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.time_range import range_updates
from skerry.runtime.recordings.updates import read_united_types, read_updates
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    from_ns: int | None = None
    """Start as wall time; objects that existed then are played first."""
    to_ns: int | None = None
    """End as wall time, exclusive."""
    types: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    """If both are empty, everything is played."""
    has_state: bool = True
    """Whether to begin with the objects that existed at `from_ns`, which reads all rows before."""


class RowReader:
    """Iterates over the updates of recordings, any number of times, and holds their types."""

    def __init__(self, recordings: Sequence[Recording], options: ReplayOptions) -> None:
        self._recordings = recordings
        self._has_state = options.has_state
        self._selection = selection_of(
            from_ns=options.from_ns,
            to_ns=options.to_ns,
            types=options.types or None,
            subjects=options.subjects or None,
        )
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
