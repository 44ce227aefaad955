from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from skerry.errors import PipelineError
from skerry.runtime.clock import wall_ns
from skerry.spark.jobs.maintenance import clean_up, maintain, make_snapshots
from skerry.spark.lake.lake import KEEP_HOURS, Lake, LakeConfig
from skerry.spark.lake.plans import Plan
from tests.unit.spark.deltas import change, data_file
from tests.unit.spark.lake.test_lake import STATE

NO_SPARK: Any = None


def test_small_tables_are_left_as_they_are(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    work = change("links", data_file(tmp_path, "links", "a.parquet", 1))
    plan = Plan(number=0, changes=(work,))
    lake.commit_plan(plan)
    maintain(lake, plan)
    assert len(lake.table("links").files()) == 1
    assert make_snapshots(lake, STATE) == 0


HOUR_NS = 3_600_000_000_000


def orphan_in(root: Path) -> Path:
    """A file that no table names, of long ago."""
    data_file(root, "links", "dead/x.parquet", 1)
    path = root / "links/dead/x.parquet"
    os.utime(path, (1, 1))
    return path


def lake_of(root: Path, hours: float | None = KEEP_HOURS) -> Lake:
    lake = Lake(NO_SPARK, root, LakeConfig(vacuum_hours=hours))
    lake.table("links").rewrite(change("links", data_file(root, "links", "a.parquet", 1)))
    return lake


def at(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    """From now on it is so many hours later."""
    later = wall_ns() + int(hours * HOUR_NS)
    monkeypatch.setattr("skerry.spark.jobs.maintenance.wall_ns", lambda: later)


def test_files_that_no_table_names_are_deleted_once_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(tmp_path)
    orphan = orphan_in(tmp_path)
    clean_up(lake)
    at(monkeypatch, 23.9)
    clean_up(lake)
    assert orphan.exists()
    at(monkeypatch, 24.1)
    with lake.writing():
        clean_up(lake)
    assert not orphan.exists()
    assert [file.path for file in lake.table("links").files()] == ["a.parquet"]
    orphan = orphan_in(tmp_path)
    clean_up(lake)
    assert orphan.exists()
    # A clock that was set back, or a file that says nothing, must not end it for ever.
    at(monkeypatch, -48)
    clean_up(lake)
    assert not orphan.exists()
    for garbage in (b"garbage", b"\xff\xfe"):
        orphan = orphan_in(tmp_path)
        (tmp_path / "_skerry/cleaned").write_bytes(garbage)
        clean_up(lake)
        assert not orphan.exists()


def test_automatic_vacuum_can_be_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_of(tmp_path, None)
    orphan = orphan_in(tmp_path)
    clean_up(lake)
    at(monkeypatch, 48)
    clean_up(lake)
    assert orphan.exists()


@pytest.mark.parametrize("kind", [PermissionError, PipelineError], ids=["here", "elsewhere"])
def test_a_failed_deletion_is_logged_and_does_not_end_the_job(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: type[Exception],
) -> None:
    lake = lake_of(tmp_path)
    orphan_in(tmp_path)
    clean_up(lake)
    at(monkeypatch, 25)

    def refuse(_name: str) -> None:
        raise kind("not yours")

    monkeypatch.setattr(lake.store, "delete", refuse)
    clean_up(lake)
    (record,) = caplog.records
    assert record.__dict__["detail"] == "not yours"
    caplog.clear()
    clean_up(lake)
    assert not caplog.records, "it is tried again in a day"
