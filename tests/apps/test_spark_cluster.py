"""The same job on one process, on a cluster of processes, and on a real standalone cluster.

Each run is a process of its own, since a process has one Spark. The tables must be equal to the
last value, wherever they were made.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from deltalake import DeltaTable

from skerry.codec.envelope import ACCESS, CREATE, REMOVE, UPDATE, Update
from skerry.objects.base import key_of
from skerry.objects.typeset import define_types
from skerry.runtime.java import find_java
from skerry.runtime.recordings.config import Durability, RecordingConfig
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint
from skerry.spark.lake.plans import table_folders
from skerry.spark.lake.store import TableStore

pytestmark = pytest.mark.slow
VESSEL = define_types("struct Vessel { 1: [key] uint32 mmsi; 2: float64 lat; }").Vessel
QUICK = (
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.factoryMode=NO_CODEGEN",
    "spark.sql.codegen.wholeStage=false",
    "spark.sql.shuffle.partitions=2",
)
"""Few rows are quicker interpreted than compiled."""
START_NS = 1_794_751_200_000_000_000


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny recording in two segments, so that there is something to share out."""
    folder = tmp_path_factory.mktemp("recordings") / "tiny"
    config = RecordingConfig(durability=Durability.NONE)
    with RecordingWriter(folder, config, space="tiny") as writer:
        writer.describe(VESSEL.descriptor)
        for number in range(1, 41):
            writer.append(update(number))
            if number == 20:
                writer.seal()
        writer.seal()
    return folder


def update(number: int) -> Update:
    vessel = VESSEL(mmsi=number % 5, lat=float(number))
    operation = CREATE if number <= 5 else REMOVE if number == 40 else UPDATE
    return Update(
        type_name="Vessel",
        subject=f"/Vessel/{number % 5}",
        operation=operation,
        present=int(vessel.attributes),
        key=bytes(key_of(vessel)),
        payload=vessel.encode(),
        space="tiny",
        fingerprint=fingerprint(VESSEL.descriptor),
        sender=3,
        node=7,
        sequence=number,
        position=number,
        sent_ns=START_NS + number * 10**9 - number * 1000,
        time_ns=START_NS + number * 10**9,
        source=ACCESS,
    )


@pytest.fixture(scope="module")
def expected(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The tables that one process makes."""
    lake = tmp_path_factory.mktemp("local") / "lake"
    return made("local[2]", recordings, lake)


def test_cluster_of_processes_makes_the_same_tables(
    recordings: Path, expected: dict[str, list[str]], tmp_path: Path
) -> None:
    assert made("local-cluster[2,1,1024]", recordings, tmp_path / "lake") == expected


def test_standalone_cluster_makes_the_same_tables(
    recordings: Path, expected: dict[str, list[str]], tmp_path: Path
) -> None:
    with standalone(tmp_path, worker_count=2) as master:
        found = made(
            master,
            recordings,
            tmp_path / "lake",
            "--conf",
            "spark.executor.memory=512m",
            "--conf",
            "spark.driver.host=127.0.0.1",
        )
    assert found == expected


def made(master: str, recordings: Path, lake: Path, *options: str) -> dict[str, list[str]]:
    """Runs the pipeline there; gives the rows of all tables, as text and sorted."""
    command = [sys.executable, "-m", "skerry", "pipeline", "run", "--json", "--memory", "1g"]
    places = ["--master", master, "--recordings", str(recordings), "--tables", str(lake)]
    quick = [word for setting in QUICK for word in ("--conf", setting)]
    done = subprocess.run(
        [*command, *places, *quick, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 40
    return {name: rows(lake / name) for name in table_folders(TableStore(lake))}


def rows(table: Path) -> list[str]:
    found: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().to_pylist()
    return sorted(str(sorted(row.items())) for row in found)


# -- a cluster of our own


@contextmanager
def standalone(folder: Path, *, worker_count: int) -> Iterator[str]:
    """A master and its workers on the loopback; all are gone afterwards, whatever happened."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        stack.enter_context(
            daemon(
                folder,
                "org.apache.spark.deploy.master.Master",
                *("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"),
                ready=r"New state: ALIVE",
            )
        )
        for number in range(worker_count):
            stack.enter_context(
                daemon(
                    folder,
                    "org.apache.spark.deploy.worker.Worker",
                    *("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1"),
                    *("--memory", "1g", "--work-dir", str(folder / f"worker-{number}"), master),
                    ready=r"Successfully registered with master",
                )
            )
        yield master


@contextmanager
def daemon(folder: Path, name: str, *arguments: str, ready: str) -> Iterator[None]:
    command = Path(pyspark.__file__).parent / "bin" / "spark-class"
    logging = folder / "log4j2.properties"
    logging.write_text(LOGGING, encoding="utf-8")
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(os.environ).home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile=file://{logging}",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    # A group of its own: a worker has executors, which must end with it.
    with subprocess.Popen(
        [str(command), name, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            said = []
            for line in process.stderr:
                said.append(line)
                if re.search(ready, line):
                    break
            else:
                raise AssertionError("".join(said))
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
"""


def free_port() -> int:
    with socket.socket() as made_socket:
        made_socket.bind(("127.0.0.1", 0))
        port: int = made_socket.getsockname()[1]
    return port
