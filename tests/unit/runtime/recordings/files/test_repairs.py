"""Segments that a crash left, and segments that are not in the manifest."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from skerry.codec.envelope import Update
from skerry.recording.index import NO_CRC
from skerry.runtime.recordings.files.folders import OPEN_SUFFIX, SEALED_SUFFIX
from skerry.runtime.recordings.files.manifest import MANIFEST_NAME, Manifest
from skerry.runtime.recordings.files.unlisted_segments import (
    index_file,
    list_unlisted,
    repair_open,
    unlisted_names,
)
from skerry.runtime.recordings.reader import Recording

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]


@pytest.fixture
def recording(tmp_path: Path, recorded: Recorded, update_of: UpdateOf) -> Recording:
    """One segment: a batch of descriptions and four of rows."""
    return recorded(tmp_path / "r", [update_of(n) for n in range(1, 41)])


def reopen(recording: Recording, content: bytes) -> Path:
    """Put a segment back to where it was while it was being written, with this content."""
    (segment,) = recording.segments()
    (recording.folder / MANIFEST_NAME).unlink()
    path = segment.path.with_name(segment.name.removesuffix(SEALED_SUFFIX) + OPEN_SUFFIX)
    segment.path.unlink()
    path.write_bytes(content)
    return path


def positions(recording: Recording) -> list[int]:
    return [
        position
        for segment in recording.segments()
        for _, batch in Recording(segment.folder).batches(segment)
        for position in batch.column("position").to_pylist()
        if position
    ]


def test_torn_tail_is_cut_behind_the_last_complete_batch(recording: Recording) -> None:
    (segment,) = recording.segments()
    content = segment.path.read_bytes()
    reopen(recording, content[: segment.batches[3].stop + 100])
    (repair,) = repair_open(recording.folder, Manifest(recording.folder))
    assert (repair.kept_batches, repair.kept_rows, repair.lost_bytes) == (4, 32, 100)
    again = Recording(recording.folder)
    assert positions(again) == list(range(1, 31))
    assert again.lines.repairs == [repair]
    (mended,) = again.segments()
    assert mended.byte_count == mended.path.stat().st_size
    assert mended.batches == segment.batches[:4]
    assert mended.fingerprints == segment.fingerprints


def test_segment_that_ended_with_a_batch_loses_nothing(recording: Recording) -> None:
    (segment,) = recording.segments()
    reopen(recording, segment.path.read_bytes())
    (repair,) = repair_open(recording.folder, Manifest(recording.folder))
    assert repair.lost_bytes == 0
    (mended,) = Recording(recording.folder).segments()
    assert (mended.batches, mended.byte_count) == (segment.batches, segment.byte_count)


@pytest.mark.parametrize("size", [0, 7, 500, 1104, 1500])
def test_segment_without_a_complete_batch_is_removed_and_reported(
    recording: Recording, size: int
) -> None:
    (segment,) = recording.segments()
    path = reopen(recording, segment.path.read_bytes()[:size])
    (repair,) = repair_open(recording.folder, Manifest(recording.folder))
    assert repair.kept_rows == 0
    assert not path.exists()
    again = Recording(recording.folder)
    assert (again.segments(), again.lines.repairs) == ([], [repair])


def test_hole_of_a_power_cut_is_kept_as_one(recording: Recording) -> None:
    (segment,) = recording.segments()
    content = bytearray(segment.path.read_bytes())
    hole = segment.batches[2]
    content[hole.offset : hole.stop] = bytes(hole.size)
    reopen(recording, bytes(content))
    (repair,) = repair_open(recording.folder, Manifest(recording.folder))
    assert (repair.kept_batches, repair.lost_bytes) == (4, hole.size)
    (mended,) = Recording(recording.folder).segments()
    assert [batch.crc == NO_CRC for batch in mended.batches] == [False, False, True, False, False]
    assert positions(Recording(recording.folder)) == [*range(1, 11), *range(21, 41)]


def test_segment_without_a_line_is_listed(recording: Recording) -> None:
    (segment,) = recording.segments()
    (recording.folder / MANIFEST_NAME).unlink()
    manifest = Manifest(recording.folder)
    assert list_unlisted(recording.folder, manifest) == [segment]
    assert list_unlisted(recording.folder, manifest) == []
    assert Recording(recording.folder).segments() == [segment]


def test_segment_of_another_recorder_is_listed_after_the_others(
    recording: Recording, tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> None:
    other = recorded(tmp_path / "other", [update_of(n, node=5) for n in range(100, 120)])
    (theirs,) = other.segments()
    (recording.folder / theirs.name).write_bytes(theirs.path.read_bytes())
    (own, adopted) = recording.segments()
    assert (own.line, adopted.line, adopted.name) == (0, 1, theirs.name)
    assert adopted.batches == theirs.batches


def test_partly_copied_segment_is_not_listed_until_it_is_complete(recording: Recording) -> None:
    (segment,) = recording.segments()
    (recording.folder / MANIFEST_NAME).unlink()
    content = segment.path.read_bytes()
    for size in (0, 100, segment.batches[2].stop, len(content) - 1):
        segment.path.write_bytes(content[:size])
        assert index_file(recording.folder, segment.name) is None
    segment.path.write_bytes(content)
    assert index_file(recording.folder, segment.name, line=0) == segment


def test_segment_that_stays_incomplete_is_listed_as_it_is(recording: Recording) -> None:
    (segment,) = recording.segments()
    os.truncate(segment.path, segment.batches[3].stop + 100)
    os.utime(segment.path, (0, 0))
    found = index_file(recording.folder, segment.name)
    assert found is not None
    assert [batch.rows for batch in found.batches] == [2, 10, 10, 10, 0]
    assert found.batches[-1].size == 100


def test_file_that_is_not_a_segment_is_ignored(recording: Recording) -> None:
    path = recording.folder / "notes-0000000001.arrow"
    path.write_text("these are notes")
    os.utime(path, (0, 0))
    manifest = Manifest(recording.folder)
    manifest.refresh()
    assert unlisted_names(recording.folder, manifest) == [path.name]
    assert list_unlisted(recording.folder, manifest) == []
    assert path.exists()
    assert len(recording.segments()) == 1
