from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.errors import RecordingError
from skerry.runtime.recordings.files.remote_paths import RemotePath
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.uploads import upload_recording
from skerry.spark.jobs.loop import Loop, Progress, _spoken, backlog
from skerry.spark.lake.lake import Lake
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
    loop = Loop(Lake(NO_SPARK, tmp_path / "lake"), tmp_path / "nothing")
    with pytest.raises(RecordingError):
        loop.run()
    assert not (tmp_path / "lake").exists()


def test_paths_may_be_one_or_several(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    assert Loop(lake, "a").paths == ["a"]
    assert Loop(lake, [tmp_path, "b"], batch_bytes=1).paths == [str(tmp_path), "b"]


def test_time_left_follows_from_what_waits_and_the_rate() -> None:
    assert Progress(backlog_rows=300, rows_per_s=100.0).left_s == 3.0
    assert Progress(backlog_rows=300).left_s is None


@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "the JVM ran out of memory", "--memory"),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            "a Python worker ended, probably for lack of memory",
            "--batch-bytes",
        ),
        (
            "Traceback\nskerry.errors.PipelineError: cannot write updates/T: there is no room",
            "cannot write updates/T: there is no room",
            "make room",
        ),
    ],
)
def test_a_failure_says_in_a_line_what_to_change(text: str, told: str, hint: str) -> None:
    error = _spoken(RuntimeError(text))
    assert str(error) == f"the job failed: {told}"
    assert hint in str(getattr(error, "hint", ""))


def test_what_a_process_of_spark_said_is_told_without_all_that_led_to_it() -> None:
    text = "[STREAM_FAILED] it ended: Traceback\n  File x\nskerry.errors.RecordingError: no s3://b"
    assert str(_spoken(RuntimeError(text))) == "the job failed: no s3://b"
    text = (
        "[PYTHON_EXCEPTION] An exception was thrown:\nTraceback\n  x\nValueError: no room for y\n"
    )
    assert str(_spoken(RuntimeError(text))) == "the job failed: ValueError: no room for y"
    assert str(_spoken(RuntimeError("it broke\nat x"))) == "the job failed: it broke"
    own = RecordingError("cannot read")
    assert _spoken(own) is own


def test_segments_that_are_waited_for_are_told_once(tmp_path: Path, bucket: str) -> None:
    teller = Teller()
    for count in (1, 2):
        record(tmp_path, [teller.create(T(a=n)) for n in range(count)], T)
    place = RemotePath(bucket)
    upload_recording(tmp_path, place)
    (recording,) = open_recordings(tmp_path)
    names = [segment.name for segment in recording.segments()]
    for name in names:
        place.files.delete_file((place / name).path)
    loop = Loop(Lake(NO_SPARK, tmp_path / "lake"), bucket)
    notices: list[str] = []
    assert sum(1 for _ in loop._recordings.sealed()) == 2
    assert list(loop._recordings.arrived()) == []
    notices += loop._absence_notices()
    notices += loop._absence_notices()
    told = f"{names[0]} of {bucket} is not there, or not whole yet; what comes after it waits"
    assert list(notices) == [told]
    with pytest.raises(RecordingError, match=f"^{names[0]} of {bucket}"):
        loop._require_all()
    (place / names[0]).write((tmp_path / names[0]).read_bytes())
    assert [segment.name for _, segment in loop._recordings.arrived()] == names[:1]
    notices += loop._absence_notices()
    assert list(notices) == [told, told.replace(names[0], names[1])]
    (place / names[1]).write((tmp_path / names[1]).read_bytes())
    notices += loop._absence_notices()
    loop._require_all()
    assert len(notices) == 2
