"""Recordings on an object store, brought into tables as those of a folder are."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.cli.main import main
from skerry.errors import PipelineError, RecordingError
from skerry.runtime.recordings.files.manifest import MANIFEST_NAME
from skerry.runtime.recordings.files.remote_paths import RemotePath
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.uploads import upload_recording
from skerry.spark.jobs.loop import Progress, follow, run_all
from skerry.spark.lake.lake import Lake
from skerry.spark.source.options import read_options
from skerry.spark.source.planning import segments
from tests.object_store import ObjectStore
from tests.spark.lakes import BARE, MANY, BothTables, Emitter, record

pytestmark = pytest.mark.slow

Buoy: Any = skerry.define_types("struct Buoy { 1: [key] uint32 id; 2: string text; }").Buoy


def segment_names(folder: Path) -> list[str]:
    return [segment.name for found in open_recordings(folder) for segment in found.segments()]


def rows_of(spark: Any, lake: Path) -> dict[str, list[Any]]:
    """All rows of all tables."""
    tables = BothTables(spark, lake)
    return {name: sorted(map(str, tables.frame(name).collect())) for name in tables.names()}


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Two recordings of a space, of two segments each."""
    for node in (1, 2):
        emitter = Emitter(node=node, sender=node)
        folder = tmp_path / "recordings" / f"r{node}"
        record(folder, [emitter.create(Buoy(id=n, text="new")) for n in range(5)], Buoy)
        record(folder, [emitter.update(Buoy(id=2, text="moved")), emitter.remove(Buoy(id=3))], Buoy)
    return tmp_path / "recordings"


def test_tables_of_a_bucket_are_those_of_the_folder_it_was_copied_from(
    spark: Any, recordings: Path, bucket: str, tmp_path: Path
) -> None:
    place = RemotePath(bucket.replace("s3://", "s3a://")) / "recordings"
    for folder in sorted(recordings.iterdir()):
        upload_recording(folder, place / folder.name)
    # One is read by the driver, the other by tasks.
    run_all(Lake(spark, tmp_path / "here", BARE), recordings)
    done = run_all(Lake(spark, tmp_path / "there", MANY), str(place))
    assert (done.row_count, done.backlog_rows, done.notices) == (14, 0, ())
    assert rows_of(spark, tmp_path / "there") == rows_of(spark, tmp_path / "here")
    # Two places instead of the one that has both: nothing comes twice.
    each = [f"{place}/{folder.name}" for folder in sorted(recordings.iterdir())]
    assert run_all(Lake(spark, tmp_path / "there", BARE), each).row_count == 0


def test_losses_before_the_copy_are_the_same_gaps_in_the_tables(
    spark: Any,
    recordings: Path,
    bucket: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder, place = recordings / "r1", RemotePath(bucket) / "r1"
    first = open_recordings(folder)[0].segments()[0]
    first.path.write_bytes(first.path.read_bytes()[: -first.batches[-1].size])
    assert len(upload_recording(folder, place).warnings) == 1
    for name, source in (("here", folder), ("there", place)):
        done = run_all(Lake(spark, tmp_path / name, BARE), str(source))
        assert (done.damaged_count, done.backlog_rows, len(done.notices)) == (1, 0, 1)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    there = rows_of(spark, tmp_path / "there")
    assert there == rows_of(spark, tmp_path / "here")
    assert len(there["raw"]) == 1


def test_no_row_is_skipped_if_an_older_manifest_was_copied_last(
    recordings: Path, bucket: str
) -> None:
    folder, place = recordings / "r1", RemotePath(bucket) / "r1"
    upload_recording(folder, place)
    recording = open_recordings(str(place))[0]
    ranges = json.dumps([(recording.id, 0, len(recording.segments()))])
    older = (folder / MANIFEST_NAME).read_bytes().splitlines(keepends=True)[0]
    (place / MANIFEST_NAME).write(older)
    options = read_options({"paths": json.dumps([str(place)]), "range": ranges})
    with pytest.raises(PipelineError, match="fewer lines than when this batch began") as caught:
        list(segments(options))
    assert "copy the recording again" in str(caught.value.hint)


def test_the_source_reads_a_bucket(spark: Any, recordings: Path, bucket: str) -> None:
    upload_recording(recordings / "r1", RemotePath(bucket) / "r1")
    rows = spark.read.format("skerry").option("type", "Buoy").load(f"{bucket}/r1")
    assert rows.count() == 7
    assert rows.where("id = 2").count() == 2
    files = spark.read.format("skerry").load(f"file://{recordings}/r1")
    stored = spark.read.format("skerry").load(f"{bucket}/r1")
    assert sorted(map(str, stored.collect())) == sorted(map(str, files.collect()))


def test_follow_merges_copied_segments_and_waits_for_missing_ones(
    spark: Any, recordings: Path, bucket: str, tmp_path: Path, object_store: ObjectStore
) -> None:
    """As where a tool copies the manifest before what it names."""
    folder, place = recordings / "r1", f"{bucket}/r1"
    emitter = Emitter(node=1, sender=1)
    emitter.position = emitter.sequence = 7
    record(folder, [emitter.update(Buoy(id=1, text="third"))], Buoy)
    object_store.put_folder(folder, place)
    second = segment_names(folder)[1]
    object_store.delete(f"{place}/{second}")
    waiting = [[emitter.update(Buoy(id=1, text="fourth"))]]
    seen: list[Progress] = []

    def watch(progress: Progress) -> None:
        seen.append(progress)
        if progress.row_count == 5 and progress.notices:
            assert progress.backlog_rows
            object_store.put(f"{place}/{second}", (folder / second).read_bytes())
        if progress.row_count == 8 and waiting:
            record(folder, waiting.pop(), Buoy)
            upload_recording(folder, RemotePath(place))

    lake = Lake(spark, tmp_path / "lake", BARE)
    done = follow(
        lake, place, on_progress=watch, is_stopping=lambda: seen[-1].row_count == 9, interval_s=0.2
    )
    assert (done.row_count, done.backlog_rows) == (9, 0)
    notice = (
        f"segment {second} of {place} is missing or incomplete; "
        "later segments of the recording wait for it"
    )
    assert list(done.notices) == [notice]
    latest = BothTables(spark, tmp_path / "lake").frame("latest/Buoy").where("id = 1").collect()
    assert [row.text for row in latest] == ["fourth"]
    assert not [name for name in object_store.names(place) if "followers" in name]


def test_run_fails_where_a_segment_is_missing_and_passes_over_one_that_is_damaged(
    spark: Any, recordings: Path, bucket: str, tmp_path: Path, object_store: ObjectStore
) -> None:
    folder, place = recordings / "r1", f"{bucket}/r1"
    object_store.put_folder(folder, place)
    second = open_recordings(folder)[0].segments()[1]
    object_store.delete(f"{place}/{second.name}")
    with pytest.raises(
        RecordingError, match=f"^segment {second.name} of {place} is missing"
    ) as caught:
        run_all(Lake(spark, tmp_path / "lake", BARE), place)
    assert "copy it and run again" in str(caught.value.hint)
    tables = BothTables(spark, tmp_path / "lake")
    assert tables.frame("updates/Buoy").count() == 5
    # A batch read of the whole recording fails instead of returning a part.
    with pytest.raises(Exception, match="there is no such file"):
        spark.read.format("skerry").load(place).count()
    data = bytearray(second.path.read_bytes())
    data[second.batches[-1].offset + second.batches[-1].size // 2] ^= 0x55
    object_store.put(f"{place}/{second.name}", bytes(data))
    done = run_all(Lake(spark, tmp_path / "lake", BARE), place)
    assert (done.row_count, done.damaged_count) == (1, 1)
    assert tables.frame("raw").count() == 1, "the missing updates are a gap"
    with pytest.raises(Exception, match=rf"batch \d of {place}/{second.name} is damaged"):
        spark.read.format("skerry").option("strict", "true").load(place).count()


def test_unreadable_input_is_reported_before_the_start(
    spark: Any,
    bucket: str,
    tmp_path: Path,
    object_store: ObjectStore,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lake = Lake(spark, tmp_path / "lake", BARE)
    with pytest.raises(RecordingError, match="there is no bucket not-made"):
        run_all(lake, "s3a://not-made/recordings")
    with pytest.raises(RecordingError, match=f"there is no folder {bucket}/none"):
        run_all(lake, f"{bucket}/none")
    with object_store.locked(), pytest.raises(RecordingError, match="credentials"):
        run_all(lake, f"{bucket}/none")
    command = ["pipeline", "run", "--tables", str(tmp_path / "lake"), "--recordings"]
    assert main([*command, "s3a://not-made/recordings"]) == 1
    assert "hint:  create it, or name another" in capsys.readouterr().err
    assert not (tmp_path / "lake").exists()


def test_missing_jars_for_remote_tables_are_reported(
    spark: Any, recordings: Path, bucket: str
) -> None:
    """Spark comes without what it needs for s3a, and these tests have no way to fetch it."""
    version = spark.sparkContext._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    for place in (bucket, bucket.replace("s3://", "s3a://")):
        with pytest.raises(PipelineError, match="no file system for s3a://") as caught:
            run_all(Lake(spark, f"{place}/lake", BARE), recordings)
        assert f"hadoop-aws:{version}" in str(caught.value.hint)
    assert RemotePath(bucket).sizes() == {}
    with pytest.raises(PipelineError, match="no file system for s3a://"):
        BothTables(spark, f"{bucket}/lake")
