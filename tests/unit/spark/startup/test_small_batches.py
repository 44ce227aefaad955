from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from skerry.spark.startup.small_batches import FOR_FEW, few_rows, in_one_task


@pytest.mark.slow
def test_settings_are_those_for_few_only_inside(spark: Any) -> None:
    before = {name: spark.conf.get(name, None) for name in FOR_FEW}
    with pytest.raises(ValueError, match="amid"), few_rows(spark):
        assert {name: spark.conf.get(name) for name in FOR_FEW} == FOR_FEW
        raise ValueError("amid")
    assert {name: spark.conf.get(name, None) for name in FOR_FEW} == before


@pytest.mark.slow
def test_what_is_made_of_one_task_needs_no_shuffle(spark: Any) -> None:
    rows = pa.table({"key": [1, 1, 2], "value": [1, 2, 3]})
    with few_rows(spark):
        frame = in_one_task(spark.createDataFrame(rows))
        sums = frame.unionByName(frame).groupBy("key").sum("value")
        assert sums.rdd.getNumPartitions() == 1
        assert sorted(tuple(row) for row in sums.collect()) == [(1, 6), (2, 6)]
