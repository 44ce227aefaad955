"""Recorded rows in their order, and the state from which a part begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import skerry
from skerry.apps.replayer_rows import ReplayWishes, RowReader, state_at
from skerry.codec.envelope import CREATE, GAP, REMOVE, SNAPSHOT, UPDATE, Update
from skerry.objects.base import codec_of
from skerry.recording.gaps import Gap
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint

TYPES = skerry.define_types(
    """
    struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: uint32 speed; }
    struct Hail [cached=false] { 1: [key] uint32 to; }
    """
)
KNOWN = {fingerprint(cls.descriptor): cls.descriptor for cls in (TYPES.Vessel, TYPES.Hail)}


def update(obj: Any, time: int, operation: int = UPDATE, **changes: Any) -> Update:
    codec = codec_of(type(obj))
    payload = obj.encode()
    facts = {
        "type_name": obj.descriptor.name,
        "operation": operation,
        "present": int(obj.attributes),
        "key": codec.key_of(codec.split(payload)),
        "payload": payload,
        "fingerprint": fingerprint(obj.descriptor),
        "node": 7,
        "sender": 2,
        "sequence": time,
        "position": time,
        "time_ns": time,
    }
    return Update(**{**facts, "subject": f"/{obj.descriptor.name}/{time % 10}", **changes})


def vessel(mmsi: int, **fields: Any) -> Any:
    return TYPES.Vessel(mmsi=mmsi, **fields)


def shown(updates: list[Update]) -> list[tuple[int, Any]]:
    return [(u.operation, TYPES[u.type_name].decode(u.payload)) for u in updates]


def test_what_was_there_comes_first_merged_and_then_the_rest() -> None:
    updates = [
        update(vessel(1, name="a", speed=1), 1, CREATE),
        update(vessel(1, speed=2), 2),
        update(vessel(2, name="b"), 3, CREATE),
        update(vessel(2), 4, REMOVE),
        update(TYPES.Hail(to=9), 5, CREATE),
        update(vessel(3, name="c"), 6),
        update(vessel(1, speed=3), 20),
        update(TYPES.Hail(to=9), 21, CREATE),
    ]
    found = list(state_at(iter(updates), KNOWN, 10))
    assert shown(found) == [
        (SNAPSHOT, vessel(1, name="a", speed=2)),
        (SNAPSHOT, vessel(3, name="c")),
        (UPDATE, vessel(1, speed=3)),
        (CREATE, TYPES.Hail(to=9)),
    ]
    assert found[0].present == 0b1110


def test_a_field_that_was_cleared_is_not_there() -> None:
    updates = [
        update(vessel(1, name="a", speed=1), 1, CREATE),
        update(vessel(1), 2, present=0b1010),
    ]
    (found,) = state_at(iter(updates), KNOWN, 10)
    assert TYPES.Vessel.decode(found.payload) == vessel(1, name="a")


def test_a_create_begins_anew_and_a_definition_that_does_not_fit_replaces() -> None:
    broken = update(vessel(1, speed=5), 3).replace(payload=b"\xa1\x02\x05")
    updates = [
        update(vessel(1, name="a"), 1, CREATE),
        update(vessel(1, speed=1), 2, CREATE),
    ]
    (found,) = state_at(iter(updates), KNOWN, 10)
    assert TYPES.Vessel.decode(found.payload) == vessel(1, speed=1)
    (found,) = state_at(iter([*updates, broken]), KNOWN, 10)
    assert found.payload == b"\xa1\x02\x05"


def test_an_unknown_type_has_no_state() -> None:
    assert list(state_at(iter([update(vessel(1), 1)]), {}, 10)) == []


def test_gaps_before_the_moment_are_left_out_and_late_ones_stay_behind() -> None:
    late = update(vessel(1), 5)
    updates = [
        update(vessel(9), 1, GAP),
        update(vessel(1), 12, CREATE),
        late,
        update(vessel(1), 13, GAP),
    ]
    found = list(state_at(iter(updates), KNOWN, 10))
    assert [u.operation for u in found] == [CREATE, GAP]


def recording(folder: Path, *updates: Update) -> Any:
    with RecordingWriter(folder, space="local") as writer:
        for type_ in KNOWN.values():
            writer.describe(type_)
        for item in updates:
            writer.append(item)
        writer.append_gap(Gap(count=2, first=8, stop=10, first_ns=30, last_ns=31))
    return open_recordings(folder)


def test_rows_of_a_recording_are_read_again_and_again_without_descriptions(tmp_path: Path) -> None:
    found = recording(tmp_path, update(vessel(1), 1, CREATE), update(TYPES.Hail(to=2), 20, CREATE))
    reader = RowReader(found, ReplayWishes())
    for _ in range(2):
        assert [u.operation for u in reader] == [CREATE, CREATE, GAP]
    assert reader.types == KNOWN


def test_times_types_and_subjects_choose(tmp_path: Path) -> None:
    found = recording(
        tmp_path,
        update(vessel(1), 1, CREATE),
        update(vessel(2), 12, CREATE),
        update(TYPES.Hail(to=2), 13, CREATE),
    )

    def read(**wishes: Any) -> list[int]:
        updates = RowReader(found, ReplayWishes(**wishes))
        return [u.time_ns for u in updates if u.operation != GAP]

    assert read(from_ns=10) == [1, 12, 13]
    assert read(from_ns=10, has_state=False) == [12, 13]
    assert read(to_ns=13) == [1, 12]
    assert read(types=("Hail",)) == [13]
    assert read(subjects=("/Vessel/2",)) == [12]
