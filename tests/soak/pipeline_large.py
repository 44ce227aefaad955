"""Twenty million updates on two cores with default settings: the pipeline ends, within 3 GB.

A fifth of all updates are of one object, the others of a million. A second run has a tenth of the
rows, of a type with sixty fields. The tables are checked by counting: each update is there once,
each object has one latest state, and every other state has ended. Memory is that of all processes
together, by what each has of its own and its share of the rest.

`python tests/soak/pipeline_large.py ROWS [FOLDER]` does the first with another number of rows, and
with `wide` at the end the second.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import skerry  # noqa: E402
from skerry.codec.envelope import CREATE, UPDATE  # noqa: E402
from skerry.objects.base import key_of  # noqa: E402
from skerry.runtime.clock import monotonic_ns  # noqa: E402
from skerry.runtime.recordings.config import Durability, RecordingConfig  # noqa: E402
from skerry.runtime.recordings.writer import RecordingWriter  # noqa: E402
from skerry.schema.fingerprint import fingerprint  # noqa: E402
from skerry.spark.jobs.loop import Progress, run_all  # noqa: E402
from skerry.spark.lake.lake import Lake  # noqa: E402
from skerry.spark.startup.session import session  # noqa: E402
from skerry.spark.tables import Tables  # noqa: E402
from tests.spark.dying import below  # noqa: E402
from tests.spark.lakes import START_NS  # noqa: E402

MINUTES = 30.0
ROW_COUNT = 20_000_000
OBJECT_COUNT = 1_000_000
HOT_SHARE = 5
"""One update in so many is of the same object."""
MEMORY_MB_MAX = 3 * 1024
STEP_NS = 100_000
"""Between two updates: twenty million take half an hour."""

_SENSORS = " ".join(f"{tag}: float64 s{tag};" for tag in range(1, 31))
_MORE = " ".join(f"{tag}: float64 m{tag};" for tag in range(5, 31))
TYPES = skerry.define_types(
    f"""
    struct Track {{ 1: [key] uint32 id; 2: float64 lat; 3: float64 lon; 4: uint32 number; }}
    struct Sensors {{ {_SENSORS} }}
    struct Wide {{
        1: [key] uint32 id; 2: float64 lat; 3: float64 lon; 4: uint32 number;
        {_MORE} 31: Sensors sensors;
    }}
    """
)
Track: Any = TYPES.Track
Wide: Any = TYPES.Wide


def run(minutes: float) -> dict[str, Any]:
    """One run, however long it takes; fewer rows if there is little time."""
    rows = ROW_COUNT if minutes >= MINUTES else int(ROW_COUNT * minutes / MINUTES)
    with tempfile.TemporaryDirectory() as folder:
        result = measured(rows, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        wide = measured(rows // 10, Path(folder), Wide)
    result["inputs"] += wide["inputs"]
    result["violations"] += [f"sixty fields: {text}" for text in wide["violations"]]
    result["notes"]["sixty fields"] = wide["notes"]
    return result


def measured(rows: int, folder: Path, cls: Any = Track) -> dict[str, Any]:
    objects = min(OBJECT_COUNT, rows // 10)
    started_s = time.monotonic()
    write(folder / "recordings", rows, objects, cls)
    written_s = time.monotonic() - started_s
    spark = session("local[2]", app_name="soak")
    with MemoryWatch() as memory:
        try:
            progress = run_all(Lake(spark, folder / "lake"), folder / "recordings", on_progress=say)
            made_s = time.monotonic() - started_s - written_s
            peak_mb = memory.peak_mb
            violations = faults(Tables(spark, folder / "lake"), rows, objects, cls.__name__)
        finally:
            spark.stop()
    if peak_mb > MEMORY_MB_MAX:
        violations.append(f"all processes together had {peak_mb} MB, more than {MEMORY_MB_MAX}")
    return {
        "name": "pipeline_large",
        "seeds": 1,
        "faults": 0,
        "inputs": progress.row_count,
        "violations": violations,
        "notes": {
            "rows": progress.row_count,
            "batches": progress.batch_count,
            "seconds to record": round(written_s),
            "seconds to tables": round(made_s),
            "rows a second": round(progress.row_count / made_s),
            "memory in MB": peak_mb,
        },
    }


def say(progress: Progress) -> None:
    if progress.batch_rows == 0 and progress.batch_count % 10 == 9:
        print(f"  {progress.row_count:,} rows in {progress.batch_count} batches", flush=True)


class MemoryWatch:
    """The most memory that this process and those it started had at any second."""

    def __init__(self) -> None:
        self.peak_mb = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(1):
            processes = [os.getpid(), *below(os.getpid())]
            self.peak_mb = max(self.peak_mb, sum(map(memory_mb, processes)))


def memory_mb(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("Pss:")), 0)


def write(folder: Path, rows: int, objects: int, cls: Any) -> None:
    config = RecordingConfig(durability=Durability.NONE)
    number, name = fingerprint(cls.descriptor), cls.__name__
    others: dict[str, Any] = {}
    if cls is Wide:
        others = {f"m{tag}": tag / 3 for tag in range(5, 31)}
        others["sensors"] = TYPES.Sensors(**{f"s{tag}": tag / 7 for tag in range(1, 31)})
    with RecordingWriter(folder, config, space="soak") as writer:
        writer.describe(cls.descriptor)
        for position in range(1, rows + 1):
            index = object_of(position, objects)
            track = cls(id=index, lat=position / 7, lon=float(index), number=position, **others)
            writer.rows.append(
                name,
                f"/{name}/{index}",
                CREATE if position <= objects else UPDATE,
                int(track.attributes),
                bytes(key_of(track)),
                track.encode(),
                "soak",
                number,
                3,
                7,
                position,
                position,
                START_NS + position * STEP_NS - 1000,
                START_NS + position * STEP_NS,
                "access",
            )
            if writer.is_full:
                writer.flush_if_due(monotonic_ns())


def object_of(position: int, objects: int) -> int:
    """Each object first, then the first one again and again among all others."""
    if position > objects and position % HOT_SHARE == 0:
        return 0
    return position % objects


def faults(tables: Tables, rows: int, objects: int, name: str) -> list[str]:
    found = {
        kind: tables.frame(f"{kind}/{name}").count() for kind in ("updates", "history", "latest")
    }
    right = {"updates": rows, "history": rows - objects, "latest": objects}
    wrong = [
        f"{kind} has {found[kind]} rows, not {right[kind]}"
        for kind in right
        if found[kind] != right[kind]
    ]
    row = tables.frame(f"latest/{name}").selectExpr("max(number) last", "max(life) life").first()
    if row is None or (row.last, row.life) != (rows, 1):
        wrong.append(f"latest states are {row}")
    sums = tables.frame("rates").selectExpr("sum(updates) n").first()
    if sums is None or sums.n != rows:
        wrong.append(f"rates have {sums} updates, not {rows}")
    return wrong


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word != "wide"]
    which = Wide if "wide" in sys.argv else Track
    with tempfile.TemporaryDirectory() as made:
        place = Path(given[1]) if len(given) > 1 else Path(made)
        print(measured(int(given[0]), place, which))
