from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.errors import RecordingError
from skerry.runtime.recordings.places import Place
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.uploads import upload_recording
from skerry.spark.jobs.stream import BATCH_ROWS, Progress, Stream, backlog
from skerry.spark.lake import Lake
from tests.spark.lakes import Teller, record

T: Any = skerry.define_types("struct T { 1: [key] uint8 a; }").T
NO_SPARK: Any = None


def test_backlog_is_what_lies_after_the_lines_that_were_seen(tmp_path: Path) -> None:
    teller = Teller()
    for count in (2, 3):
        record(tmp_path, [teller.create(T(a=n)) for n in range(count)], T)
    (recording,) = open_recordings(tmp_path)
    rows = [segment.rows for segment in recording.segments()]
    assert backlog([str(tmp_path)], {}) == sum(rows) > 5, "descriptions are rows as well"
    second = recording.segments()[1].line
    assert backlog([str(tmp_path)], {recording.id: second}) == rows[1]
    assert backlog([str(tmp_path)], {recording.id: second + 1}) == 0


def test_folder_without_recordings_is_refused_before_anything_starts(tmp_path: Path) -> None:
    stream = Stream(Lake(NO_SPARK, tmp_path / "lake"), tmp_path / "nothing")
    with pytest.raises(RecordingError):
        stream.run({"availableNow": True})
    assert not (tmp_path / "lake").exists()


def test_paths_may_be_one_or_several(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    assert Stream(lake, "a").paths == ["a"]
    assert Stream(lake, [tmp_path, "b"], batch_rows=BATCH_ROWS).paths == [str(tmp_path), "b"]


def test_progress_is_a_value() -> None:
    facts: dict[str, Any] = dict.fromkeys(
        ("batch_count", "row_count", "rows_per_s", "backlog_rows", "stages_done", "stages_total"), 1
    )
    assert Progress(**facts) == Progress(**facts)


def test_what_a_process_of_spark_said_is_told_without_all_that_led_to_it(tmp_path: Path) -> None:
    stream = Stream(Lake(NO_SPARK, tmp_path), "a")
    text = "[STREAM_FAILED] it ended: Traceback\n  File x\nskerry.errors.RecordingError: no s3://b"
    assert str(stream._spoken(RuntimeError(text))) == "the job failed: no s3://b"
    assert str(stream._spoken(RuntimeError("it broke\nat x"))) == "the job failed: it broke"
    own = RecordingError("cannot read")
    assert stream._spoken(own) is own


def test_segments_that_are_waited_for_are_told_once(tmp_path: Path, bucket: str) -> None:
    teller = Teller()
    for count in (1, 2):
        record(tmp_path, [teller.create(T(a=n)) for n in range(count)], T)
    place = Place(bucket)
    upload_recording(tmp_path, place)
    (recording,) = open_recordings(tmp_path)
    names = [segment.name for segment in recording.segments()]
    for name in names:
        place.files.delete_file((place / name).path)
    stream = Stream(Lake(NO_SPARK, tmp_path / "lake"), bucket)
    assert sum(1 for _ in stream._recordings.sealed()) == 2
    assert list(stream._recordings.arrived()) == []
    stream._tell_of_absent()
    stream._tell_of_absent()
    told = f"{names[0]} of {bucket} is not there, or not whole yet; what comes after it waits"
    assert list(stream._notices) == [told]
    with pytest.raises(RecordingError, match=f"^{names[0]} of {bucket}"):
        stream._require_all()
    (place / names[0]).write((tmp_path / names[0]).read_bytes())
    assert [segment.name for _, segment in stream._recordings.arrived()] == names[:1]
    stream._tell_of_absent()
    assert list(stream._notices) == [told, told.replace(names[0], names[1])]
    (place / names[1]).write((tmp_path / names[1]).read_bytes())
    stream._tell_of_absent()
    stream._require_all()
    assert len(stream._notices) == 2
