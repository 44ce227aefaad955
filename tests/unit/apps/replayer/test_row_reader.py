"""Recorded rows that are played: in their order, again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import skerry
from skerry.apps.replayer.program import RowReader
from skerry.codec.envelope import CREATE, GAP, UPDATE, Update
from skerry.objects.base import codec_of
from skerry.recording.gaps import Gap
from skerry.recording.selection import ALL_ROWS, selection_of
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
    reader = RowReader(found, ALL_ROWS, has_state=True)
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

    def read(*, has_state: bool = True, **options: Any) -> list[int]:
        updates = RowReader(found, selection_of(**options), has_state=has_state)
        return [u.time_ns for u in updates if u.operation != GAP]

    assert read(from_ns=10) == [1, 12, 13]
    assert read(from_ns=10, has_state=False) == [12, 13]
    assert read(to_ns=13) == [1, 12]
    assert read(types=("Hail",)) == [13]
    assert read(subjects=("/Vessel/2",)) == [12]
