from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from skerry.spark.jobs.batch import stale_snapshots
from skerry.spark.lake.data_files import TableChange
from skerry.spark.lake.lake import Lake, delta_schema
from tests.unit.spark.deltas import data_file
from tests.unit.spark.lake.test_lake import STATE

NO_SPARK: Any = None


def test_snapshots_that_reach_past_the_first_change_are_dropped(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    name = f"snapshots/{STATE.table}"
    schema = pa.schema([(n, pa.int64()) for n in ("order_ns", "edge_ns", "until_ns")])
    files = tuple(
        replace(
            data_file(tmp_path, name, f"{edge}.parquet", 1),
            parts={"edge_ns": str(edge), "until_ns": str(edge + 10)},
        )
        for edge in (0, 10, 20)
    )
    lake.table(name).commit(
        TableChange(
            table=name,
            schema=delta_schema(schema),
            divided_by=("edge_ns", "until_ns"),
            added=files,
        ),
        application="x",
        version=0,
    )
    assert sorted(stale_snapshots(lake, STATE, 15)) == ["10.parquet", "20.parquet"]
    assert sorted(stale_snapshots(lake, STATE, 20)) == ["20.parquet"]
    assert stale_snapshots(lake, STATE, 30) == ()
