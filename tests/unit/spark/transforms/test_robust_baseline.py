"""Robust scores."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from skerry.spark.transforms.robust_baseline import with_usual

pytestmark = pytest.mark.slow


def scores(spark: SparkSession, values: list[float], unit: float = 1.0) -> list[float]:
    rows = [("a", number, value) for number, value in enumerate(map(float, values))]
    frame = spark.createDataFrame(rows, "name string, number int, x double")
    scored = with_usual(frame, F.col("x"), by=("name",), unit=unit).orderBy("number")
    return [row.score for row in scored.collect()]


def test_one_storm_does_not_hide_itself(spark: SparkSession) -> None:
    found = scores(spark, [100, 110, 90, 105, 95, 9000])
    assert found[-1] > 500
    assert max(found[:-1]) < 2


def test_steady_series_have_a_smallest_distance(spark: SparkSession) -> None:
    found = scores(spark, [100, 100, 100, 100, 101])
    assert found[-1] < 1, "a twentieth of the usual is nothing odd"
    assert scores(spark, [0, 0, 0, 0, 1], unit=10.0)[-1] < 1


def test_groups_and_missing_values_count_for_themselves(spark: SparkSession) -> None:
    rows = [("a", 1.0), ("a", 3.0), ("a", None), ("b", 100.0)]
    frame = spark.createDataFrame(rows, "name string, x double")
    scored = with_usual(frame, F.col("x"), by=("name",), unit=1.0).collect()
    assert {(row.name, row.usual, row["count"]) for row in scored} == {("a", 2, 2), ("b", 100, 1)}
    assert [row.score for row in scored if row.x is None] == [None]
