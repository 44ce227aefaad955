"""Fresh random streams through the pipeline: states equal a plain model at every instant.

Each time, late, doubled, partial, removed and recreated rows are chosen at random, and so is the
way in which the tables are made: by the driver, by tasks of Spark, with snapshots. `asof` is
asked for every instant at which something changes, and for the one before it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from skerry.codec.envelope import CREATE, REMOVE, SNAPSHOT, UPDATE, Update  # noqa: E402
from skerry.spark.startup.session import session  # noqa: E402
from tests.spark.dying import FAST  # noqa: E402
from tests.spark.lakes import BARE, KEPT, MANY, Pipeline, record  # noqa: E402
from tests.spark.model import Said, world_of  # noqa: E402
from tests.spark.test_history import Ship, check, notified  # noqa: E402

MINUTES = 20.0
VIOLATION_COUNT_MAX = 20
STREAMS_MAX = 20
STEPS_MAX = 12
BATCHES_MAX = 4


def run(minutes: float) -> dict[str, Any]:
    """One world after another until the time is over."""
    stop_s = time.monotonic() + minutes * 60
    first_seed = time.time_ns() % 1_000_000_000
    spark = session("local[2]", app_name="soak", memory="1g", conf=FAST)
    violations: list[str] = []
    worlds = updates = 0
    try:
        while time.monotonic() < stop_s and len(violations) < VIOLATION_COUNT_MAX:
            seed = first_seed + worlds
            with tempfile.TemporaryDirectory() as folder:
                count, fault = world(spark, Path(folder), Random(seed))
            violations += [] if fault is None else [f"seed {seed}: {fault}"]
            updates += count
            worlds += 1
    finally:
        spark.stop()
    return {
        "name": "pipeline_states",
        "seeds": worlds,
        "faults": 0,
        "inputs": updates,
        "violations": violations,
    }


def world(spark: Any, folder: Path, rng: Random) -> tuple[int, str | None]:
    """Return the number of updates, and the first difference between tables and model."""
    config = rng.choice([BARE, KEPT, KEPT, MANY])
    pipeline = Pipeline(spark, folder / "recordings", folder / "lake", config)
    batches: list[list[Update]] = [[] for _ in range(rng.randint(1, BATCHES_MAX))]
    all_said: list[Said] = []
    for number in range(1, rng.randint(1, STREAMS_MAX) + 1):
        # Some streams arrive in order, others do not.
        is_late = rng.random() < 0.6
        stream = [step(rng) for _ in range(rng.randint(1, STEPS_MAX))]
        for index, (update, said) in enumerate(notified(number, stream)):
            all_said.append(said)
            place = index * len(batches) // len(stream)
            first = rng.randrange(len(batches)) if is_late else place
            for batch in {first, rng.randrange(len(batches)) if rng.random() < 0.2 else first}:
                batches[batch].append(update)
    for batch_updates in batches:
        record(pipeline.recordings, batch_updates, Ship)
        pipeline.run()
    try:
        check(spark, folder / "lake", world_of(all_said))
    except AssertionError as difference:
        return len(all_said), str(difference).partition("\n")[0] or "tables and model differ"
    return len(all_said), None


def step(rng: Random) -> dict[str, Any]:
    """The next step of a stream."""
    return {
        "operation": rng.choice([CREATE, UPDATE, UPDATE, UPDATE, REMOVE, SNAPSHOT]),
        "object": rng.randrange(2),
        "node": rng.randrange(2),
        "name": rng.choice(["absent", "cleared", "a", "b"]),
        "lat": rng.choice(["absent", "cleared", 1.5, -2.5]),
        "marks": rng.choice(["absent", "cleared", [], [1, 2]]),
        "seconds": rng.choice([0, 1, 1, 1, 60, 3600, -3600]),
    }
