"""Ten million updates of a million objects on two cores: the pipeline comes to its end.

Spark has 4 GiB. The tables are checked by counting: each update is there once, each object has one
latest state, and every other state has ended.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import skerry  # noqa: E402
from skerry.codec.envelope import CREATE, UPDATE  # noqa: E402
from skerry.objects.base import key_of  # noqa: E402
from skerry.runtime.clock import monotonic_ns  # noqa: E402
from skerry.runtime.recordings.config import Durability, RecordingConfig  # noqa: E402
from skerry.runtime.recordings.writer import RecordingWriter  # noqa: E402
from skerry.schema.fingerprint import fingerprint  # noqa: E402
from skerry.spark.jobs.run import run_all  # noqa: E402
from skerry.spark.lake import Lake  # noqa: E402
from skerry.spark.session import session  # noqa: E402
from skerry.spark.tables import Tables  # noqa: E402
from tests.spark.lakes import BARE, START_NS  # noqa: E402

MINUTES = 30.0
OBJECT_COUNT = 1_000_000
ROUNDS = 10

Track: Any = skerry.define_types(
    "struct Track { 1: [key] uint32 id; 2: float64 lat; 3: float64 lon; 4: uint32 number; }"
).Track


def run(minutes: float) -> dict[str, Any]:
    """One run, however long it takes; fewer objects if there is little time."""
    objects = OBJECT_COUNT if minutes >= MINUTES else int(OBJECT_COUNT * minutes / MINUTES)
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "recordings"), objects)
        written_s = time.monotonic() - started_s
        spark = session("local[2]", app_name="soak", memory="4g")
        try:
            progress = run_all(Lake(spark, Path(folder, "lake"), BARE), Path(folder, "recordings"))
            made_s = time.monotonic() - started_s - written_s
            violations = faults(Tables(spark, Path(folder, "lake")), objects)
        finally:
            spark.stop()
    return {
        "name": "pipeline_large",
        "seeds": 1,
        "faults": 0,
        "inputs": progress.row_count,
        "violations": violations,
        "notes": {
            "rows": progress.row_count,
            "seconds to record": round(written_s),
            "seconds to tables": round(made_s),
        },
    }


def write(folder: Path, objects: int) -> None:
    config = RecordingConfig(durability=Durability.NONE)
    number = fingerprint(Track.descriptor)
    with RecordingWriter(folder, config, space="soak") as writer:
        writer.describe(Track.descriptor)
        position = 0
        for turn in range(ROUNDS):
            for index in range(objects):
                position += 1
                track = Track(id=index, lat=float(turn), lon=float(index), number=position)
                writer.rows.append(
                    "Track",
                    f"/Track/{index}",
                    UPDATE if turn else CREATE,
                    int(track.attributes),
                    bytes(key_of(track)),
                    track.encode(),
                    "soak",
                    number,
                    3,
                    7,
                    position,
                    position,
                    -1,
                    START_NS + position * 1000,
                    "access",
                )
                if writer.is_full:
                    writer.flush_if_due(monotonic_ns())


def faults(tables: Tables, objects: int) -> list[str]:
    found = {
        kind: tables.frame(f"{kind}/Track").count() for kind in ("updates", "history", "latest")
    }
    right = {
        "updates": objects * ROUNDS,
        "history": objects * (ROUNDS - 1),
        "latest": objects,
    }
    wrong = [
        f"{kind} has {found[kind]} rows, not {right[kind]}"
        for kind in right
        if found[kind] != right[kind]
    ]
    row = tables.frame("latest/Track").selectExpr("min(lat) low", "max(life) life").first()
    if row is None or (row.low, row.life) != (ROUNDS - 1, 1):
        wrong.append(f"latest states are {row}")
    return wrong
