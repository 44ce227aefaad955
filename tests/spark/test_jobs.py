"""Jobs as people start them: all there is, what comes, and a disk that is full."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.errors import PipelineError
from skerry.spark.jobs.compact import compact
from skerry.spark.jobs.follow import follow
from skerry.spark.jobs.run import run_all
from skerry.spark.jobs.stream import Progress
from skerry.spark.jobs.vacuum import vacuum
from skerry.spark.lake import Lake
from skerry.spark.tables import Tables
from tests.spark.lakes import BARE, Pipeline, Teller, record

Buoy: Any = skerry.define_types("struct Buoy { 1: [key] uint32 id; 2: string text; }").Buoy


@pytest.mark.slow
def test_run_brings_in_what_is_new_and_ends(spark: Any, tmp_path: Path) -> None:
    folder = record(tmp_path / "recordings", [])
    lake = Lake(spark, tmp_path / "lake")
    assert run_all(lake, folder).row_count == 0
    teller = Teller()
    record(folder, [teller.create(Buoy(id=n)) for n in range(3)], Buoy)
    seen: list[Progress] = []
    assert run_all(lake, folder, on_progress=seen.append).row_count == 3
    assert seen[-1].backlog_rows == 0
    assert run_all(lake, folder).row_count == 0
    tables = Tables(spark, tmp_path / "lake")
    assert {"alarms", "latest/Buoy", "links", "rates", "sessions"} <= set(tables.names())
    updates = tables.frame("rates").where("type = 'Buoy'").selectExpr("sum(updates) n").first()
    assert updates is not None
    assert updates.n == 3


@pytest.mark.slow
def test_follow_brings_in_what_comes_until_it_is_stopped(spark: Any, tmp_path: Path) -> None:
    teller = Teller()
    folder = record(tmp_path / "recordings", [teller.create(Buoy(id=1))], Buoy)
    waiting = [[teller.update(Buoy(id=1, text="later"))]]
    rows: list[int] = []

    def watch(progress: Progress) -> None:
        rows.append(progress.row_count)
        if progress.row_count == 1 and waiting:
            record(folder, waiting.pop(), Buoy)

    lake = Lake(spark, tmp_path / "lake", BARE)
    done = follow(
        lake, folder, on_progress=watch, is_stopping=lambda: rows[-1:] == [2], interval_s=0.2
    )
    assert (done.row_count, done.batch_count) == (2, 2)
    assert [
        row.text for row in Tables(spark, tmp_path / "lake").frame("latest/Buoy").collect()
    ] == ["later"]
    files = len(lake.table("updates/Buoy").files())
    assert compact(lake)["updates/Buoy"] == (files, 1)
    assert vacuum(lake, 0).file_count >= files
    assert Tables(spark, tmp_path / "lake").frame("updates/Buoy").count() == 2


@pytest.mark.slow
def test_full_disk_is_said_and_leaves_nothing_half_done(spark: Any, tmp_path: Path) -> None:
    teller = Teller()
    folder = tmp_path / "recordings"
    texts = [f"{n:05}" * 40 for n in range(2000)]
    record(folder, [teller.create(Buoy(id=n, text=t)) for n, t in enumerate(texts)], Buoy)
    pipeline = Pipeline(spark, folder, tmp_path / "lake")
    process = spark.sparkContext._gateway.proc.pid
    limits = resource.prlimit(process, resource.RLIMIT_FSIZE)
    # No file may grow beyond this, which for who writes is as good as a full disk.
    resource.prlimit(process, resource.RLIMIT_FSIZE, (8192, limits[1]))
    try:
        with pytest.raises(PipelineError, match="there is no room") as caught:
            pipeline.run()
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, limits)
    assert "make room" in str(caught.value.hint)
    assert pipeline.lake.names() == []
    assert not list((tmp_path / "lake").rglob("*.parquet"))
    assert pipeline.run().row_count == len(texts)
    assert Tables(spark, tmp_path / "lake").frame("latest/Buoy").count() == len(texts)
