"""Creates Spark sessions for recordings, on this computer or on a cluster.

Many defaults of Spark do not suit the pipeline: web page and progress bar on, local time zone,
hundreds of shuffle partitions. The settings here do, and each can be overridden. Only the loopback
interface is used unless the master is on another computer.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skerry.errors import PipelineError
from skerry.runtime.java import cache_folder, find_java
from skerry.runtime.system_folders import make_folder
from skerry.runtime.whole_files import replace_files
from skerry.spark.startup.daemon import MODULE
from skerry.spark.startup.extras import require_spark
from skerry.spark.startup.small_batches import FOR_FEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FILTER_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
"""Without it Spark rejects every Python data source with filter pushdown."""
_SUBSTITUTE: Final = "spark.sql.variable.substitute"

_ALWAYS: Final = {
    FILTER_PUSHDOWN: "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # Field names are untrusted and must not be substituted from the environment.
    _SUBSTITUTE: "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOG: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
"""Log configuration of the JVM. Without it, every start prints a dozen lines about logging."""
_BRIEF_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that ends soon does not profit from the second compiler, which takes half of its time."""
_BATCH_BYTES_MIN: Final = 16 * 1024 * 1024
_BATCH_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Larger batches are not faster, and after a crash a whole batch is repeated."""
_LOOPBACK: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def session(
    master: str = "local[*]",
    *,
    app_name: str = "skerry",
    memory: str = "1g",
    conf: Mapping[str, str] | None = None,
    ship: bool | None = None,
    is_brief: bool = False,
) -> SparkSession:
    """A session with the data source `skerry`; the active session if there is one.

    `memory` is that of the driver, which on `local` does all the work. `ship` sends the package to
    the executors; by default it is sent to a cluster whose executors do not have it. `is_brief`
    tunes the session for few rows and a short life.
    """
    require_spark()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None:
        _prepare_start(master)
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in settings(master, memory=memory, conf=conf, is_brief=is_brief).items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except PySparkException as error:
        raise _no_start(master, error) from error
    if ship or (ship is None and not is_on_this_computer(master)):
        ship_package(spark, always=bool(ship))
    register(spark)
    return spark


def _prepare_start(master: str) -> None:
    """Set the environment variables for a JVM that is about to start."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    # Executors on this computer must use the Python that has the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_on_this_computer(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _no_start(master: str, error: Exception) -> PipelineError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    fault = PipelineError(f"Spark does not start on {master}: {lines[0]}")
    fault.hint = "see the messages of the JVM above; `skerry doctor` checks Java"
    return fault


def _log_option() -> str:
    """The JVM option that names the file with the log configuration."""
    folder = make_folder(cache_folder(os.environ))
    path = folder / "spark-log4j2.properties"
    if not path.exists() or path.read_text(encoding="utf-8") != _LOG:
        replace_files({path: _LOG.encode()})
    return f"-Dlog4j2.configurationFile={path.as_uri()}"


def register(spark: SparkSession) -> None:
    """Register the data source `skerry` with any session."""
    from skerry.spark.source.data_source import SkerrySource

    for name in (FILTER_PUSHDOWN, _SUBSTITUTE):
        spark.conf.set(name, _ALWAYS[name])
    spark.dataSource.register(SkerrySource)


def settings(
    master: str,
    *,
    memory: str,
    conf: Mapping[str, str] | None = None,
    is_brief: bool = False,
) -> dict[str, str]:
    """The Spark settings for a session on this master; `conf` overrides them."""
    chosen = dict(_ALWAYS)
    chosen["spark.driver.memory"] = memory
    if is_on_this_computer(master):
        chosen |= _LOOPBACK
        chosen["spark.driver.extraJavaOptions"] = _log_option()
        chosen["spark.python.daemon.module"] = MODULE
        # On one computer, more partitions than cores only cost time.
        chosen["spark.sql.shuffle.partitions"] = str(core_count(master))
        # Above this number of files Spark lists them in tasks, which takes five times as long as
        # listing by the driver.
        chosen["spark.sql.sources.parallelPartitionDiscovery.threshold"] = "10000"
        if is_brief and is_in_this_process(master):
            chosen["spark.driver.extraJavaOptions"] += f" {_BRIEF_JAVA}"
            chosen |= FOR_FEW
    else:
        chosen["spark.log.level"] = "ERROR"
    return chosen | dict(conf or {})


def batch_bytes_of(spark: SparkSession) -> int:
    """Maximum recorded bytes of a batch, by the memory of the processes that do the work.

    If all rows of a batch are of one object, one Python process needs about five times their size,
    in addition to the heap of the JVM.
    """
    context = spark.sparkContext
    conf = context.getConf()
    memory = _bytes_of(conf.get("spark.driver.memory", "1g") or "1g")
    if not is_in_this_process(context.master or ""):
        each = _bytes_of(conf.get("spark.executor.memory", "1g") or "1g")
        # The driver is in the list, but does no work.
        found = context._jsc.sc().getExecutorMemoryStatus().size() - 1  # noqa: SLF001
        memory = each * max(1, found)
    return min(_BATCH_BYTES_MAX, max(_BATCH_BYTES_MIN, memory // 6))


def _bytes_of(text: str) -> int:
    """A memory size in Spark's notation, such as 512m or 2g; without a unit in MiB."""
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    return int(found[1]) * units[found[2] or "m"] if found else 1 << 30


def is_on_this_computer(master: str) -> bool:
    """Whether all executors are on this computer: `local[...]` and `local-cluster[...]`."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def is_in_this_process(master: str) -> bool:
    """Whether driver and executors are one process: `local[...]`."""
    return master == "local" or master.startswith("local[")


def core_count(master: str) -> int:
    """The number of cores that a master on this computer uses."""
    here = os.cpu_count() or 1
    inside = master.partition("[")[2].rstrip("]").split(",")
    if master.startswith("local-cluster["):
        return int(inside[0]) * int(inside[1])
    if not inside[0]:
        return 1
    return here if inside[0] == "*" else int(inside[0])


# -- sending the package to executors


_PACKAGE: Final = Path(__file__).parents[2]
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the zip, so that equal sources give equal bytes."""


def ship_package(spark: SparkSession, *, always: bool = False) -> bool:
    """Send the package to the executors unless they have it; returns whether it was sent."""
    if not always and has_package(spark):
        return False
    folder = Path(tempfile.mkdtemp(prefix="skerry-ship-"))
    target = package_zip(folder / "skerry.zip")
    spark.sparkContext.addPyFile(str(target))
    return True


def has_package(spark: SparkSession) -> bool:
    """Whether the Python of all executors can import skerry."""
    context = spark.sparkContext
    count = max(2, context.defaultParallelism)
    # A function of the standard library is pickled by name; one of skerry would need the package.
    found = context.parallelize(["skerry"] * count, count).map(importlib.util.find_spec).map(bool)
    return all(found.collect())


def package_zip(target: Path) -> Path:
    """Write the sources of the package as a zip file that Python can import from.

    It is the uncompiled build, because machine code of this computer may not run on others. Its
    dependencies (numpy, pyarrow) must be installed there; Spark needs them for Python rows, too.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(_PACKAGE.rglob("*")):
            if path.suffix in (".py", ".typed") and "__pycache__" not in path.parts:
                name = str(Path("skerry") / path.relative_to(_PACKAGE))
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes())
    return target
