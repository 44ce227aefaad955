"""Five hundred small batches while following: small files of every table are compacted.

Segments of ten types are closed every third of a second and processed as they appear. At the end no
table has more than a hundred files, the folder holds little more than the files that the tables
list, and each update is in its table once.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import deltalake

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.macro.pipeline_writes import CLASSES, append  # noqa: E402
from skerry.runtime.clock import wall_ns  # noqa: E402
from skerry.runtime.recordings.config import Durability, RecordingConfig  # noqa: E402
from skerry.runtime.recordings.writer import RecordingWriter  # noqa: E402
from skerry.spark.jobs.loop import follow, run_all  # noqa: E402
from skerry.spark.jobs.maintenance import vacuum  # noqa: E402
from skerry.spark.lake.lake import Lake  # noqa: E402
from skerry.spark.startup.session import session  # noqa: E402
from skerry.spark.tables import Tables  # noqa: E402

MINUTES = 15.0
BATCH_COUNT = 500
FILE_COUNT_MAX = 100
TYPE_COUNT = 10
OBJECT_COUNT = 200
ROWS_PER_SEGMENT = 400
SEAL_S = 0.33


def run(minutes: float) -> dict[str, Any]:
    """Five hundred batches, or fewer if there is less time."""
    wanted = max(20, int(BATCH_COUNT * min(1.0, minutes / MINUTES)))
    spark = session("local[2]", app_name="soak")
    with tempfile.TemporaryDirectory() as folder:
        try:
            return measured(spark, Path(folder), wanted)
        finally:
            spark.stop()


def measured(spark: Any, folder: Path, wanted: int) -> dict[str, Any]:
    is_over = threading.Event()
    written = [0]
    recorder = threading.Thread(target=record, args=(folder / "recordings", is_over, written))
    lake = Lake(spark, folder / "lake")
    batches = 0
    recorder.start()
    try:
        # The folder has to be there before it is followed.
        while not (folder / "recordings").exists():
            time.sleep(0.01)

        def is_stopping() -> bool:
            return batches >= wanted

        def note(progress: Any) -> None:
            nonlocal batches
            batches = progress.batch_count

        follow(
            lake,
            folder / "recordings",
            is_stopping=is_stopping,
            on_progress=note,
            interval_s=0.0,
        )
    finally:
        is_over.set()
        recorder.join()
    follow_rest(lake, folder / "recordings")
    counts = file_counts(folder / "lake")
    violations = [
        f"{name} has {count} files" for name, count in counts.items() if count > FILE_COUNT_MAX
    ]
    before = size_bytes(folder / "lake")
    vacuum(lake, 0.0)
    named = size_bytes(folder / "lake")
    tables = Tables(spark, folder / "lake")
    found = sum(tables.frame(f"updates/T{n}").count() for n in range(TYPE_COUNT))
    if found != written[0]:
        violations.append(f"updates has {found} rows, not {written[0]}")
    return {
        "name": "pipeline_batches",
        "seeds": 1,
        "faults": 0,
        "inputs": written[0],
        "violations": violations,
        "notes": {
            "batches": batches,
            "most files of a table": max(counts.values()),
            "folder in MB": round(before / 1e6),
            "after a vacuum in MB": round(named / 1e6),
        },
    }


def follow_rest(lake: Lake, recordings: Path) -> None:
    """Bring in what was closed last."""
    run_all(lake, recordings)


def record(folder: Path, is_over: threading.Event, written: list[int]) -> None:
    config = RecordingConfig(durability=Durability.NONE)
    with RecordingWriter(folder, config, space="b") as writer:
        for cls in CLASSES[:TYPE_COUNT]:
            writer.describe(cls.descriptor)
        while not is_over.wait(SEAL_S):
            for _ in range(ROWS_PER_SEGMENT):
                written[0] += 1
                append(writer, written[0], wall_ns(), types=TYPE_COUNT, objects=OBJECT_COUNT)
            writer.seal()


def file_counts(folder: Path) -> dict[str, int]:
    """Files that each table names."""
    logs = [path.parent for path in folder.rglob("_delta_log")]
    return {
        str(path.relative_to(folder)): len(deltalake.DeltaTable(path).file_uris()) for path in logs
    }


def size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
