"""The updates of a time range, preceded by the objects that existed at its beginning.

The time of an update is the latest that its node had stamped by then. So an update keeps its
position in the order of its node when the clock of the node is set back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from skerry.codec.envelope import GAP, SNAPSHOT, Update
from skerry.recording.gaps import readable_gap
from skerry.recording.seen import SeenUpdates
from skerry.recording.selection import RowSelection
from skerry.recording.states import States, has_state
from skerry.recording.updates import is_description
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.updates import Progress, read_updates
from skerry.schema.model import StructType


def range_updates(
    recordings: Sequence[Recording],
    known: Mapping[int, StructType],
    selection: RowSelection,
    *,
    seen: SeenUpdates | None = None,
    on_progress: Progress | None = None,
) -> Iterator[Update]:
    """Updates and gaps of a selection, preceded by the objects that existed at its beginning.

    `known` has the definitions for reading, by fingerprint. All rows before the end are read.
    """
    chosen = replace(selection, from_ns=None, to_ns=None)
    found = read_updates(recordings, chosen, seen=seen, on_progress=on_progress)
    updates = (update for update in found if not is_description(update))
    return updates_in_range(updates, known, from_ns=selection.from_ns, to_ns=selection.to_ns)


def updates_in_range(
    updates: Iterable[Update],
    known: Mapping[int, StructType],
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
) -> Iterator[Update]:
    """The updates of a time range, from all updates in their order."""
    states = States(known)
    clocks: dict[int, int] = {}
    unfinished: set[int] = set()
    """Nodes that have not reached the end of the range."""
    has_begun = from_ns is None
    for update in updates:
        if update.operation == GAP:
            if _overlaps(update, from_ns, to_ns):
                yield update
            continue
        time_ns = update.time_ns
        if update.operation != SNAPSHOT:
            time_ns = clocks[update.node] = max(time_ns, clocks.get(update.node, time_ns))
            if to_ns is not None and time_ns >= to_ns:
                unfinished.discard(update.node)
                if not unfinished:
                    break
                continue
            unfinished.add(update.node)
        is_early = from_ns is not None and time_ns < from_ns
        if is_early and not has_begun:
            states.apply(update)
            continue
        if not has_begun:
            has_begun = True
            yield from states.take_updates()
        # Clocks of nodes differ, and a snapshot row has the time of the last change. A late update
        # with the state of an object is still part of the objects at the beginning.
        if not is_early or has_state(update, known.get(update.fingerprint)):
            yield update
    yield from states.take_updates()


def _overlaps(update: Update, from_ns: int | None, to_ns: int | None) -> bool:
    """Whether a gap may be in the range; a gap without times may be anywhere."""
    gap = readable_gap(update.payload)
    if not gap.last_ns:
        return True
    is_before = from_ns is not None and gap.last_ns < from_ns
    return not is_before and (to_ns is None or gap.first_ns < to_ns)
