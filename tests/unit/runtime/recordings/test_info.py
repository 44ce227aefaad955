"""Summary of a recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skerry.codec.envelope import GAP, LINK, Update
from skerry.limits import RECORDING_FINDING_COUNT_MAX
from skerry.recording.gaps import Gap
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.recordings.files.manifest import Manifest
from skerry.runtime.recordings.info import RecordedSender, inspect_recording
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.writer import RecordingWriter

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]


def test_info_summarizes_the_recording(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    updates = [update_of(n) for n in range(1, 31)]
    updates += [update_of(n, sender=8, source=LINK) for n in range(31, 34)]
    recording = recorded(tmp_path, updates, batches_per_segment=2)
    reported: list[tuple[int, int]] = []
    info = inspect_recording(recording, on_progress=lambda *now: reported.append(now))
    assert (info.id, info.space, info.is_being_written) == (recording.id, "local", False)
    assert (info.segment_count, info.row_count) == (2, 37)
    assert info.types == {"EnumDescriptorData": 2, "StructDescriptorData": 2, "Vessel": 33}
    assert len(info.fingerprints["Vessel"]) == 1
    assert (info.time_min_ns, info.time_max_ns) == (updates[0].time_ns, updates[-1].time_ns)
    assert info.byte_count == sum(path.stat().st_size for path in tmp_path.glob("*.arrow"))
    assert info.senders[0] == RecordedSender(node=-9, sender=3, source="access", rows=30)
    assert RecordedSender(node=-9, sender=8, source="link", rows=3) in info.senders
    assert (info.gaps, info.gap_count) == ((), 0)
    assert reported[-1] == (37, 37)


def test_info_of_an_empty_recording_is_empty(tmp_path: Path) -> None:
    RecordingWriter(tmp_path, space="local").close()
    info = inspect_recording(Recording(tmp_path))
    assert (info.segment_count, info.row_count, info.time_min_ns) == (0, 0, 0)
    assert (info.types, info.senders) == ({}, ())


def test_open_segment_is_included(tmp_path: Path, update_of: UpdateOf) -> None:
    with RecordingWriter(tmp_path, RecordingConfig(), space="local") as writer:
        writer.append(update_of(1))
        writer.flush()
        info = inspect_recording(Recording(tmp_path))
    assert (info.is_being_written, info.segment_count, info.row_count) == (True, 1, 1)


def test_recorded_gaps_and_damaged_batches_are_reported(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf, damaged: Callable[..., None]
) -> None:
    recording = recorded(tmp_path, [update_of(n) for n in range(1, 21)])
    with RecordingWriter(tmp_path, space="local") as writer:
        writer.append_gap(Gap(count=7, first=21, stop=28, reason="the queue was full"))
        writer.append(update_of(1, operation=GAP, payload=b"\xff"))
    segment = recording.segments()[0]
    damaged(segment.path, segment.batches[1].offset + 99)
    info = inspect_recording(recording)
    assert info.gap_count == 3
    assert [gap.count for gap in info.gaps] == [10, 7, 0]
    assert info.gaps[1].reason == "the queue was full"


@pytest.mark.slow
def test_number_of_reported_gaps_is_limited(tmp_path: Path) -> None:
    count = RECORDING_FINDING_COUNT_MAX + 5
    with RecordingWriter(tmp_path, space="local") as writer:
        for number in range(count):
            writer.append_gap(Gap(count=1, first_ns=number), node=number)
            if number == 400:
                writer.flush()
    info = inspect_recording(Recording(tmp_path))
    assert (len(info.gaps), info.gap_count) == (RECORDING_FINDING_COUNT_MAX, count)
    assert (len(info.senders), info.sender_count) == (RECORDING_FINDING_COUNT_MAX, count)


def test_repairs_and_dropped_segments_are_reported(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    recorded(tmp_path, [update_of(1)])
    (tmp_path / "12345678-0000000001.arrow.open").write_bytes(b"half a head")
    with RecordingWriter(tmp_path, RecordingConfig(keep_bytes=1), space="local") as writer:
        writer.append(update_of(2))
    info = inspect_recording(Recording(tmp_path))
    assert [repair.lost_bytes for repair in info.repairs] == [11]
    assert info.dropped == {"size": 1}


def test_segments_that_the_manifest_forgot_are_counted(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    recording = recorded(
        tmp_path, [update_of(n) for n in range(5)], rows_per_batch=1, batches_per_segment=1
    )
    manifest = Manifest(tmp_path)
    with manifest.locked():
        for segment, reason in zip(recording.segments()[:3], ("age", "size", "age"), strict=True):
            manifest.add_dropped(segment.name, reason, sync=False)
            segment.path.unlink()
        manifest.shorten(kept=1)
    info = inspect_recording(Recording(tmp_path))
    assert info.dropped == {"age": 2, "size": 1}
    assert info.segment_count == 2
