from __future__ import annotations

from pathlib import Path
from typing import Any

from skerry.spark.jobs.maintenance import maintain, make_snapshots
from skerry.spark.lake import Lake, Plan
from tests.unit.spark.deltas import change, data_file
from tests.unit.spark.test_lake import STATE

NO_SPARK: Any = None


def test_small_tables_are_left_as_they_are(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    work = change("links", data_file(tmp_path, "links", "a.parquet", 1))
    plan = Plan(number=0, changes=(work,))
    lake.carry_out(plan)
    maintain(lake, plan)
    assert len(lake.table("links").files()) == 1
    assert make_snapshots(lake, STATE) == 0
