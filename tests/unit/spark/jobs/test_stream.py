from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.errors import RecordingError
from skerry.runtime.recordings.reader import open_recordings
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
