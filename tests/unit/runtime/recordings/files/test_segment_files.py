"""The file of a segment that is being written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pytest

from skerry.codec.envelope import Update
from skerry.errors import RecordingError
from skerry.recording.rows import Columns, Rows
from skerry.recording.scanning import scan
from skerry.runtime.recordings.files.segment_files import (
    SegmentFile,
    map_file,
    read_open,
    write_all,
)

ID = "0123456789abcdef"
UpdateOf = Callable[..., Update]


def columns_of(*updates: Update) -> Columns:
    rows = Rows()
    for update in updates:
        rows.append_update(update)
    return rows.take()


def test_sealed_file_is_a_stream_with_all_batches(tmp_path: Path, update_of: UpdateOf) -> None:
    file = SegmentFile(tmp_path, recording=ID, number=3)
    assert [path.name for path in tmp_path.iterdir()] == ["01234567-0000000003.arrow.open"]
    first = file.write(columns_of(update_of(1), update_of(2)))
    file.sync()
    second = file.write(columns_of(update_of(3)))
    segment = file.seal(sync=True)
    assert segment.name == "01234567-0000000003.arrow"
    assert segment.batches == (first.batch, second.batch)
    assert segment.byte_count == segment_size(tmp_path / segment.name)
    table = pa.ipc.open_stream((tmp_path / segment.name).read_bytes()).read_all()
    assert table.column("position").to_pylist() == [1, 2, 3]


def segment_size(path: Path) -> int:
    return path.stat().st_size


def test_incomplete_batch_is_removed(
    tmp_path: Path,
    update_of: UpdateOf,
    file_size_limit: Callable[[int], AbstractContextManager[None]],
) -> None:
    file = SegmentFile(tmp_path, recording=ID, number=1)
    file.write(columns_of(update_of(1)))
    size = file.size
    with file_size_limit(size + 1000), pytest.raises(OSError, match="too large"):
        file.write(columns_of(update_of(2)))
    assert segment_size(next(tmp_path.iterdir())) == file.size == size
    file.write(columns_of(update_of(3)))
    segment = file.seal(sync=False)
    table = pa.ipc.open_stream((tmp_path / segment.name).read_bytes()).read_all()
    assert table.column("position").to_pylist() == [1, 3]


def test_end_marker_that_could_not_be_written_is_removed(
    tmp_path: Path,
    update_of: UpdateOf,
    file_size_limit: Callable[[int], AbstractContextManager[None]],
) -> None:
    file = SegmentFile(tmp_path, recording=ID, number=1)
    file.write(columns_of(update_of(1)))
    with file_size_limit(file.size), pytest.raises(OSError, match="too large"):
        file.seal(sync=False)
    file.write(columns_of(update_of(2)))
    segment = file.seal(sync=False)
    assert segment.rows == 2


def test_segment_that_cannot_be_renamed_can_continue(tmp_path: Path, update_of: UpdateOf) -> None:
    file = SegmentFile(tmp_path, recording=ID, number=1)
    file.write(columns_of(update_of(1)))
    obstacle = tmp_path / "01234567-0000000001.arrow"
    obstacle.mkdir()
    with pytest.raises(IsADirectoryError):
        file.seal(sync=False)
    obstacle.rmdir()
    file.write(columns_of(update_of(2)))
    assert [c.batch.rows for c in scan(map_file(file.seal(sync=False).path)).contents] == [1, 1]


def test_segment_without_space_for_its_header_is_removed(
    tmp_path: Path, file_size_limit: Callable[[int], AbstractContextManager[None]]
) -> None:
    with file_size_limit(100), pytest.raises(OSError, match="too large"):
        SegmentFile(tmp_path, recording=ID, number=1)
    assert list(tmp_path.iterdir()) == []


def test_number_in_use_is_rejected(tmp_path: Path) -> None:
    file = SegmentFile(tmp_path, recording=ID, number=1)
    with pytest.raises(FileExistsError):
        SegmentFile(tmp_path, recording=ID, number=1)
    file.discard()
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_files_are_mapped_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with path.open("wb") as file:
        write_all(file.fileno(), b"abc" * 1000, 0)
    assert bytes(map_file(path)) == bytes(read_open(path)) == b"abc" * 1000
    path.write_bytes(b"")
    assert bytes(map_file(path)) == b""
    for look in (map_file, read_open):
        with pytest.raises(RecordingError, match="cannot read"):
            look(tmp_path / "missing")
