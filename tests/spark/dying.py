"""A pipeline that dies: `dying.py RECORDINGS TABLES MASTER VICTIM STEP [TABLES]`.

It runs as `skerry pipeline run` does, and at the step of that number (from 0) it kills the victim
without a word: `driver` is this process and its JVM, `executor` an executor of a local cluster,
which Spark then replaces. It prints the steps as they come. Which tables there are is one of
`CONFIGS`: those of types alone, with what keeps them fast, or with the derived ones.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from skerry.spark.jobs.loop import run_all
from skerry.spark.lake.lake import Lake, LakeConfig
from skerry.spark.startup.session import session
from tests.spark.lakes import BARE, KEPT

FAST = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "1g",
    # One that was killed is lost at once and not after a while.
    "spark.task.maxFailures": "8",
}

CONFIGS = {"bare": BARE, "kept": KEPT, "derived": LakeConfig()}


def main() -> None:
    recordings, tables, master, victim, step, *others = sys.argv[1:]
    spark = session(master, app_name="dying", memory="1g", conf=FAST)
    seen: list[str] = []

    def trace(name: str) -> None:
        print(name, flush=True)
        seen.append(name)
        if len(seen) == int(step) + 1:
            kill(victim)

    config = CONFIGS[others[0] if others else "bare"]
    # A segment each, so that there are several batches.
    run_all(Lake(spark, tables, config, trace=trace), recordings, batch_bytes=1)
    print("end", flush=True)
    spark.stop()


def kill(victim: str) -> None:
    if victim == "executor":
        for process in executors():
            os.kill(process, signal.SIGKILL)
        return
    for process in below(os.getpid()):
        os.kill(process, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def executors() -> list[int]:
    return [p for p in below(os.getpid()) if b"CoarseGrainedExecutorBackend" in command(p)]


def below(parent: int) -> list[int]:
    """All processes that a process has started, and those these have started."""
    parents = {int(path.name): parent_of(path) for path in Path("/proc").glob("[0-9]*")}
    found = [parent]
    for process in found:
        found += [child for child, its_parent in parents.items() if its_parent == process]
    return found[1:]


def parent_of(path: Path) -> int:
    try:
        return int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    main()
