"""Recorded rows as updates in their order, from a moment on, with what was there by then."""

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

__all__ = ["ReplayWishes", "RowReader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWishes:
    """What is played of a recording."""

    from_ns: int | None = None
    """Wall time; what was there by then comes first."""
    to_ns: int | None = None
    """Not included."""
    types: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    """Without either everything is played."""
    has_state: bool = True
    """Whether to begin with what was there; without, the recording is not read before `from_ns`."""


class RowReader:
    """Reads the rows of recordings as updates, again and again; knows the types they are of."""

    def __init__(self, recordings: Sequence[Recording], wishes: ReplayWishes) -> None:
        self._recordings = recordings
        self._has_state = wishes.has_state
        self._selection = selection_of(
            from_ns=wishes.from_ns,
            to_ns=wishes.to_ns,
            types=wishes.types or None,
            subjects=wishes.subjects or None,
        )
        self.types: dict[int, StructType] = read_united_types(recordings)
        """The union of compatible definitions, by which rows are read and described, by the
        fingerprint of each. It includes the union of an object that several definitions updated."""
        self.types |= {fingerprint(type_): type_ for type_ in self.types.values()}

    def __iter__(self) -> Iterator[Update]:
        """All rows that are asked for, and gaps; descriptions are left out."""
        if self._has_state:
            return range_updates(self._recordings, self.types, self._selection)
        found = read_updates(self._recordings, self._selection)
        return (update for update in found if not is_description(update))
