"""A session that is ready for recordings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import skerry.spark
from skerry.errors import PipelineError
from skerry.spark.startup.session import FILTER_PUSHDOWN, has_package, session, ship_package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_a_second_session_is_the_first(spark: SparkSession) -> None:
    assert skerry.spark.session("local[2]") is spark


def test_settings_are_those_of_the_jobs(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.ui.enabled") == "false"
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_table_of_many_files_is_opened_without_a_job(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own limit is 32 files, above which it starts a task for each."""
    rows = spark.range(40).selectExpr("id", "id as part")
    rows.coalesce(1).write.partitionBy("part").parquet(str(tmp_path / "many"))
    files = [str(path) for path in sorted((tmp_path / "many").rglob("*.parquet"))]
    assert len(files) == 40
    context = spark.sparkContext
    context.setJobGroup("opened", "a table of many files")
    try:
        read = spark.read.schema("id long").parquet(*files)
        jobs = context.statusTracker().getJobIdsForGroup("opened")
    finally:
        # None takes it away, whatever its annotation says.
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert list(jobs) == []
    assert read.count() == 40


def test_register_adds_the_source_to_any_session(spark: SparkSession) -> None:
    spark.conf.set(FILTER_PUSHDOWN, "false")
    skerry.spark.register(spark)
    assert spark.conf.get(FILTER_PUSHDOWN) == "true"
    with pytest.raises(Exception, match="no folder of recordings"):
        spark.read.format("skerry").load()


def test_nothing_is_shipped_to_executors_that_have_the_package(spark: SparkSession) -> None:
    assert has_package(spark)
    assert not ship_package(spark)


def test_an_unusable_java_is_reported_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match="no Java for Spark"):
        session("local[2]")
