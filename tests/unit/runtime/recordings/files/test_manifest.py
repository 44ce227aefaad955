"""The manifest of a local folder: complete lines only, with numbers that never change."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from skerry.errors import RecordingError
from skerry.recording.index import RecordedBatch, Segment
from skerry.recording.manifest_lines import RECORDING_LINE_BYTES_MAX, ManifestLines, Repair
from skerry.runtime.recordings.files.manifest import MANIFEST_NAME, Manifest
from skerry.runtime.recordings.writer import RECORDING_BATCH_COUNT_MAX


def make_segment(number: int, *, batch_count: int = 2) -> Segment:
    batches = tuple(
        RecordedBatch(
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


def churn(folder: Path, first: int, stop: int) -> None:
    """Add segments, drop each when the next is added, and shorten the manifest now and then."""
    manifest = Manifest(folder, has_batches=False)
    for number in range(first, stop):
        with manifest.locked():
            manifest.add_sealed(make_segment(number), sync=False)
            if number > first:
                manifest.add_dropped(make_segment(number - 1).name, "age", sync=False)
            if number % 5 == 0:
                manifest.shorten(kept=2)


def test_lines_are_read_back_in_order(tmp_path: Path) -> None:
    writer = Manifest(tmp_path)
    repair = Repair(name="x", kept_batches=1, kept_rows=2, lost_bytes=3)
    with writer.locked():
        sealed = writer.add_sealed(make_segment(2), sync=True)
        writer.add_sealed(make_segment(1), sync=False)
        writer.add_repaired(repair, sync=False)
        writer.add_dropped(make_segment(1).name, "age", sync=False)
    reader = Manifest(tmp_path)
    reader.refresh()
    assert list(reader.lines.segments.values()) == [sealed]
    assert sealed == replace(make_segment(2), folder=tmp_path, line=0)
    assert reader.lines.dropped == {make_segment(1).name: "age"}
    (gone,) = reader.lines.dropped_segments.values()
    assert (gone.rows, gone.line, gone.batches) == (make_segment(1).rows, 1, ())
    assert reader.lines.repairs == [repair]
    assert (reader.lines.count, reader.lines.unreadable) == (4, [])


def test_refresh_reads_the_added_lines(tmp_path: Path) -> None:
    reader = Manifest(tmp_path)
    reader.refresh()
    assert reader.lines.count == 0
    add_segments(tmp_path, 0, 2)
    reader.refresh()
    add_segments(tmp_path, 2, 3)
    reader.refresh()
    assert [segment.line for segment in reader.lines.segments.values()] == [0, 1, 2]


def test_incomplete_line_is_ignored_and_cut_off_by_the_next_writer(tmp_path: Path) -> None:
    add_segments(tmp_path, 0, 2)
    path = tmp_path / MANIFEST_NAME
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for size in (first, first + 1, *range(first + 9, len(whole), 50), len(whole) - 1):
        path.write_bytes(whole[:size])
        reader = Manifest(tmp_path)
        reader.refresh()
        assert reader.lines.count == 1, size
    add_segments(tmp_path, 1, 2)
    assert path.read_bytes() == whole


def test_unreadable_lines_are_counted_and_reported(tmp_path: Path) -> None:
    add_segments(tmp_path, 0, 1)
    with (tmp_path / MANIFEST_NAME).open("ab") as file:
        file.write(b'what\n{"sealed": {}}\n{"other": 1}\n[]\n"x"\n')
    add_segments(tmp_path, 1, 2)
    reader = Manifest(tmp_path)
    reader.refresh()
    assert reader.lines.unreadable == [1, 2, 3, 4, 5]
    assert [segment.line for segment in reader.lines.segments.values()] == [0, 6]


def test_manifest_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    add_segments(tmp_path, 0, 2)
    reader = Manifest(tmp_path)
    reader.refresh()
    (tmp_path / MANIFEST_NAME).write_bytes(b"")
    with pytest.raises(RecordingError, match="shorter"):
        reader.refresh()


def test_line_that_could_not_be_written_completely_is_cut_off(
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
    assert (len(reader.lines.segments), reader.lines.unreadable) == (2, [])


def test_writer_keeps_no_batches(tmp_path: Path) -> None:
    add_segments(tmp_path, 0, 1)
    manifest = Manifest(tmp_path, has_batches=False)
    manifest.refresh()
    (segment,) = manifest.lines.segments.values()
    assert (segment.batches, segment.types) == ((), {})
    assert segment.byte_count == make_segment(0).byte_count


@contextmanager
def processes(folder: Path, *work: tuple[str, int, int]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run functions of this file, each in its own process; all have ended on exit."""
    program = (
        "import runpy, sys; from pathlib import Path; _, here, name, folder, *span = sys.argv\n"
        "runpy.run_path(here)[name](Path(folder), *map(int, span))"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, __file__, name, folder, str(first), str(stop)]
        )
        for name, first, stop in work
    ]
    try:
        yield writers
        assert [writer.wait(60) for writer in writers] == [0] * len(work)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


@pytest.mark.slow
def test_several_processes_add_lines_at_once(tmp_path: Path) -> None:
    with processes(tmp_path, *(("add_segments", 100 * n, 100 * n + 50) for n in range(3))):
        pass
    reader = Manifest(tmp_path)
    reader.refresh()
    assert (len(reader.lines.segments), reader.lines.unreadable) == (150, [])


@pytest.mark.slow
def test_line_of_the_largest_segment_is_read_and_a_longer_one_is_not(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path)
    with manifest.locked():
        manifest.add_sealed(make_segment(1, batch_count=RECORDING_BATCH_COUNT_MAX), sync=False)
    # Leaves room for the number that the line gets in a shortened manifest.
    assert (tmp_path / MANIFEST_NAME).stat().st_size < RECORDING_LINE_BYTES_MAX - 32
    with (tmp_path / MANIFEST_NAME).open("ab") as file:
        file.write(b" " * (RECORDING_LINE_BYTES_MAX + 5) + b"{}\n")
    add_segments(tmp_path, 2, 3)
    reader = Manifest(tmp_path)
    reader.refresh()
    assert reader.lines.unreadable == [1]
    assert [segment.line for segment in reader.lines.segments.values()] == [0, 2]


def test_writer_continues_when_the_manifest_was_removed(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, has_batches=False)
    with manifest.locked():
        manifest.add_sealed(make_segment(1), sync=False)
    states = [manifest.is_changed]
    (tmp_path / MANIFEST_NAME).unlink()
    states.append(manifest.is_changed)
    assert states == [False, True]
    with manifest.locked():
        assert (manifest.lines.count, manifest.lines.segments, manifest.lines.last) == (0, {}, None)
        manifest.add_sealed(make_segment(2), sync=False)
    read = Manifest(tmp_path)
    read.refresh()
    assert list(read.lines.segments) == ["01234567-0000000002.arrow"]


def test_last_segment_is_known_with_its_batches(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, has_batches=False)
    with manifest.locked():
        for number in (1, 2):
            manifest.add_sealed(make_segment(number), sync=False)
    assert manifest.lines.last is not None
    assert manifest.lines.last.name == "01234567-0000000002.arrow"
    assert len(manifest.lines.last.batches) == 2


@pytest.mark.slow
def test_no_line_is_lost_when_several_processes_add_and_shorten(tmp_path: Path) -> None:
    reader = Manifest(tmp_path)
    counts = [0]
    work = (("churn", 0, 200), ("churn", 1000, 1200), ("add_segments", 2000, 2100))
    with processes(tmp_path, *work) as writers:
        # A concurrent reader only sees numbers grow, and no unreadable line.
        while any(writer.poll() is None for writer in writers):
            reader.refresh()
            counts.append(reader.lines.count)
            assert reader.lines.unreadable == []
    assert counts == sorted(counts)
    reader.refresh()
    assert reader.lines.count == 2 * 399 + 100
    names = [make_segment(n).name for n in (199, 1199, *range(2000, 2100))]
    assert sorted(reader.lines.segments) == names
    gone = Counter(reader.lines.forgotten.segments) + Counter(reader.lines.dropped.values())
    assert gone == {"age": 2 * 199}
    lines = [segment.line for segment in reader.lines.segments.values()]
    assert lines == sorted(set(lines))


def test_process_that_waits_for_the_lock_of_a_replaced_file_locks_the_new_one(
    tmp_path: Path,
) -> None:
    add_segments(tmp_path, 0, 2)
    writer = Manifest(tmp_path)
    waiting = threading.Thread(target=add_segments, args=(tmp_path, 2, 3))
    with writer.locked():
        waiting.start()
        # The thread may wait for the old file or for the new one; both must work.
        writer.add_dropped(make_segment(0).name, "age", sync=False)
        writer.shorten(kept=0)
        writer.add_sealed(make_segment(5), sync=False)
    waiting.join(60)
    assert not waiting.is_alive()
    reader = Manifest(tmp_path)
    reader.refresh()
    assert {s.name: s.line for s in reader.lines.segments.values()} == {
        make_segment(1).name: 1,
        make_segment(5).name: 3,
        make_segment(2).name: 4,
    }


def test_lock_of_a_file_that_was_replaced_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_segments(tmp_path, 0, 2)
    path = tmp_path / MANIFEST_NAME
    flock, locked = fcntl.flock, []

    def replace_first(file: IO[bytes], kind: int) -> None:
        flock(file, kind)
        locked.append(os.fstat(file.fileno()).st_ino)
        if len(locked) == 1:
            other = path.with_name("other")
            other.write_bytes(path.read_bytes())
            other.rename(path)
        elif len(locked) == 2:
            path.unlink()

    monkeypatch.setattr(fcntl, "flock", replace_first)
    manifest = Manifest(tmp_path)
    with manifest.locked():
        manifest.add_sealed(make_segment(2), sync=False)
    assert len(locked) == 3
    assert locked[-1] == path.stat().st_ino
    assert list(manifest.lines.segments) == [make_segment(2).name]


def test_reader_continues_when_the_file_was_replaced(tmp_path: Path) -> None:
    add_segments(tmp_path, 0, 4)
    writer, reader, late = Manifest(tmp_path), Manifest(tmp_path), Manifest(tmp_path)
    reader.refresh()
    with writer.locked():
        for number in (0, 1):
            writer.add_dropped(make_segment(number).name, "age", sync=False)
        with late.path.open("rb") as old:
            writer.shorten(kept=1)
            # A reader that has the old file open still reads all of it.
            lines = ManifestLines(tmp_path, has_batches=True)
            lines.read(old)
            assert (lines.count, len(lines.dropped)) == (6, 2)
    late.refresh()
    reader.refresh()
    for manifest in (reader, late, writer):
        assert manifest.lines.count == 6
        assert [segment.line for segment in manifest.lines.segments.values()] == [2, 3]
        assert list(manifest.lines.dropped) == [make_segment(1).name]
        assert manifest.lines.forgotten.segments == {"age": 1}
        assert not manifest.is_changed
    with writer.locked():
        writer.add_sealed(make_segment(4), sync=False)
    assert not writer.is_changed
    reader.refresh()
    assert [segment.line for segment in reader.lines.segments.values()] == [2, 3, 6]


def test_file_with_fewer_lines_stays_an_error(tmp_path: Path) -> None:
    add_segments(tmp_path, 0, 1)
    path = tmp_path / MANIFEST_NAME
    path.rename(tmp_path / "short")
    add_segments(tmp_path, 0, 3)
    reader = Manifest(tmp_path)
    reader.refresh()
    path.rename(tmp_path / "long")
    (tmp_path / "short").rename(path)
    for _ in range(2):
        assert reader.is_changed
        with pytest.raises(RecordingError, match="shorter"):
            reader.refresh()
    assert len(reader.lines.segments) == 3
    (tmp_path / "long").rename(path)
    reader.refresh()
    assert len(reader.lines.segments) == 3


def test_shortening_on_a_full_disk_keeps_the_manifest(
    tmp_path: Path, file_size_limit: Callable[[int], AbstractContextManager[None]]
) -> None:
    add_segments(tmp_path, 0, 3)
    path = tmp_path / MANIFEST_NAME
    manifest = Manifest(tmp_path)
    with manifest.locked():
        manifest.add_dropped(make_segment(0).name, "age", sync=False)
        before = path.read_bytes()
        with file_size_limit(300), pytest.raises(OSError, match="too large"):
            manifest.shorten(kept=0)
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == [MANIFEST_NAME]
        assert list(manifest.lines.dropped) == [make_segment(0).name]
        manifest.add_sealed(make_segment(3), sync=False)
    reader = Manifest(tmp_path)
    reader.refresh()
    assert (reader.lines.count, reader.lines.unreadable, len(reader.lines.segments)) == (5, [], 3)


def test_shorter_manifest_keeps_the_mode_of_the_file(tmp_path: Path) -> None:
    add_segments(tmp_path, 0, 1)
    manifest = Manifest(tmp_path)
    for mode in (0o640, 0o666):
        manifest.path.chmod(mode)
        with manifest.locked():
            manifest.shorten(kept=0)
        assert manifest.path.stat().st_mode & 0o777 == mode


def test_unfinished_shorter_manifest_is_removed(
    tmp_path: Path,
) -> None:
    add_segments(tmp_path, 0, 2)
    left_over = tmp_path / f"{MANIFEST_NAME}.new"
    left_over.write_bytes(b'{"shortened": {}}\n{"line": 99}\n')
    manifest = Manifest(tmp_path)
    manifest.refresh()
    assert manifest.lines.count == 2
    with manifest.locked():
        manifest.shorten(kept=0)
    assert not left_over.exists()
    again = Manifest(tmp_path)
    again.refresh()
    assert (again.lines.count, len(again.lines.segments)) == (2, 2)


def test_manifest_is_not_changed_for_the_writer_that_shortened_it(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path)
    for number in range(5):
        with manifest.locked():
            manifest.shorten(kept=0)
            manifest.add_sealed(make_segment(number, batch_count=0), sync=False)
        assert not manifest.is_changed
        assert manifest.lines.count == number + 1
