"""Which segments a recording may lose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skerry.codec.envelope import Update
from skerry.recording.index import Segment
from skerry.runtime.recordings.config import RecordingConfig
from skerry.runtime.recordings.manifest import Manifest
from skerry.runtime.recordings.reader import Recording
from skerry.runtime.recordings.retention import drop_segments, due_segments, remove_dropped

Recorded = Callable[..., Recording]
SECOND_NS = 1_000_000_000


@pytest.fixture
def recording(tmp_path: Path, recorded: Recorded, update_of: Callable[..., Update]) -> Recording:
    """Five segments of ten seconds each."""
    updates = [update_of(number) for number in range(50)]
    return recorded(tmp_path / "r", updates, rows_per_batch=10, batches_per_segment=1)


def names(due: list[tuple[Segment, str]]) -> list[tuple[int, str]]:
    return [(segment.line, reason) for segment, reason in due]


def test_nothing_goes_unless_that_is_asked_for(recording: Recording) -> None:
    assert due_segments(recording.segments(), RecordingConfig(), now_ns=2**62) == []


def test_segments_go_when_their_newest_row_is_too_old(recording: Recording) -> None:
    segments = recording.segments()
    newest_ns = segments[-1].time_max_ns
    config = RecordingConfig(keep_s=20)
    assert names(due_segments(segments, config, now_ns=newest_ns)) == [(0, "age"), (1, "age")]
    # Exactly as old as may be is not too old.
    edge_ns = segments[0].time_max_ns + 20 * SECOND_NS
    assert names(due_segments(segments, config, now_ns=edge_ns)) == []
    assert names(due_segments(segments, config, now_ns=edge_ns + 1)) == [(0, "age")]


def test_oldest_segments_go_when_all_are_too_many_bytes(recording: Recording) -> None:
    segments = recording.segments()
    size = segments[1].byte_count
    three = sum(segment.byte_count for segment in segments[2:])
    config = RecordingConfig(keep_bytes=three)
    assert names(due_segments(segments, config, now_ns=0)) == [(0, "size"), (1, "size")]
    config = RecordingConfig(keep_bytes=three + size - 1)
    assert names(due_segments(segments, config, now_ns=0)) == [(0, "size"), (1, "size")]
    config = RecordingConfig(keep_bytes=three + size)
    assert names(due_segments(segments, config, now_ns=0)) == [(0, "size")]


def test_age_and_size_go_together(recording: Recording) -> None:
    segments = recording.segments()
    config = RecordingConfig(keep_s=30, keep_bytes=segments[-1].byte_count)
    due = due_segments(segments, config, now_ns=segments[-1].time_max_ns)
    assert names(due) == [(0, "age"), (1, "size"), (2, "size"), (3, "size")]


def test_what_is_dropped_is_gone_and_told(recording: Recording) -> None:
    segments = recording.segments()
    manifest = Manifest(recording.folder)
    manifest.refresh()
    config = RecordingConfig(keep_bytes=segments[-1].byte_count)
    gone = drop_segments(recording.folder, manifest, config, now_ns=0)
    assert gone == [segment.name for segment in segments[:-1]]
    assert recording.segments() == segments[-1:]
    assert recording.dropped == dict.fromkeys(gone, "size")
    assert not any((recording.folder / name).exists() for name in gone)
    assert drop_segments(recording.folder, manifest, config, now_ns=0) == []


def test_file_that_outlived_its_line_is_removed_and_not_adopted(recording: Recording) -> None:
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
