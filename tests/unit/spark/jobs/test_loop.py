from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.errors import RecordingError
from skerry.runtime.recordings.files.remote_paths import RemotePath
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.uploads import upload_recording
from skerry.spark.jobs.loop import Loop, Progress, _pipeline_error, backlog
from skerry.spark.lake.lake import Lake
from tests.spark.lakes import Emitter, record

T: Any = skerry.define_types("struct T { 1: [key] uint8 a; }").T
NO_SPARK: Any = None


def test_backlog_is_the_number_of_rows_after_the_offsets(tmp_path: Path) -> None:
    emitter = Emitter()
    for count in (2, 3):
        record(tmp_path, [emitter.create(T(a=n)) for n in range(count)], T)
    (recording,) = open_recordings(tmp_path)
    rows = [segment.rows for segment in recording.segments()]
    assert backlog([str(tmp_path)], {}) == sum(rows) > 5, "descriptions are rows as well"
    second = recording.segments()[1].line
    assert backlog([str(tmp_path)], {recording.id: second}) == rows[1]
    assert backlog([str(tmp_path)], {recording.id: second + 1}) == 0


def test_a_folder_without_recordings_is_rejected_before_the_start(tmp_path: Path) -> None:
    loop = Loop(Lake(NO_SPARK, tmp_path / "lake"), tmp_path / "nothing")
    with pytest.raises(RecordingError):
        loop.run()
    assert not (tmp_path / "lake").exists()


def test_paths_may_be_one_or_several(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    assert Loop(lake, "a").paths == ["a"]
    assert Loop(lake, [tmp_path, "b"], batch_bytes=1).paths == [str(tmp_path), "b"]


def test_the_remaining_time_follows_from_backlog_and_rate() -> None:
    assert Progress(backlog_rows=300, rows_per_s=100.0).left_s == 3.0
    assert Progress(backlog_rows=300).left_s is None


@pytest.mark.parametrize(
    ("text", "notice", "hint"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "the JVM ran out of memory", "--memory"),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            "a Python worker ended, probably because it ran out of memory",
            "--batch-bytes",
        ),
        (
            "Traceback\nskerry.errors.PipelineError: cannot write updates/T: no space left",
            "cannot write updates/T: no space left",
            "free disk space",
        ),
    ],
)
def test_a_failure_has_one_line_and_a_hint(text: str, notice: str, hint: str) -> None:
    error = _pipeline_error(RuntimeError(text))
    assert str(error) == f"the job failed: {notice}"
    assert hint in str(getattr(error, "hint", ""))


def test_errors_of_workers_are_reported_without_tracebacks() -> None:
    text = "[STREAM_FAILED] it ended: Traceback\n  File x\nskerry.errors.RecordingError: no s3://b"
    assert str(_pipeline_error(RuntimeError(text))) == "the job failed: no s3://b"
    text = (
        "[PYTHON_EXCEPTION] An exception was thrown:\nTraceback\n  x\nValueError: no room for y\n"
    )
    assert str(_pipeline_error(RuntimeError(text))) == "the job failed: ValueError: no room for y"
    assert str(_pipeline_error(RuntimeError("it broke\nat x"))) == "the job failed: it broke"
    own = RecordingError("cannot read")
    assert _pipeline_error(own) is own


def test_missing_segments_are_reported_once(tmp_path: Path, bucket: str) -> None:
    emitter = Emitter()
    for count in (1, 2):
        record(tmp_path, [emitter.create(T(a=n)) for n in range(count)], T)
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
    notice = (
        f"segment {names[0]} of {bucket} is missing or incomplete; "
        "later segments of the recording wait for it"
    )
    assert list(notices) == [notice]
    with pytest.raises(RecordingError, match=f"^segment {names[0]} of {bucket}"):
        loop._require_all()
    (place / names[0]).write((tmp_path / names[0]).read_bytes())
    assert [segment.name for _, segment in loop._recordings.arrived()] == names[:1]
    notices += loop._absence_notices()
    assert list(notices) == [notice, notice.replace(names[0], names[1])]
    (place / names[1]).write((tmp_path / names[1]).read_bytes())
    notices += loop._absence_notices()
    loop._require_all()
    assert len(notices) == 2
