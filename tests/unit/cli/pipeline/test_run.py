"""`skerry pipeline run`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.runtime.recordings.reader import open_recordings
from skerry.spark.tables import Tables

pytestmark = pytest.mark.slow
Run = Callable[..., Any]


def test_a_second_run_merges_no_rows(run: Run, lake: Path, recordings: Path) -> None:
    arguments = ("--recordings", recordings, "--tables", lake)
    done = run("pipeline", "run", *arguments, "--json")
    assert done.code == 0
    assert json.loads(done.out) == {
        "rows": 0,
        "read": 0,
        "batches": 0,
        "backlog": 0,
        "damaged": 0,
    }


def test_damage_is_reported_and_fails_only_with_strict(
    run: Run, spark: Any, recordings: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "recordings"
    shutil.copytree(recordings, folder)
    (recording,) = open_recordings(folder)
    (segment,) = recording.segments()
    batch = segment.batches[-1]
    data = bytearray(segment.path.read_bytes())
    data[batch.offset + batch.size // 2] ^= 0xFF
    segment.path.write_bytes(data)
    for code, options in ((0, ()), (1, ("--strict",))):
        lake = tmp_path / f"lake{code}"
        done = run("pipeline", "run", "--recordings", folder, "--tables", lake, "--json", *options)
        assert done.code == code
        assert json.loads(done.out)["damaged"] == 1
        assert f"segment {segment.name} is damaged" in done.err
        assert "raw" in Tables(spark, lake).names(), "the gap is a row in either case"
    assert "1 segment is damaged; all other rows are in the tables" in done.err


def test_folder_without_recordings_is_an_error(run: Run, spark: Any, tmp_path: Path) -> None:
    done = run("pipeline", "run", "--recordings", tmp_path / "none", "--tables", tmp_path / "lake")
    assert done.code == 1
    assert "error:" in done.err
    assert "Traceback" not in done.err
