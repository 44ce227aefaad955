from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skerry.errors import PipelineError
from skerry.spark.jobs.maintenance import Compacted, compact, compact_table
from skerry.spark.lake.data_files import TableChange
from skerry.spark.lake.lake import Lake, delta_schema

NO_SPARK: Any = None
COLUMNS = "order_ns long, day string, type string"
RAW = delta_schema(
    pa.schema([("order_ns", pa.int64()), ("day", pa.string()), ("type", pa.string())])
)


@pytest.mark.slow
def test_small_files_of_a_part_become_one(spark: Any, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path)
    table = lake.table("raw")
    for number in range(3):
        frame = spark.createDataFrame([(9 - number, "d", "x")], COLUMNS)
        files = table.stage(frame, ["day", "type"], label="b")
        work = TableChange(table="raw", schema=RAW, divided_by=("day", "type"), added=tuple(files))
        table.commit(work, application="x", version=number)
    done: dict[str, Compacted] = compact(lake)
    assert done == {"raw": (3, 1)}
    assert [row.order_ns for row in table.frame(spark).collect()] == [7, 8, 9]
    assert compact_table(lake, "raw") == (0, 0)
    assert table.version_of("x") == 2


def test_compaction_is_rejected_during_a_write(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, tmp_path)
    with Lake(NO_SPARK, tmp_path).writing(), pytest.raises(PipelineError, match="another job"):
        compact(lake)
