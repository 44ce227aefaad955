from __future__ import annotations

from pathlib import Path
from typing import Any

from skerry.spark.jobs.batch import Range, process_batch
from skerry.spark.lake.lake import Lake
from skerry.spark.lake.plans import Plan
from tests.unit.spark.deltas import change, data_file

NO_SPARK: Any = None
RANGE: Range = ("5b1f", 0, 1)


def test_batch_that_was_planned_is_carried_out_and_not_made_again(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    work = change("links", data_file(tmp_path, "links", "a.parquet", 1))
    plan = Plan(number=0, offsets={"5b1f": 1}, changes=(work,), row_count=1)
    lake.write_plan(plan)
    assert not lake.table("links").exists()
    assert process_batch(lake, ["nowhere"], [RANGE]) == plan
    assert lake.table("links").exists()
