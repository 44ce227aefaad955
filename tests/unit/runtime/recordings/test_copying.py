"""Cutting and merging recordings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.codec.envelope import CREATE, GAP, REMOVE, SNAPSHOT, UPDATE, Update
from skerry.errors import RecordingError
from skerry.objects.base import key_of
from skerry.objects.classes import class_of
from skerry.objects.json import to_json_values
from skerry.objects.typeset import define_types
from skerry.recording.gaps import Gap, gap_update
from skerry.recording.selection import selection_of
from skerry.recording.updates import is_description
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.recordings.copying import cut_recording, merge_recordings
from skerry.runtime.recordings.reader import Recording, open_recordings, read_types
from skerry.runtime.recordings.updates import read_updates
from skerry.runtime.recordings.verify import verify_recording
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]


def updates_in(folder: Path) -> list[Update]:
    return [u for u in read_updates([Recording(folder)]) if not is_description(u)]


def test_cut_has_the_selected_rows_and_can_be_read_alone(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    source = recorded(tmp_path / "a", [update_of(n) for n in range(1, 41)], batches_per_segment=1)
    done = cut_recording(
        [source],
        tmp_path / "b",
        selection_of(
            from_ns=update_of(10).time_ns, to_ns=update_of(20).time_ns, subjects=["/Vessel/*"]
        ),
        has_state=False,
    )
    assert (done.rows, done.duplicates) == (10, 0)
    assert updates_in(tmp_path / "b") == [update_of(n) for n in range(10, 20)]
    (segment,) = Recording(tmp_path / "b").segments()
    assert [type_.name for type_ in read_types(segment).values()] == ["Vessel"]
    assert verify_recording(Recording(tmp_path / "b")).findings == []
    assert Recording(tmp_path / "b").id != source.id


def test_copies_are_private_and_an_empty_folder_keeps_its_mode(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    source = recorded(tmp_path / "a", [update_of(1)])
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o750)
    for name in ("new", "shared"):
        cut_recording([source], tmp_path / name)
    folders = [tmp_path / name for name in ("new", "shared")]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700, 0o750]
    files = [path for folder in folders for path in folder.iterdir()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_cut_begins_with_the_existing_objects(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    updates = [
        update_of(1, operation=CREATE),
        update_of(2, operation=CREATE),
        update_of(3),
        update_of(2, operation=REMOVE, position=4, time_ns=update_of(4).time_ns),
        update_of(1, position=10, sequence=10, time_ns=update_of(10).time_ns),
    ]
    source = recorded(tmp_path / "a", updates)
    done = cut_recording([source], tmp_path / "b", selection_of(from_ns=update_of(10).time_ns))
    assert done.rows == 3
    found = [(u.operation, u.subject, u.position, u.sequence) for u in updates_in(tmp_path / "b")]
    assert found == [
        (SNAPSHOT, "/Vessel/1", 1, 0),
        (UPDATE, "/Vessel/3", 3, 0),
        (UPDATE, "/Vessel/1", 10, 10),
    ], "of the third it is not known what it was before"
    assert verify_recording(Recording(tmp_path / "b")).findings == []


def test_cut_has_the_fields_of_all_definitions_of_an_object(
    tmp_path: Path, update_of: UpdateOf
) -> None:
    old = define_types("struct Vessel { 1: [key] uint32 mmsi; 2: int16 speed; 4: bool b; }").Vessel
    new = define_types(
        "struct Vessel { 1: [key] uint32 mmsi; 2: int32 speed; 3: string name; }"
    ).Vessel
    updates = []
    with RecordingWriter(tmp_path / "a", space="local") as writer:
        objects = [new(mmsi=1, name="x"), old(mmsi=1, speed=3, b=True), new(mmsi=2, speed=70_000)]
        for number, obj in enumerate(objects, 1):
            writer.describe(obj.descriptor)
            facts = {"payload": obj.encode(), "present": int(obj.attributes), "key": key_of(obj)}
            facts["operation"] = UPDATE if number == 2 else CREATE
            updates.append(update_of(number, fingerprint=fingerprint(obj.descriptor), **facts))
            writer.append(updates[-1])
    cut_recording(
        open_recordings(tmp_path / "a"), tmp_path / "b", selection_of(from_ns=updates[2].time_ns)
    )
    (recording,) = open_recordings(tmp_path / "b")
    first, second = updates_in(tmp_path / "b")
    assert second == updates[2]
    (segment,) = recording.segments()
    union = class_of(read_types(segment)[first.fingerprint])
    assert to_json_values(union.decode(first.payload)) == {
        "mmsi": 1,
        "name": "x",
        "speed": 3,
        "b": True,
    }
    assert verify_recording(recording).findings == []


def test_two_adjacent_cuts_equal_the_whole(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    updates = [update_of(1, operation=CREATE), *(update_of(n) for n in range(2, 9))]
    source = recorded(tmp_path / "a", updates)
    edge_ns = update_of(5).time_ns
    cut_recording([source], tmp_path / "b", selection_of(to_ns=edge_ns))
    cut_recording([source], tmp_path / "c", selection_of(from_ns=edge_ns))
    parts = [Recording(tmp_path / "b"), Recording(tmp_path / "c")]
    merge_recordings(parts, tmp_path / "d")
    merged = [u for u in updates_in(tmp_path / "d") if u.sequence]
    assert merged == updates


def test_failed_copy_leaves_nothing(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf, file_size_limit: Any
) -> None:
    source = recorded(tmp_path / "a", [update_of(n) for n in range(1, 41)])
    with (
        file_size_limit(3000),
        pytest.raises(RecordingError, match=r"cannot make .*/b: cannot write to b: ") as caught,
    ):
        cut_recording([source], tmp_path / "b")
    assert "free disk space" in (caught.value.hint or "")

    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut_recording([source], tmp_path / "b", on_progress=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("kind", ["file", "full"])
def test_copy_does_not_replace_other_files(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf, kind: str
) -> None:
    source = recorded(tmp_path / "a", [update_of(1)])
    if kind == "full":
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "x").touch()
    else:
        (tmp_path / "b").touch()
    with pytest.raises(RecordingError, match=r"not empty|not a folder"):
        cut_recording([source], tmp_path / "b")
    (tmp_path / "c").mkdir()
    assert cut_recording([source], tmp_path / "c").rows == 1, "an empty folder is fine"


def test_cut_by_type_leaves_others_out(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    updates = [update_of(n, type_name="Vessel" if n % 2 else "Port") for n in range(1, 11)]
    source = recorded(tmp_path / "a", updates)
    assert cut_recording([source], tmp_path / "b", selection_of(types=["Port"])).rows == 5
    (segment,) = Recording(tmp_path / "b").segments()
    assert set(segment.types) - {"EnumDescriptorData", "StructDescriptorData"} == {"Port"}


def test_cut_of_nothing_is_an_empty_recording(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    source = recorded(tmp_path / "a", [update_of(1)])
    assert cut_recording([source], tmp_path / "b", selection_of(types=["None"])).rows == 0
    assert Recording(tmp_path / "b").segments() == []


def test_merge_has_every_update_once(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    recorded(tmp_path / "in" / "a", [update_of(n) for n in range(1, 21)])
    recorded(tmp_path / "in" / "b", [update_of(n) for n in range(11, 31)])
    reported: list[tuple[int, int]] = []
    done = merge_recordings(
        open_recordings(tmp_path / "in"),
        tmp_path / "out",
        on_progress=lambda done, total: reported.append((done, total)),
    )
    assert (done.rows, done.duplicates) == (30, 10)
    assert updates_in(tmp_path / "out") == [update_of(n) for n in range(1, 31)]
    assert reported[-1][0] == reported[-1][1]
    assert verify_recording(Recording(tmp_path / "out")).findings == []


def test_merge_leaves_out_gaps_that_are_filled(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    lost = gap_update(
        Gap(count=2, first=2, stop=4, first_ns=update_of(2).time_ns), space="local", node=-9
    )
    real = gap_update(
        Gap(count=2, first=9, stop=11, first_ns=update_of(9).time_ns), space="local", node=-9
    )
    one = recorded(tmp_path / "a", [update_of(1), lost, update_of(4), real])
    other = recorded(tmp_path / "b", [update_of(number) for number in range(1, 6)])
    done = merge_recordings([one, other], tmp_path / "c")
    assert (done.duplicates, done.filled_gaps) == (2, 1)
    assert [(u.operation, u.position) for u in updates_in(tmp_path / "c")] == [
        *((UPDATE, position) for position in range(1, 6)),
        (GAP, 0),
    ]


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


def test_recording_is_not_overwritten(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    source = recorded(tmp_path / "a", [update_of(1)])
    with pytest.raises(RecordingError, match="already") as caught:
        cut_recording([source], tmp_path / "a")
    assert caught.value.hint


def test_recordings_of_two_spaces_are_not_merged(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    recorded(tmp_path / "a", [update_of(1)])
    RecordingWriter(tmp_path / "b", space="other").close()
    with pytest.raises(RecordingError, match="2 spaces"):
        merge_recordings(open_recordings(tmp_path), tmp_path / "c")
    assert not (tmp_path / "c").exists()
