from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from skerry.errors import PipelineError
from skerry.spark.jobs.maintenance import Vacuumed, vacuum
from skerry.spark.lake.lake import KEEP_HOURS, Lake, LakeConfig
from skerry.spark.lake.plans import Plan
from tests.object_store import ObjectStore
from tests.unit.spark.deltas import change, data_file, stored_file

NO_SPARK: Any = None


def lake_with(root: Path) -> Lake:
    """A table with a file of an old version, one of now, and one that never came to be."""
    lake = Lake(NO_SPARK, root)
    files = [data_file(root, "t", f"{name}/x.parquet", 1) for name in ("old", "now", "orphan")]
    table = lake.table("t")
    table.commit(change("t", files[0]), application="x", version=0)
    table.commit(change("t", files[1], removed=("old/x.parquet",)), application="x", version=1)
    return lake


def test_files_that_no_table_names_are_deleted(tmp_path: Path) -> None:
    lake = lake_with(tmp_path)
    assert vacuum(lake, 0, dry_run=True).file_count == 2
    done = vacuum(lake, 0)
    assert isinstance(done, Vacuumed)
    assert done.file_count == 2
    assert done.byte_count > 0
    assert [path.parent.name for path in tmp_path.glob("t/*/*.parquet")] == ["now"]
    assert not (tmp_path / "t" / "orphan").exists()
    assert vacuum(lake, 0).file_count == 0


def test_young_files_are_left_alone(tmp_path: Path) -> None:
    lake = lake_with(tmp_path)
    assert vacuum(lake).file_count == 0
    for path in tmp_path.glob("t/*/*.parquet"):
        os.utime(path, (1, 1))
    # The one of the old version was in the table until now.
    assert vacuum(lake, KEEP_HOURS).file_count == 1
    assert not (tmp_path / "t" / "orphan").exists()


def test_files_of_a_plan_are_not_orphans(tmp_path: Path) -> None:
    lake = lake_with(tmp_path)
    planned = data_file(tmp_path, "t", "planned/x.parquet", 1)
    lake.write_plan(Plan(number=5, changes=(change("t", planned),)))
    os.utime(tmp_path / "t/planned/x.parquet", (1, 1))
    vacuum(lake, 1)
    assert (tmp_path / "t/planned/x.parquet").exists()


def test_a_short_grace_time_needs_the_writer_lock(tmp_path: Path) -> None:
    lake = lake_with(tmp_path)
    with Lake(NO_SPARK, tmp_path).writing():
        with pytest.raises(PipelineError, match="another job"):
            vacuum(lake, 0.5)
        vacuum(lake, 2)
    with pytest.raises(PipelineError, match="-1 hours"):
        vacuum(lake, -1)


@pytest.mark.slow
def test_a_removal_is_known_after_the_log_was_cut(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path, LakeConfig(log_keep_s=0))
    table = lake.table("t")
    files = [data_file(tmp_path, "t", f"{number}.parquet", number) for number in range(203)]
    for number, file in enumerate(files):
        removed = (files[number - 1].path,) if number else ()
        table.commit(change("t", file, removed=removed), application="x", version=number)
    assert not (tmp_path / f"t/_delta_log/{1:020}.json").exists(), "the log was cut"
    for path in (tmp_path / "t").glob("*.parquet"):
        os.utime(path, (1, 1))
    # All left the table just now: some by what the checkpoint tells, some by what came after it.
    assert vacuum(lake, 1).file_count == 0
    assert vacuum(lake, 0).file_count == len(files) - 1
    assert table.files() == [files[-1]]


def test_remote_files_that_no_table_names_are_deleted(
    bucket: str, object_store: ObjectStore
) -> None:
    lake = Lake(NO_SPARK, f"{bucket}/lake")
    names = ("old", "now", "orphan")
    old, now, _ = [stored_file(lake.store, "t", f"{name}/x.parquet", 1) for name in names]
    table = lake.table("t")
    table.commit(change("t", old), application="x", version=0)
    table.commit(change("t", now, removed=("old/x.parquet",)), application="x", version=1)
    assert vacuum(lake).file_count == 0
    assert vacuum(lake, 0).file_count == 2
    left = [name for name in object_store.names(f"{bucket}/lake/t") if name.endswith(".parquet")]
    assert left == ["now/x.parquet"]
    assert vacuum(lake, 0).file_count == 0
