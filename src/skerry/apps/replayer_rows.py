"""Recorded rows as updates in their order, from a moment on, with what was there by then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from skerry.codec.envelope import GAP, REMOVE, SNAPSHOT, UPDATE, Update
from skerry.codec.pieces import merge, split_whole
from skerry.errors import CodecError
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.recording.updates import is_description
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.updates import read_all_types, read_updates
from skerry.schema.model import StructType

__all__ = ["ReplayWishes", "RowReader", "state_at"]


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
        self._wishes = wishes
        self.types: dict[int, StructType] = read_all_types(recordings)
        """Definitions by fingerprint."""

    def __iter__(self) -> Iterator[Update]:
        """All rows that are asked for, and gaps; descriptions are left out."""
        wishes = self._wishes
        begins_late = wishes.from_ns is not None and wishes.has_state
        found = read_updates(
            self._recordings,
            None if begins_late else wishes.from_ns,
            wishes.to_ns,
            wishes.types or None,
            wishes.subjects or None,
        )
        updates = (update for update in found if not is_description(update))
        if begins_late:
            assert wishes.from_ns is not None
            return state_at(updates, self.types, wishes.from_ns)
        return updates


def state_at(
    updates: Iterable[Update], types: dict[int, StructType], from_ns: int
) -> Iterator[Update]:
    """What was there at a moment, as snapshots, and then all updates from then on."""
    objects: dict[tuple[str, bytes], Update] = {}
    has_begun = False
    for update in updates:
        if not has_begun and update.time_ns < from_ns:
            if update.operation != GAP:
                _merge(objects, update, types.get(update.fingerprint))
            continue
        if not has_begun:
            has_begun = True
            yield from objects.values()
            objects.clear()
        if update.time_ns >= from_ns or update.operation == SNAPSHOT:
            yield update
    if not has_begun:
        yield from objects.values()


def _merge(
    objects: dict[tuple[str, bytes], Update], update: Update, type_: StructType | None
) -> None:
    """Note what an update makes of its object."""
    if type_ is None or not type_.flags.cached:
        return
    place = (update.type_name, update.key)
    if update.operation == REMOVE:
        objects.pop(place, None)
        return
    before = objects.get(place)
    payload, present = update.payload, update.present
    if before is not None and update.operation == UPDATE:
        plan = codec_of(class_of(type_)).plan
        try:
            payload = merge(plan, before.payload, update.payload, update.present)
            present = int(split_whole(plan, payload).present)
        except CodecError:
            # Of two definitions that do not go together the later one is what is there.
            payload, present = update.payload, update.present
    objects[place] = update.replace(operation=SNAPSHOT, payload=payload, present=present)
