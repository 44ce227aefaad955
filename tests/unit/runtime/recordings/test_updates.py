"""Updates of recordings, merged in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.codec.envelope import DISTRIBUTOR, GAP, Update
from skerry.recording.seen import SeenUpdates
from skerry.recording.selection import RowSelection, selection_of
from skerry.recording.updates import is_description
from skerry.runtime.recordings.reader import Recording, open_recordings
from skerry.runtime.recordings.updates import (
    read_all_types,
    read_updates,
)

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]


def numbers(updates: Any) -> list[int]:
    return [update.sequence for update in updates if not is_description(update)]


@pytest.fixture
def recording(tmp_path: Path, recorded: Recorded, update_of: UpdateOf) -> Recording:
    updates = [update_of(number) for number in range(1, 41)]
    return recorded(tmp_path / "r", updates, batches_per_segment=2)


def test_updates_are_read_back_unchanged(recording: Recording, update_of: UpdateOf) -> None:
    found = [update for update in read_updates([recording]) if not is_description(update)]
    assert found == [update_of(number) for number in range(1, 41)]


def test_only_selected_updates_are_read(recording: Recording, update_of: UpdateOf) -> None:
    first_ns, stop_ns = update_of(5).time_ns, update_of(8).time_ns
    assert numbers(read_updates([recording], selection_of(from_ns=first_ns, to_ns=stop_ns))) == [
        5,
        6,
        7,
    ]
    assert numbers(read_updates([recording], selection_of(types=["Port"]))) == []
    selection = selection_of(subjects=["/Vessel/7", "/Vessel/39"], types=["Vessel"])
    assert numbers(read_updates([recording], selection)) == [7, 39]


def test_several_recordings_are_merged_by_time(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    for name, first in (("a", 1), ("b", 2)):
        own = [update_of(number, node=first) for number in range(first, 30, 2)]
        recorded(tmp_path / name, own, rows_per_batch=4, batches_per_segment=1)
    assert numbers(read_updates(open_recordings(tmp_path))) == list(range(1, 30))


def test_equal_times_are_ordered_by_node_and_position(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    for name, node in (("a", 7), ("b", 5)):
        own = [update_of(n, node=node, time_ns=1000) for n in (1, 2)]
        recorded(tmp_path / name, own, is_described=False)
    found = [(u.node, u.position) for u in read_updates(open_recordings(tmp_path))]
    assert found == [(5, 1), (5, 2), (7, 1), (7, 2)]


def test_update_that_two_recorders_received_comes_once(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    recorded(tmp_path / "a", [update_of(n) for n in range(1, 21)])
    recorded(tmp_path / "b", [update_of(n) for n in range(11, 31)])
    seen = SeenUpdates()
    found = read_updates(open_recordings(tmp_path), RowSelection(), seen=seen)
    assert numbers(found) == list(range(1, 31))
    assert seen.duplicate_count == 10


def test_multicast_update_that_two_nodes_received_comes_once(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    for name, node in (("a", 1), ("b", 2)):
        own = [update_of(n, node=node, source=DISTRIBUTOR, time_ns=n + node) for n in (10, 20)]
        recorded(tmp_path / name, own, is_described=False)
    found = list(read_updates(open_recordings(tmp_path)))
    assert [(u.node, u.sequence) for u in found] == [(1, 10), (1, 20)]


def test_segments_copied_from_another_recorder_are_merged_too(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    ours = recorded(tmp_path / "a", [update_of(n) for n in range(1, 20, 2)])
    theirs = recorded(tmp_path / "b", [update_of(n, node=5) for n in range(2, 21, 2)])
    for segment in theirs.segments():
        (ours.folder / segment.name).write_bytes(segment.path.read_bytes())
    assert numbers(read_updates([ours])) == list(range(1, 21))


def test_clock_that_jumps_back_does_not_change_the_order_of_a_node(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    hour_ns = 3600 * 1_000_000_000
    own = [
        update_of(n, time_ns=update_of(n).time_ns - (hour_ns if n > 15 else 0))
        for n in range(1, 31)
    ]
    recording = recorded(tmp_path / "a", own, batches_per_segment=1)
    assert numbers(read_updates([recording])) == list(range(1, 31))


def test_damaged_batch_comes_as_a_gap(
    recording: Recording, damaged: Callable[..., None], update_of: UpdateOf
) -> None:
    segment = recording.segments()[0]
    damaged(segment.path, segment.batches[1].offset)
    selected = read_updates([recording], selection_of(types=["Vessel"]))
    found = [u for u in selected if not is_description(u)]
    assert found[0].operation == GAP
    assert numbers(found)[1:] == list(range(11, 41))


def test_progress_ends_with_all_rows(recording: Recording) -> None:
    reported: list[tuple[int, int]] = []
    note = lambda done, total: reported.append((done, total))  # noqa: E731
    list(read_updates([recording], on_progress=note))
    total = sum(segment.rows for segment in recording.segments())
    assert reported[-1] == (total, total)
    reported.clear()
    list(read_updates([recording], selection_of(from_ns=2**62), on_progress=note))
    assert reported[-1] == (total, total)


def test_types_of_all_segments_are_found(recording: Recording) -> None:
    assert [type_.name for type_ in read_all_types([recording]).values()] == ["Vessel"]


def test_no_recording_has_no_updates() -> None:
    assert list(read_updates([])) == []
