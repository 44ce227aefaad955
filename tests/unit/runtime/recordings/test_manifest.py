"""The manifest: lines that count when they are whole, and are never changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from skerry.errors import RecordingError
from skerry.limits import RECORDING_BATCH_COUNT_MAX, RECORDING_LINE_BYTES_MAX
from skerry.recording.index import Batch, Segment
from skerry.runtime.recordings.manifest import MANIFEST_NAME, Manifest, Repair


def make_segment(number: int, *, batch_count: int = 2) -> Segment:
    batches = tuple(
        Batch(
            offset=index,
            size=8,
            rows=3,
            crc=2**32 - 1,
            time_min_ns=2**62 + index,
            time_max_ns=2**62 + index,
            position_min=2**62,
            position_max=2**62,
            types=("A", "B"),
            has_descriptors=index == 0,
        )
        for index in range(batch_count)
    )
    return Segment(
        folder=Path(),
        name=f"01234567-{number:010d}.arrow",
        line=-1,
        rows=3 * batch_count,
        byte_count=8 * batch_count,
        time_min_ns=2**62,
        time_max_ns=2**62 + batch_count,
        types={"A": 3, "B": 3 * batch_count - 3},
        fingerprints={"A": (1, -2)},
        batches=batches,
    )


def add_segments(folder: Path, first: int, stop: int) -> None:
    manifest = Manifest(folder)
    for number in range(first, stop):
        with manifest.locked():
            manifest.add_sealed(make_segment(number), sync=False)


def test_lines_come_back_in_their_order(tmp_path: Path) -> None:
    writer = Manifest(tmp_path)
    repair = Repair(name="x", kept_batches=1, kept_rows=2, lost_bytes=3)
    with writer.locked():
        sealed = writer.add_sealed(make_segment(2), sync=True)
        writer.add_sealed(make_segment(1), sync=False)
        writer.add_repaired(repair, sync=False)
        writer.add_dropped(make_segment(1).name, "age", sync=False)
    reader = Manifest(tmp_path)
    reader.refresh()
    assert list(reader.segments.values()) == [sealed]
    assert sealed == replace(make_segment(2), folder=tmp_path, line=0)
    assert reader.dropped == {make_segment(1).name: "age"}
    (gone,) = reader.gone.values()
    assert (gone.rows, gone.line, gone.batches) == (make_segment(1).rows, 1, ())
    assert reader.repairs == [repair]
    assert (reader.line_count, reader.unreadable) == (4, [])


def test_refresh_reads_what_was_added(tmp_path: Path) -> None:
    reader = Manifest(tmp_path)
    reader.refresh()
    assert reader.line_count == 0
    add_segments(tmp_path, 0, 2)
    reader.refresh()
    add_segments(tmp_path, 2, 3)
    reader.refresh()
    assert [segment.line for segment in reader.segments.values()] == [0, 1, 2]


def test_half_a_line_does_not_count_and_is_cut_off_by_the_next(tmp_path: Path) -> None:
    add_segments(tmp_path, 0, 2)
    path = tmp_path / MANIFEST_NAME
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for size in (first, first + 1, *range(first + 9, len(whole), 50), len(whole) - 1):
        path.write_bytes(whole[:size])
        reader = Manifest(tmp_path)
        reader.refresh()
        assert reader.line_count == 1, size
    add_segments(tmp_path, 1, 2)
    assert path.read_bytes() == whole


def test_line_that_says_nothing_is_counted_and_told(tmp_path: Path) -> None:
    add_segments(tmp_path, 0, 1)
    with (tmp_path / MANIFEST_NAME).open("ab") as file:
        file.write(b'what\n{"sealed": {}}\n{"other": 1}\n[]\n"x"\n')
    add_segments(tmp_path, 1, 2)
    reader = Manifest(tmp_path)
    reader.refresh()
    assert reader.unreadable == [1, 2, 3, 4, 5]
    assert [segment.line for segment in reader.segments.values()] == [0, 6]


def test_manifest_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    add_segments(tmp_path, 0, 2)
    reader = Manifest(tmp_path)
    reader.refresh()
    (tmp_path / MANIFEST_NAME).write_bytes(b"")
    with pytest.raises(RecordingError, match="shorter"):
        reader.refresh()


def test_line_that_could_not_be_written_whole_leaves_nothing(
    tmp_path: Path, file_size_limit: Callable[[int], AbstractContextManager[None]]
) -> None:
    add_segments(tmp_path, 0, 1)
    path = tmp_path / MANIFEST_NAME
    before = path.read_bytes()
    manifest = Manifest(tmp_path)
    with manifest.locked():
        with file_size_limit(len(before) + 20), pytest.raises(OSError, match="too large"):
            manifest.add_dropped("x", "age", sync=False)
        assert path.read_bytes() == before
        manifest.add_sealed(make_segment(1), sync=False)
    reader = Manifest(tmp_path)
    reader.refresh()
    assert (len(reader.segments), reader.unreadable) == (2, [])


def test_writer_keeps_no_batches(tmp_path: Path) -> None:
    add_segments(tmp_path, 0, 1)
    manifest = Manifest(tmp_path, has_batches=False)
    manifest.refresh()
    (segment,) = manifest.segments.values()
    assert (segment.batches, segment.types) == ((), {})
    assert segment.byte_count == make_segment(0).byte_count


@pytest.mark.slow
def test_several_add_lines_without_disturbing_each_other(tmp_path: Path) -> None:
    program = (
        "import runpy, sys; from pathlib import Path; _, here, folder, first, stop = sys.argv\n"
        "runpy.run_path(here)['add_segments'](Path(folder), int(first), int(stop))"
    )
    numbers = [(str(100 * n), str(100 * n + 50)) for n in range(3)]
    writers = [
        subprocess.Popen([sys.executable, "-c", program, __file__, tmp_path, *span])
        for span in numbers
    ]
    try:
        assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    reader = Manifest(tmp_path)
    reader.refresh()
    assert (len(reader.segments), reader.unreadable) == (150, [])


@pytest.mark.slow
def test_line_of_the_largest_segment_is_read_and_a_longer_one_is_not(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path)
    with manifest.locked():
        manifest.add_sealed(make_segment(1, batch_count=RECORDING_BATCH_COUNT_MAX), sync=False)
    assert (tmp_path / MANIFEST_NAME).stat().st_size < RECORDING_LINE_BYTES_MAX
    with (tmp_path / MANIFEST_NAME).open("ab") as file:
        file.write(b" " * (RECORDING_LINE_BYTES_MAX + 5) + b"{}\n")
    add_segments(tmp_path, 2, 3)
    reader = Manifest(tmp_path)
    reader.refresh()
    assert reader.unreadable == [1]
    assert [segment.line for segment in reader.segments.values()] == [0, 2]


def test_who_writes_goes_on_with_a_manifest_that_was_removed(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, has_batches=False)
    with manifest.locked():
        manifest.add_sealed(make_segment(1), sync=False)
    states = [manifest.is_cut]
    (tmp_path / MANIFEST_NAME).unlink()
    states.append(manifest.is_cut)
    assert states == [False, True]
    with manifest.locked():
        assert (manifest.line_count, manifest.segments, manifest.last) == (0, {}, None)
        manifest.add_sealed(make_segment(2), sync=False)
    read = Manifest(tmp_path)
    read.refresh()
    assert list(read.segments) == ["01234567-0000000002.arrow"]


def test_last_segment_is_known_with_its_batches(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, has_batches=False)
    with manifest.locked():
        for number in (1, 2):
            manifest.add_sealed(make_segment(number), sync=False)
    assert manifest.last is not None
    assert manifest.last.name == "01234567-0000000002.arrow"
    assert len(manifest.last.batches) == 2
