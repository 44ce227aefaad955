"""Checks that Spark has a file system for the folder of the tables: it does not use Arrow's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skerry.errors import PipelineError
from skerry.spark.lake.store import TableStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def require_file_system(spark: SparkSession, store: TableStore) -> None:
    """PipelineError if Spark has no file system for the URI of the tables.

    Checked before anything is written, because the error of the JVM is hard to read.
    """
    from py4j.protocol import Py4JJavaError

    if store.remote_path is None:
        return
    scheme = store.spark_path("").partition("://")[0]
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the only access to Hadoop
    hadoop = jvm.org.apache.hadoop
    configuration = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    try:
        hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
    except Py4JJavaError as error:
        fault = PipelineError(f"Spark cannot use {store.root}: no file system for {scheme}://")
        fault.hint = _hint(scheme, str(hadoop.util.VersionInfo.getVersion()))
        raise fault from error


def _hint(scheme: str, version: str) -> str:
    if scheme == "s3a":
        package = f"org.apache.hadoop:hadoop-aws:{version}"
        return f"add the jars: --conf spark.jars.packages={package}"
    return f"add the jars for {scheme}://: --conf spark.jars.packages=GROUP:NAME:VERSION"
