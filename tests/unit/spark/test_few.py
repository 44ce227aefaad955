from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from skerry.spark.few import AT_ONCE, FOR_FEW, few_rows, in_one_task, side_by_side


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


def test_jobs_run_side_by_side_and_answer_in_their_order() -> None:
    both = threading.Barrier(AT_ONCE, timeout=30)

    def job(number: int) -> int:
        both.wait()
        return number

    assert side_by_side([lambda: job(1), lambda: job(2)], AT_ONCE) == [1, 2]


@pytest.mark.parametrize("at_once", [1, AT_ONCE])
def test_failure_of_a_job_is_that_of_all(at_once: int) -> None:
    def fail() -> int:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        side_by_side([fail, lambda: 1], at_once)
