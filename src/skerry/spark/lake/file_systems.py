"""Whether Spark itself gets to where tables are: it writes and reads them by ways of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skerry.errors import PipelineError
from skerry.spark.lake.store import TableStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["require_file_system"]


def require_file_system(spark: SparkSession, store: TableStore) -> None:
    """PipelineError if Spark knows nothing of the kind of place that the tables are at.

    Found out before there is anything to write, since what the JVM says of it is hard to read.
    """
    from py4j.protocol import Py4JJavaError

    if store.place is None:
        return
    scheme = store.spark_path("").partition("://")[0]
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the one way to ask Hadoop
    hadoop = jvm.org.apache.hadoop
    configuration = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    try:
        hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
    except Py4JJavaError as error:
        fault = PipelineError(f"Spark cannot use {store.root}: it has nothing for {scheme}://")
        fault.hint = _hint(scheme, str(hadoop.util.VersionInfo.getVersion()))
        raise fault from error


def _hint(scheme: str, version: str) -> str:
    if scheme == "s3a":
        package = f"org.apache.hadoop:hadoop-aws:{version}"
        return f"give it the jars: --conf spark.jars.packages={package}"
    return f"give it the jars of {scheme}://: --conf spark.jars.packages=GROUP:NAME:VERSION"
