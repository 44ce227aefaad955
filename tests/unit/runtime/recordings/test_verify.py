"""Verifying a recording against its manifest."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skerry.codec.envelope import Update
from skerry.limits import RECORDING_FINDING_COUNT_MAX
from skerry.recording.gaps import Gap
from skerry.recording.manifest_lines import Repair
from skerry.runtime.recordings.files.folders import OPEN_SUFFIX, SEALED_SUFFIX
from skerry.runtime.recordings.files.manifest import MANIFEST_NAME, Manifest
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.verify import verify_recording
from skerry.runtime.recordings.writer import RecordingWriter

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]
Damaged = Callable[..., None]


@pytest.fixture
def recording(tmp_path: Path, recorded: Recorded, update_of: UpdateOf) -> Recording:
    updates = [update_of(number) for number in range(1, 41)]
    return recorded(tmp_path / "r", updates, batches_per_segment=2)


def texts(recording: Recording) -> list[str]:
    return [str(finding) for finding in verify_recording(recording).findings]


def test_sound_recording_has_no_findings(recording: Recording) -> None:
    reported: list[tuple[int, int]] = []
    report = verify_recording(recording, on_progress=lambda *now: reported.append(now))
    assert report.is_sound
    assert report.findings == []
    assert (report.segment_count, report.batch_count, report.row_count) == (2, 6, 44)
    assert reported[-1] == (report.byte_count, report.byte_count)


def test_damaged_batch_is_named_with_its_rows(recording: Recording, damaged: Damaged) -> None:
    segment = recording.segments()[1]
    damaged(segment.path, segment.batches[2].offset + 500)
    report = verify_recording(recording)
    assert not report.is_sound
    assert (report.lost_row_count, report.row_count) == (10, 34)
    (finding,) = report.findings
    assert (finding.segment, finding.batch, finding.rows) == (segment.name, 2, 10)
    assert str(finding) == f"{segment.name}: batch 2: it is damaged (10 rows are lost)"


def test_gaps_are_named_and_only_what_the_recorder_dropped_is_a_fault(tmp_path: Path) -> None:
    away = Gap(count=7, reason="the recorder was not running", first_ns=0, last_ns=10**9)
    full = Gap(count=5, reason="the disk is full", first_ns=2 * 10**9, is_dropped=True)
    with RecordingWriter(tmp_path, space="local") as writer:
        writer.append_gap(away, node=3)
        writer.append_gap(replace(away, count=0))
        assert verify_recording(Recording(tmp_path)).is_sound
        writer.append_gap(replace(full, last_ns=3 * 10**9), node=4)
    report = verify_recording(Recording(tmp_path))
    assert (report.is_sound, report.fault_count, report.lost_row_count) == (False, 1, 5)
    found = [str(finding).partition(": batch 0: ")[2] for finding in report.findings]
    start, second = "from 1970-01-01T00:00:0", ".000000000Z"
    first = f"{start}0{second} to 1970-01-01T00:00:01{second}"
    later = f"{start}2{second} to 1970-01-01T00:00:03{second}"
    assert found == [
        f"7 updates are missing of node 3, {first}: the recorder was not running",
        f"an unknown number of updates are missing of node 0, {first}: {away.reason}",
        f"the recorder dropped updates of node 4, {later}: the disk is full (5 rows are lost)",
    ]


@pytest.mark.slow
def test_every_flipped_byte_is_found(recording: Recording, damaged: Damaged) -> None:
    segment = recording.segments()[0]
    whole = segment.path.read_bytes()
    chance = random.Random(2)
    places = {0, 4, 600, len(whole) - 1, len(whole) - 5}
    places |= {chance.randrange(len(whole)) for _ in range(150)}
    for place in sorted(places):
        damaged(segment.path, place, 1 << chance.randrange(8))
        report = verify_recording(Recording(recording.folder))
        assert not report.is_sound, place
        assert report.lost_row_count <= 10
        segment.path.write_bytes(whole)


def test_missing_file_is_found(recording: Recording) -> None:
    segment = recording.segments()[0]
    segment.path.unlink()
    report = verify_recording(recording)
    assert report.lost_row_count == segment.rows
    assert report.fault_count == 1
    assert "its file is missing" in str(report.findings[0])


def test_file_that_is_longer_or_shorter_is_found(recording: Recording) -> None:
    segment = recording.segments()[0]
    with segment.path.open("ab") as file:
        file.write(b"more")
    assert any("the manifest states" in text for text in texts(recording))
    os.truncate(segment.path, segment.byte_count - 8)
    assert any("its end" in text for text in texts(recording))


def test_wrong_manifest_is_found(recording: Recording) -> None:
    recording.segments()
    path = recording.folder / MANIFEST_NAME
    first, second = path.read_text().splitlines()
    plain = json.loads(first)
    plain["sealed"]["batches"]["rows"][1] = 11
    path.write_text(json.dumps(plain) + "\n" + second + "\nnothing\n")
    found = texts(Recording(recording.folder))
    assert any("differs from what the manifest" in text for text in found)
    assert any("line 3 of the manifest" in text for text in found)


def test_bytes_between_batches_are_found(recording: Recording) -> None:
    segment = recording.segments()[0]
    path = recording.folder / MANIFEST_NAME
    plain, second = map(json.loads, path.read_text().splitlines())
    columns = plain["sealed"]["batches"]
    for name in columns:
        if name != "has_descriptors":
            del columns[name][1]
    path.write_text(json.dumps(plain) + "\n" + json.dumps(second) + "\n")
    found = texts(Recording(recording.folder))
    assert f"{segment.name}: batch 1: {segment.batches[1].size} bytes" in found[0]


def test_type_without_a_description_is_a_note(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    report = verify_recording(recorded(tmp_path, [update_of(1)], is_described=False))
    assert report.is_sound
    (note,) = report.findings
    assert not note.is_fault
    assert "Vessel with fingerprint" in str(note)


def test_rows_out_of_the_order_of_their_node_are_a_note(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    order = [1, 2, 4, 3, 5]
    recording = recorded(tmp_path / "a", [update_of(n) for n in order])
    report = verify_recording(recording)
    assert report.is_sound
    assert "position 3 of node -9" in str(report.findings[0])
    twice = recorded(tmp_path / "b", [update_of(1), update_of(2), update_of(2)], rows_per_batch=2)
    assert "position 2 of node -9" in texts(twice)[0]
    apart = [update_of(n, node=n % 2) for n in (1, 2, 3, 4)]
    assert texts(recorded(tmp_path / "c", apart)) == []


def test_crash_is_found_before_and_after_its_repair(recording: Recording) -> None:
    segment = recording.segments()[1]
    lines = (recording.folder / MANIFEST_NAME).read_text().splitlines()
    (recording.folder / MANIFEST_NAME).write_text(lines[0] + "\n")
    path = segment.path.with_name(segment.name.removesuffix(SEALED_SUFFIX) + OPEN_SUFFIX)
    segment.path.rename(path)
    os.truncate(path, segment.batches[1].stop + 40)
    report = verify_recording(Recording(recording.folder))
    assert not report.is_sound
    assert "2 batches with 12 rows are complete, 40 bytes" in str(report.findings[0])
    RecordingWriter(recording.folder, space="local").close()
    report = verify_recording(Recording(recording.folder))
    assert report.is_sound
    assert "12 rows were kept and 40 bytes" in str(report.findings[0])


def test_open_segment_of_a_running_recorder_is_not_a_fault(
    tmp_path: Path, update_of: UpdateOf
) -> None:
    with RecordingWriter(tmp_path, space="local") as writer:
        writer.append(update_of(1))
        writer.flush()
        assert verify_recording(Recording(tmp_path)).findings == []


def test_file_that_is_not_a_segment_is_found(recording: Recording) -> None:
    path = recording.folder / "notes-0000000001.arrow"
    path.write_text("notes")
    os.utime(path, (0, 0))
    assert texts(recording) == [f"{path.name}: it is not a segment, or is still being copied"]


def test_number_of_findings_is_limited(recording: Recording) -> None:
    recording.segments()
    with (recording.folder / MANIFEST_NAME).open("ab") as file:
        file.write(b"nothing\n" * (RECORDING_FINDING_COUNT_MAX + 5))
    report = verify_recording(Recording(recording.folder))
    assert len(report.findings) == RECORDING_FINDING_COUNT_MAX
    assert report.finding_count == report.fault_count == RECORDING_FINDING_COUNT_MAX + 5


def test_summary_of_a_shortened_manifest_is_reported(recording: Recording) -> None:
    repair = Repair(name="x", kept_batches=1, kept_rows=1, lost_bytes=1)
    manifest = Manifest(recording.folder)
    with manifest.path.open("ab") as file:
        file.write(b"nothing\n")
    with manifest.locked():
        manifest.add_repaired(repair, sync=False)
        manifest.add_repaired(repair, sync=False)
        manifest.shorten(kept=1)
    report = verify_recording(Recording(recording.folder))
    assert report.fault_count == 1
    reported = [str(finding) for finding in report.findings]
    assert any("1 lines could not be read" in text for text in reported)
    assert any("crashes left 1 segments open" in text for text in reported)
