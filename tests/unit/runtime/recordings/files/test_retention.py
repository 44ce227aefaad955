"""Retention: which segments are dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skerry.codec.envelope import Update
from skerry.recording.index import Segment
from skerry.runtime.recordings.config import Durability, RecordingConfig
from skerry.runtime.recordings.files import retention
from skerry.runtime.recordings.files.manifest import Manifest
from skerry.runtime.recordings.files.retention import (
    RECORDING_DROPPED_KEPT,
    drop_segments,
    due_segments,
    remove_dropped,
)
from skerry.runtime.recordings.reader import Recording

Recorded = Callable[..., Recording]
SECOND_NS = 1_000_000_000


@pytest.fixture
def recording(tmp_path: Path, recorded: Recorded, update_of: Callable[..., Update]) -> Recording:
    """Five segments of ten seconds each."""
    updates = [update_of(number) for number in range(50)]
    return recorded(tmp_path / "r", updates, rows_per_batch=10, batches_per_segment=1)


def names(due: list[tuple[Segment, str]]) -> list[tuple[int, str]]:
    return [(segment.line, reason) for segment, reason in due]


def test_nothing_is_dropped_by_default(recording: Recording) -> None:
    assert due_segments(recording.segments(), RecordingConfig(), now_ns=2**62) == []


def test_segments_are_dropped_when_their_newest_row_is_too_old(recording: Recording) -> None:
    segments = recording.segments()
    newest_ns = segments[-1].time_max_ns
    config = RecordingConfig(keep_s=20)
    assert names(due_segments(segments, config, now_ns=newest_ns)) == [(0, "age"), (1, "age")]
    # Exactly as old as may be is not too old.
    edge_ns = segments[0].time_max_ns + 20 * SECOND_NS
    assert names(due_segments(segments, config, now_ns=edge_ns)) == []
    assert names(due_segments(segments, config, now_ns=edge_ns + 1)) == [(0, "age")]


def test_oldest_segments_are_dropped_above_the_size(recording: Recording) -> None:
    segments = recording.segments()
    size = segments[1].byte_count
    three = sum(segment.byte_count for segment in segments[2:])
    config = RecordingConfig(keep_bytes=three)
    assert names(due_segments(segments, config, now_ns=0)) == [(0, "size"), (1, "size")]
    config = RecordingConfig(keep_bytes=three + size - 1)
    assert names(due_segments(segments, config, now_ns=0)) == [(0, "size"), (1, "size")]
    config = RecordingConfig(keep_bytes=three + size)
    assert names(due_segments(segments, config, now_ns=0)) == [(0, "size")]


def test_age_and_size_combine(recording: Recording) -> None:
    segments = recording.segments()
    config = RecordingConfig(keep_s=30, keep_bytes=segments[-1].byte_count)
    due = due_segments(segments, config, now_ns=segments[-1].time_max_ns)
    assert names(due) == [(0, "age"), (1, "size"), (2, "size"), (3, "size")]


def test_dropped_segment_is_removed_and_listed_as_dropped(recording: Recording) -> None:
    segments = recording.segments()
    manifest = Manifest(recording.folder)
    manifest.refresh()
    config = RecordingConfig(keep_bytes=segments[-1].byte_count)
    gone = drop_segments(recording.folder, manifest, config, now_ns=0)
    assert gone == [segment.name for segment in segments[:-1]]
    assert recording.segments() == segments[-1:]
    assert recording.lines.dropped == dict.fromkeys(gone, "size")
    assert not any((recording.folder / name).exists() for name in gone)
    assert drop_segments(recording.folder, manifest, config, now_ns=0) == []


def test_file_of_a_dropped_segment_is_removed_and_not_listed(recording: Recording) -> None:
    first = recording.segments()[0]
    content = first.path.read_bytes()
    manifest = Manifest(recording.folder)
    with manifest.locked():
        manifest.add_dropped(first.name, "age", sync=False)
    assert first.name not in [segment.name for segment in recording.segments()]
    assert first.path.read_bytes() == content
    remove_dropped(recording.folder, manifest)
    assert not first.path.exists()


def test_newest_segment_stays_whatever_its_age_and_size(recording: Recording) -> None:
    segments = recording.segments()
    for config in (RecordingConfig(keep_bytes=1), RecordingConfig(keep_s=0.001)):
        due = due_segments(segments, config, now_ns=2**62)
        assert [segment for segment, _ in due] == segments[:-1]
    assert due_segments([], RecordingConfig(keep_bytes=1), now_ns=0) == []


def seal(manifest: Manifest, segment: Segment) -> None:
    with manifest.locked():
        manifest.add_sealed(segment, sync=False)


def numbered(segment: Segment, number: int) -> Segment:
    return replace(segment, name=f"01234567-{number:010d}.arrow")


@pytest.mark.slow
def test_size_of_the_manifest_is_limited(recording: Recording, tmp_path: Path) -> None:
    segment = recording.segments()[0]
    config = RecordingConfig(keep_bytes=5 * segment.byte_count, durability=Durability.NONE)
    manifest = Manifest(tmp_path, has_batches=False)
    line_counts = []
    for number in range(10_000):
        seal(manifest, numbered(segment, number))
        drop_segments(tmp_path, manifest, config, now_ns=0)
        if number % 500 == 0:
            line_counts.append(manifest.path.read_bytes().count(b"\n"))
    # Two lines of each segment that is dropped, one of each that is there, and the sums.
    assert max(line_counts) <= 2 * 2 * RECORDING_DROPPED_KEPT + 5 + 1
    assert len(manifest.lines.dropped) <= 2 * RECORDING_DROPPED_KEPT
    reader = Manifest(tmp_path)
    reader.refresh()
    assert reader.lines.count == 10_000 + 9_995
    assert list(reader.lines.segments) == [numbered(segment, n).name for n in range(9_995, 10_000)]
    assert reader.lines.forgotten.segments["size"] + len(reader.lines.dropped) == 9_995
    assert list(reader.lines.dropped)[-1] == numbered(segment, 9_994).name
    assert len(reader.lines.dropped) >= RECORDING_DROPPED_KEPT


def test_manifest_is_shortened_when_it_knows_twice_as_many_as_are_kept(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "RECORDING_DROPPED_KEPT", 3)
    segment = recording.segments()[0]
    manifest = Manifest(tmp_path, has_batches=False)
    counts = []
    for number in range(10):
        seal(manifest, numbered(segment, number))
        drop_segments(tmp_path, manifest, RecordingConfig(keep_bytes=1), now_ns=0)
        counts.append(len(manifest.lines.dropped))
    assert counts == [0, 1, 2, 3, 4, 5, 6, 3, 4, 5]


def test_manifest_of_many_segments_is_not_shortened_for_a_few(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "RECORDING_DROPPED_KEPT", 1)
    segment = recording.segments()[0]
    config = RecordingConfig(keep_bytes=10 * segment.byte_count)
    manifest = Manifest(tmp_path, has_batches=False)
    times = []
    for number in range(10 + 22):
        seal(manifest, numbered(segment, number))
        drop_segments(tmp_path, manifest, config, now_ns=0)
        times.append(manifest.lines.forgotten.times)
    # When more are dropped than are there.
    assert [times.index(count) for count in (1, 2)] == [10 + 10, 10 + 20]


def test_manifest_that_cannot_be_shortened_stays_until_it_can(
    recording: Recording,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    segment = recording.segments()[0]
    config = RecordingConfig(keep_bytes=4 * segment.byte_count)
    manifest = Manifest(tmp_path, has_batches=False)
    for number in range(8):
        seal(manifest, numbered(segment, number))
        drop_segments(tmp_path, manifest, config, now_ns=0)
    monkeypatch.setattr(retention, "RECORDING_DROPPED_KEPT", 1)
    seal(manifest, numbered(segment, 8))
    # Nothing can be written where the shorter one has to be.
    manifest.path.with_name("manifest.jsonl.new").mkdir()
    gone = drop_segments(tmp_path, manifest, config, now_ns=0)
    assert gone == [numbered(segment, 4).name]
    (notified,) = caplog.records
    assert (notified.levelname, notified.message) == ("WARNING", "cannot shorten the manifest")
    assert (len(manifest.lines.dropped), manifest.lines.forgotten.times) == (5, 0)
    manifest.path.with_name("manifest.jsonl.new").rmdir()
    seal(manifest, numbered(segment, 9))
    drop_segments(tmp_path, manifest, config, now_ns=0)
    assert (len(manifest.lines.dropped), manifest.lines.forgotten.times) == (1, 1)
    assert len(caplog.records) == 1
    reader = Manifest(tmp_path)
    reader.refresh()
    assert [s.line for s in reader.lines.segments.values()] == [8, 10, 12, 14]
