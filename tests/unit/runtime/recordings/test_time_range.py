"""Time ranges of recordings: existing objects first, and clocks that jump."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.codec.envelope import CREATE, GAP, REMOVE, SNAPSHOT, UPDATE, Update
from skerry.objects.typeset import TypeSet
from skerry.recording.gaps import Gap, gap_update
from skerry.recording.selection import selection_of
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.updates import range_updates, read_all_types, updates_in_range
from skerry.schema.fingerprint import fingerprint

UpdateOf = Callable[..., Update]
Shown = list[tuple[int, int]]


@pytest.fixture
def at(update_of: UpdateOf) -> Callable[..., Update]:
    """An update of a vessel at a time, which is its position, too."""

    def make(time: int, operation: int = UPDATE, *, mmsi: int = 1, **facts: Any) -> Update:
        known = {"time_ns": time, "position": time, "sequence": time, **facts}
        return update_of(mmsi, operation=operation, **known)

    return make


@pytest.fixture
def span(types: TypeSet) -> Callable[..., Shown]:
    """Operations and positions of the updates in a range."""
    known = {fingerprint(types.Vessel.descriptor): types.Vessel.descriptor}

    def make(*updates: Update, **limits: Any) -> Shown:
        found = updates_in_range(iter(updates), known, **limits)
        return [(update.operation, update.position) for update in found]

    return make


At = Callable[..., Update]
Span = Callable[..., Shown]


def test_existing_objects_come_first_and_the_end_is_exclusive(at: At, span: Span) -> None:
    updates = [
        at(1, CREATE),
        at(2, CREATE, mmsi=2),
        at(3),
        at(4, REMOVE, mmsi=2),
        at(10),
        at(11),
        at(20),
    ]
    assert span(*updates, from_ns=10, to_ns=20) == [(SNAPSHOT, 3), (UPDATE, 10), (UPDATE, 11)]
    assert span(*updates, from_ns=10) == [(SNAPSHOT, 3), (UPDATE, 10), (UPDATE, 11), (UPDATE, 20)]
    assert span(*updates, to_ns=3) == [(CREATE, 1), (CREATE, 2)]
    assert span(*updates, from_ns=99) == [(SNAPSHOT, 20)], "there is something though nothing comes"
    assert span(from_ns=1) == []


def test_clock_that_is_set_back_does_not_move_updates(at: At, span: Span) -> None:
    updates = [
        at(1, CREATE, time_ns=1),
        at(2, time_ns=12),
        at(3, time_ns=5),
        at(4, time_ns=19),
        at(5, time_ns=25),
        at(6, time_ns=15),
    ]
    found = span(*updates, from_ns=10, to_ns=20)
    assert found == [(SNAPSHOT, 1), (UPDATE, 2), (UPDATE, 3), (UPDATE, 4)]


def test_each_node_has_its_own_clock(at: At, span: Span) -> None:
    updates = [
        at(1, CREATE, node=1, time_ns=10),
        at(2, CREATE, mmsi=2, node=2, time_ns=8),
        at(3, node=1, time_ns=20),
        at(4, mmsi=2, node=2, time_ns=19),
        at(5, mmsi=2, node=2, time_ns=20),
        at(6, mmsi=3, node=3, time_ns=12),
    ]
    found = span(*updates, from_ns=10, to_ns=20)
    assert found == [(CREATE, 1), (CREATE, 2), (UPDATE, 4)], "what is late is a part of the state"


def test_snapshot_rows_are_in_the_range_whatever_their_age(at: At, span: Span) -> None:
    updates = [at(1, SNAPSHOT), at(10), at(2, SNAPSHOT, mmsi=2), at(20)]
    assert span(*updates, from_ns=10, to_ns=20) == [(SNAPSHOT, 1), (UPDATE, 10), (SNAPSHOT, 2)]


def test_messages_before_the_range_are_left_out(at: At, span: Span) -> None:
    message = {"fingerprint": 5, "type_name": "Hail"}
    updates = [at(1, CREATE, **message), at(10, node=1), at(2, CREATE, node=2, **message)]
    assert span(*updates, from_ns=10) == [(UPDATE, 10)]


@pytest.mark.parametrize(
    ("first_ns", "last_ns", "is_in"),
    [(1, 9, False), (1, 10, True), (12, 13, True), (19, 30, True), (20, 30, False), (0, 0, True)],
)
def test_gap_is_in_the_ranges_it_overlaps(
    at: At, span: Span, first_ns: int, last_ns: int, is_in: bool
) -> None:
    gap = gap_update(Gap(count=1, first_ns=first_ns, last_ns=last_ns), space="local")
    found = span(at(1, CREATE), gap, at(15), from_ns=10, to_ns=20)
    assert ((GAP, 0) in found) == is_in


def test_range_of_a_recording_is_read_with_its_types(
    tmp_path: Path, recorded: Callable[..., Recording], at: At
) -> None:
    updates = [at(1, CREATE), at(2, CREATE, mmsi=2), at(10), at(30)]
    recordings = [recorded(tmp_path / "a", updates), recorded(tmp_path / "b", updates)]
    known = read_all_types(recordings)
    selection = selection_of(from_ns=5, to_ns=30, subjects=["/Vessel/1"])
    found = list(range_updates(recordings, known, selection))
    assert [(update.operation, update.position) for update in found] == [
        (SNAPSHOT, 1),
        (UPDATE, 10),
    ]
