"""What Spark itself can get to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skerry.errors import PipelineError
from skerry.spark.lake.store import TableStore, require_file_system

NO_SPARK: Any = None


def test_a_local_folder_needs_no_file_system(tmp_path: Path) -> None:
    require_file_system(NO_SPARK, TableStore(tmp_path))


@pytest.mark.slow
def test_an_unknown_file_system_is_reported_with_its_jars(spark: Any, bucket: str) -> None:
    version = spark.sparkContext._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    for root in (bucket, bucket.replace("s3://", "s3a://")):
        with pytest.raises(PipelineError, match="no file system for s3a://") as caught:
            require_file_system(spark, TableStore(root))
        package = f"org.apache.hadoop:hadoop-aws:{version}"
        assert caught.value.hint == f"add the jars: --conf spark.jars.packages={package}"


@pytest.mark.slow
def test_a_known_file_system_is_accepted(spark: Any, bucket: str) -> None:
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set("fs.s3a.impl", "org.apache.hadoop.fs.LocalFileSystem")
    try:
        require_file_system(spark, TableStore(bucket))
    finally:
        configuration.unset("fs.s3a.impl")


@pytest.mark.slow
def test_other_kinds_need_other_jars(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TableStore("gs://anonymous@bucket/lake")
    with pytest.raises(PipelineError, match="no file system for gs://") as caught:
        require_file_system(spark, store)
    assert "the jars for gs://" in str(caught.value.hint)
