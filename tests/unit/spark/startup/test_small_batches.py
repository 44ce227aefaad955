from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from skerry.spark.startup.small_batches import FOR_FEW, few_rows


@pytest.mark.slow
def test_settings_for_few_rows_apply_only_within_the_context(spark: Any) -> None:
    before = {name: spark.conf.get(name, None) for name in FOR_FEW}
    with pytest.raises(ValueError, match="amid"), few_rows(spark):
        assert {name: spark.conf.get(name) for name in FOR_FEW} == FOR_FEW
        raise ValueError("amid")
    assert {name: spark.conf.get(name, None) for name in FOR_FEW} == before


@pytest.mark.slow
def test_a_frame_of_one_task_needs_no_shuffle(spark: Any) -> None:
    rows = pa.table({"key": [1, 1, 2], "value": [1, 2, 3]})
    with few_rows(spark):
        frame = spark.createDataFrame(rows).coalesce(1)
        sums = frame.unionByName(frame).groupBy("key").sum("value")
        assert sums.rdd.getNumPartitions() == 1
        assert sorted(tuple(row) for row in sums.collect()) == [(1, 6), (2, 6)]
