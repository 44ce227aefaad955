"""Which segments the next batch of a stream reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows

import skerry
from skerry.codec.envelope import Update
from skerry.errors import PipelineError, RecordingError
from skerry.runtime.recordings.files.followers import is_followed
from skerry.runtime.recordings.files.remote_paths import RemotePath
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.uploads import upload_recording
from skerry.spark.source import stream_source as stream
from skerry.spark.source.data_source import shape_of
from skerry.spark.source.options import ReadOptions, read_options
from skerry.spark.source.planning import Recordings, Runs
from skerry.spark.source.stream_source import StreamReader, next_offset
from tests.object_store import ObjectStore

A: Any = skerry.define_types("struct A { 1: [key] uint8 id; }").A


@pytest.fixture
def add(
    tmp_path: Path, record: Callable[..., Path], update_of: Callable[..., Update]
) -> Callable[[str, int, int], None]:
    """Adds a segment with some rows at a time to the recording of a name."""

    def add(name: str, time_ns: int, count: int = 1) -> None:
        updates = [update_of(A(id=n), time_ns=time_ns + n) for n in range(count)]
        record(tmp_path / "all" / name, updates, types=[A])

    return add


def options(tmp_path: Path, **more: str) -> ReadOptions:
    return read_options({"path": str(tmp_path / "all"), "type": "A", "columns": "time_ns", **more})


def reader_of(tmp_path: Path, **more: str) -> StreamReader:
    chosen = options(tmp_path, **more)
    return StreamReader(chosen, shape_of(chosen))


def times(reader: StreamReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    tasks = reader.partitions(start, end)
    assert all(isinstance(task, Runs) for task in tasks)
    return [time for task in tasks for batch in reader.read(task) for time in batch[0].to_pylist()]


def test_offsets_advance_and_each_segment_is_read_once(tmp_path: Path, add: Any) -> None:
    add("a", 100, 2)
    reader = reader_of(tmp_path)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert times(reader, start, end) == [100, 101]
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert times(reader, end, end) == []
    # What comes while such a query runs waits for the next.
    add("a", 200)
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    later = reader_of(tmp_path)
    later.prepareForTriggerAvailableNow()
    new = later.latestOffset(end, ReadAllAvailable())
    assert times(later, end, new) == [200]
    # A batch that is read again is the same.
    assert times(later, start, end) == [100, 101]


def test_limits_let_in_the_oldest_first_and_always_something(tmp_path: Path, add: Any) -> None:
    for name, time_ns, count in (("a", 100, 5), ("a", 300, 1), ("b", 200, 1), ("b", 400, 1)):
        add(name, time_ns, count)
    waiting = list(Recordings([str(tmp_path / "all")]).sealed())
    ids = {recording.folder.name: recording.id for recording, _ in waiting}
    lines = {
        (recording.folder.name, segment.time_min_ns): segment.line + 1
        for recording, segment in waiting
    }

    def limited(segments_max: int | None, rows_max: int | None) -> dict[str, int]:
        return next_offset({}, waiting, segments_max=segments_max, rows_max=rows_max)

    first = min(line for (name, _), line in lines.items() if name == "a")
    assert limited(1, None) == {ids["a"]: first}
    assert limited(None, 1) == {ids["a"]: first}
    everything = limited(None, None)
    assert everything == {
        ids["a"]: max(line for (name, _), line in lines.items() if name == "a"),
        ids["b"]: max(line for (name, _), line in lines.items() if name == "b"),
    }
    assert limited(99, 999) == everything
    two = limited(2, None)
    assert set(two) == set(ids.values())
    assert next_offset(everything, [], segments_max=1, rows_max=1) == everything


def test_the_limit_is_that_of_the_options_unless_spark_wants_all(tmp_path: Path, add: Any) -> None:
    add("a", 100)
    add("a", 200)
    assert isinstance(reader_of(tmp_path).getDefaultReadLimit(), ReadAllAvailable)
    assert reader_of(tmp_path, maxRows="3").getDefaultReadLimit() == ReadMaxRows(3)
    reader = reader_of(tmp_path, maxSegments="1")
    assert reader.getDefaultReadLimit() == ReadMaxFiles(1)
    reader.prepareForTriggerAvailableNow()
    one = reader.latestOffset({}, reader.getDefaultReadLimit())
    both = reader.latestOffset({}, ReadAllAvailable())
    assert times(reader, {}, one) == [100]
    assert times(reader, one, both) == [200]
    assert reader.reportLatestOffset() == both


def test_followers_are_announced_to_recorders(tmp_path: Path, add: Any) -> None:
    add("a", 100)
    folder = tmp_path / "all" / "a"
    reader = reader_of(tmp_path, follower="me")
    assert not is_followed(folder)
    reader.latestOffset({}, ReadAllAvailable())
    try:
        assert is_followed(folder)
        assert [path.name for path in (folder / "followers").iterdir()] == ["me"]
    finally:
        reader.stop()
    assert not is_followed(folder)


def test_a_follower_that_cannot_be_announced_is_logged_once(
    tmp_path: Path, add: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> None:
        raise RecordingError("the disk is full")

    add("a", 1)
    monkeypatch.setattr(stream, "touch_follower", refuse)
    reader = reader_of(tmp_path, follower="me")
    reader.latestOffset({}, ReadAllAvailable())
    assert reader._presence is not None
    reader._presence._touch()
    reader.stop()
    (record,) = caplog.records
    assert record.getMessage().endswith("recorder: the disk is full")


def test_a_query_of_available_rows_is_not_a_follower(tmp_path: Path, add: Any) -> None:
    add("a", 100)
    reader = reader_of(tmp_path)
    reader.prepareForTriggerAvailableNow()
    reader.latestOffset({}, ReadAllAvailable())
    reader.stop()
    assert not is_followed(tmp_path / "all" / "a")


def test_a_commit_deletes_nothing(tmp_path: Path, add: Any) -> None:
    add("a", 100)
    reader = reader_of(tmp_path)
    reader.prepareForTriggerAvailableNow()
    reader.commit(reader.latestOffset({}, ReadAllAvailable()))
    (recording,) = open_recordings(tmp_path / "all")
    assert recording.segments()[0].path.exists()


def test_no_row_is_skipped_if_an_older_manifest_was_written_last(
    tmp_path: Path, add: Any, bucket: str, object_store: ObjectStore
) -> None:
    add("a", 100)
    place = f"{bucket}/a"
    upload_recording(tmp_path / "all" / "a", RemotePath(place))
    older = object_store.get(f"{place}/manifest.jsonl")
    add("a", 200)
    upload_recording(tmp_path / "all" / "a", RemotePath(place))
    end = reader_of(tmp_path, path=place).latestOffset({}, ReadAllAvailable())
    assert times(reader_of(tmp_path, path=place), {}, end) == [100, 200]
    object_store.put(f"{place}/manifest.jsonl", older)
    with pytest.raises(PipelineError, match="fewer lines than when this batch began"):
        reader_of(tmp_path, path=place).partitions({}, end)
