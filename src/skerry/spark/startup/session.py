"""A Spark session that is ready for recordings, on this computer or on a cluster.

Spark has many settings whose defaults are made for others: web page and progress bar on, local
time, hundreds of shuffle partitions. Here they are as the jobs of skerry need them, and each can
be set otherwise. Nothing beyond the loopback is opened unless the master is elsewhere.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from skerry.errors import PipelineError
from skerry.runtime.java import cache_folder, find_java
from skerry.runtime.system_folders import make_folder
from skerry.runtime.whole_files import replace_files
from skerry.spark.startup.daemon import MODULE
from skerry.spark.startup.extras import require_spark
from skerry.spark.startup.shipping import ship_package
from skerry.spark.startup.small_batches import FOR_FEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "FILTER_PUSHDOWN",
    "batch_bytes_of",
    "core_count",
    "is_in_this_process",
    "is_on_this_computer",
    "register",
    "session",
    "settings",
]

FILTER_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
"""Without it Spark refuses every Python source that can use filters."""
_SUBSTITUTE: Final = "spark.sql.variable.substitute"

_ALWAYS: Final = {
    FILTER_PUSHDOWN: "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # Names of fields come from strangers, and are not to be filled in from the environment.
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
"""How the JVM logs. Without it, a dozen lines on every start tell how to adjust the log."""
_BRIEF_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that is about to end has no use for its second compiler, which takes half of its time."""
_BATCH_BYTES_MIN: Final = 16 * 1024 * 1024
_BATCH_BYTES_MAX: Final = 1024 * 1024 * 1024
"""More gains nothing, and a batch is what is done again after a crash."""
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
    """A session with the data source `skerry`; the one that runs already, if there is one.

    `memory` is that of the driver, which on `local` does all the work. `ship` says whether the
    package goes to the executors: by default only to those of a cluster that do not have it. With
    `is_brief` it is set up for few rows and a soon end.
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
    """Set what a JVM that is about to be started takes from the environment."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    # Executors of this computer must run the Python that has our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_on_this_computer(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _no_start(master: str, error: Exception) -> PipelineError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    fault = PipelineError(f"Spark does not start on {master}: {lines[0]}")
    fault.hint = "what the JVM said stands above; `skerry doctor` checks the Java it runs on"
    return fault


def _log_option() -> str:
    """The option of the JVM that names the file with how it logs."""
    folder = make_folder(cache_folder(os.environ))
    path = folder / "spark-log4j2.properties"
    if not path.exists() or path.read_text(encoding="utf-8") != _LOG:
        replace_files({path: _LOG.encode()})
    return f"-Dlog4j2.configurationFile={path.as_uri()}"


def register(spark: SparkSession) -> None:
    """Make the data source `skerry` known to a session, whoever made it."""
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
    """What a session on this master is built with; `conf` has the last word."""
    chosen = dict(_ALWAYS)
    chosen["spark.driver.memory"] = memory
    if is_on_this_computer(master):
        chosen |= _LOOPBACK
        chosen["spark.driver.extraJavaOptions"] = _log_option()
        chosen["spark.python.daemon.module"] = MODULE
        # More partitions than cores only cost, where no memory is added with them.
        chosen["spark.sql.shuffle.partitions"] = str(core_count(master))
        # Above this number of files Spark starts a task to look at each, which takes five times as
        # long as a look by the driver.
        chosen["spark.sql.sources.parallelPartitionDiscovery.threshold"] = "10000"
        if is_brief and is_in_this_process(master):
            chosen["spark.driver.extraJavaOptions"] += f" {_BRIEF_JAVA}"
            chosen |= FOR_FEW
    else:
        chosen["spark.log.level"] = "ERROR"
    return chosen | dict(conf or {})


def batch_bytes_of(spark: SparkSession) -> int:
    """Recorded bytes that a batch may have, by the memory of the processes that do the work.

    If all rows of a batch are of one object, one Python process holds them about five times, beside
    the heap of the JVM.
    """
    context = spark.sparkContext
    conf = context.getConf()
    memory = _bytes_of(conf.get("spark.driver.memory", "1g") or "1g")
    if not is_in_this_process(context.master or ""):
        each = _bytes_of(conf.get("spark.executor.memory", "1g") or "1g")
        # The driver counts as one, and does no work.
        found = context._jsc.sc().getExecutorMemoryStatus().size() - 1  # noqa: SLF001
        memory = each * max(1, found)
    return min(_BATCH_BYTES_MAX, max(_BATCH_BYTES_MIN, memory // 6))


def _bytes_of(text: str) -> int:
    """Memory as Spark writes it: 512m, 2g; without a unit in MiB."""
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    return int(found[1]) * units[found[2] or "m"] if found else 1 << 30


def is_on_this_computer(master: str) -> bool:
    """Whether driver and executors are all here: `local[...]` and `local-cluster[...]`."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def is_in_this_process(master: str) -> bool:
    """Whether driver and executors are one: `local[...]`."""
    return master == "local" or master.startswith("local[")


def core_count(master: str) -> int:
    """How many cores a master on this computer uses."""
    here = os.cpu_count() or 1
    inside = master.partition("[")[2].rstrip("]").split(",")
    if master.startswith("local-cluster["):
        return int(inside[0]) * int(inside[1])
    if not inside[0]:
        return 1
    return here if inside[0] == "*" else int(inside[0])
