"""New recordings from old ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skerry.codec.envelope import GAP, Update
from skerry.errors import RecordingError
from skerry.recording.updates import is_description
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.recordings.copying import cut_recording, merge_recordings
from skerry.runtime.recordings.reader import Recording, open_recordings, read_types
from skerry.runtime.recordings.updates import read_updates
from skerry.runtime.recordings.verify import verify_recording
from skerry.runtime.recordings.writer import RecordingWriter

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]


def updates_in(folder: Path) -> list[Update]:
    return [u for u in read_updates([Recording(folder)]) if not is_description(u)]


def test_cut_has_what_was_asked_for_and_can_be_read_alone(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    source = recorded(tmp_path / "a", [update_of(n) for n in range(1, 41)], batches_per_segment=1)
    done = cut_recording(
        [source],
        tmp_path / "b",
        from_ns=update_of(10).time_ns,
        to_ns=update_of(20).time_ns,
        subjects=["/Vessel/*"],
    )
    assert (done.rows, done.duplicates) == (10, 0)
    assert updates_in(tmp_path / "b") == [update_of(n) for n in range(10, 20)]
    (segment,) = Recording(tmp_path / "b").segments()
    assert [type_.name for type_ in read_types(segment).values()] == ["Vessel"]
    assert verify_recording(Recording(tmp_path / "b")).findings == ()
    assert Recording(tmp_path / "b").id != source.id


def test_cut_by_type_leaves_others_out(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    updates = [update_of(n, type_name="Vessel" if n % 2 else "Port") for n in range(1, 11)]
    source = recorded(tmp_path / "a", updates)
    assert cut_recording([source], tmp_path / "b", types=["Port"]).rows == 5
    (segment,) = Recording(tmp_path / "b").segments()
    assert set(segment.types) - {"EnumDescriptorData", "StructDescriptorData"} == {"Port"}


def test_cut_of_nothing_is_an_empty_recording(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    source = recorded(tmp_path / "a", [update_of(1)])
    assert cut_recording([source], tmp_path / "b", types=["None"]).rows == 0
    assert Recording(tmp_path / "b").segments() == []


def test_merge_has_every_update_once(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    recorded(tmp_path / "in" / "a", [update_of(n) for n in range(1, 21)])
    recorded(tmp_path / "in" / "b", [update_of(n) for n in range(11, 31)])
    told: list[tuple[int, int]] = []
    done = merge_recordings(
        open_recordings(tmp_path / "in"),
        tmp_path / "out",
        on_progress=lambda done, total: told.append((done, total)),
    )
    assert (done.rows, done.duplicates) == (30, 10)
    assert updates_in(tmp_path / "out") == [update_of(n) for n in range(1, 31)]
    assert told[-1][0] == told[-1][1]
    assert verify_recording(Recording(tmp_path / "out")).findings == ()


def test_damage_becomes_a_gap_of_the_copy(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf, damaged: Callable[..., None]
) -> None:
    source = recorded(tmp_path / "a", [update_of(n) for n in range(1, 31)])
    (segment,) = source.segments()
    damaged(segment.path, segment.batches[2].offset + 9)
    cut_recording([source], tmp_path / "b")
    found = updates_in(tmp_path / "b")
    assert [update.operation == GAP for update in found].count(True) == 1
    assert len(found) == 21
    assert verify_recording(Recording(tmp_path / "b")).is_sound


def test_copy_is_cut_into_batches_and_segments(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    source = recorded(tmp_path / "a", [update_of(n) for n in range(1, 41)])
    config = RecordingConfig(batch_rows=8, segment_bytes=6000)
    cut_recording([source], tmp_path / "b", config=config)
    segments = Recording(tmp_path / "b").segments()
    assert len(segments) > 1
    assert max(batch.rows for segment in segments for batch in segment.batches) == 8


def test_recording_is_not_written_over(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    source = recorded(tmp_path / "a", [update_of(1)])
    with pytest.raises(RecordingError, match="already") as caught:
        cut_recording([source], tmp_path / "a")
    assert caught.value.hint


def test_recordings_of_two_spaces_are_not_one(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    recorded(tmp_path / "a", [update_of(1)])
    RecordingWriter(tmp_path / "b", space="other").close()
    with pytest.raises(RecordingError, match="2 spaces"):
        merge_recordings(open_recordings(tmp_path), tmp_path / "c")
    assert not (tmp_path / "c").exists()
