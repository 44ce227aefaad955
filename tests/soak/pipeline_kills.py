"""A pipeline that is killed at random steps, a hundred times: nothing is lost, nothing is doubled.

Each trial records something, lets a job die at a random step (the driver with its JVM, or an
executor of a local cluster), now and then a second time, and then lets one job finish. What
the tables say has to equal what a plain model says. In some trials files are put together and
snapshots made in between, in some there are the tables about the traffic as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import skerry  # noqa: E402
from skerry.codec.envelope import CREATE, REMOVE, UPDATE  # noqa: E402
from skerry.spark.jobs.loop import run_all  # noqa: E402
from skerry.spark.lake.lake import Lake  # noqa: E402
from skerry.spark.startup.session import session  # noqa: E402
from skerry.spark.tables import Tables  # noqa: E402
from tests.spark.dying import CONFIGS, FAST  # noqa: E402
from tests.spark.lakes import Emitter, record  # noqa: E402
from tests.spark.model import Said, World, world_of  # noqa: E402

MINUTES = 60.0
TRIALS = 100
STEP_COUNTS = {"bare": 24, "kept": 36, "derived": 36}
"""Sometimes more than there are: a job that finishes is a trial, too."""
TRIAL_S_MAX = 300

Buoy: Any = skerry.define_types("struct Buoy { 1: [key] uint32 id; 2: float64 level; }").Buoy


def run(minutes: float) -> dict[str, Any]:
    """Trials until there are enough or the time is over."""
    stop_s = time.monotonic() + minutes * 60
    first_seed = time.time_ns() % 1_000_000_000
    spark = session("local[2]", app_name="soak", memory="1g", conf=FAST)
    violations: list[str] = []
    kills = trials = 0
    try:
        while trials < TRIALS and time.monotonic() < stop_s:
            seed = first_seed + trials
            with tempfile.TemporaryDirectory() as folder:
                found, deaths = trial(spark, Path(folder), Random(seed))
            violations += [f"seed {seed}: {fault}" for fault in found]
            kills += deaths
            trials += 1
            if trials % 10 == 0:
                print(f"  {trials} trials, {kills} kills, {len(violations)} faults", flush=True)
    finally:
        spark.stop()
    return {
        "name": "pipeline_kills",
        "seeds": trials,
        "faults": kills,
        "inputs": trials,
        "violations": violations,
    }


def trial(spark: Any, folder: Path, rng: Random) -> tuple[list[str], int]:
    """Return the violations at the end, and how often a job was killed."""
    said = recorded(folder / "recordings", rng)
    deaths = 0
    name = rng.choice(["bare", "kept", "derived"])
    for _ in range(rng.choice([1, 1, 2])):
        is_executor = rng.random() < 0.25
        master = "local-cluster[1,1,1024]" if is_executor else "local[2]"
        victim = "executor" if is_executor else "driver"
        steps = die(folder, master, victim, rng.randrange(STEP_COUNTS[name]), name)
        deaths += "end" not in steps or is_executor
    run_all(Lake(spark, folder / "lake", CONFIGS[name]), folder / "recordings")
    faults = differences(spark, folder / "lake", world_of(said))
    if name == "derived":
        faults += miscounted(spark, folder / "lake", len(said))
    return [f"{name}: {fault}" for fault in faults], deaths


def recorded(folder: Path, rng: Random) -> list[Said]:
    """A few segments, some of them late."""
    emitter = Emitter()
    updates = []
    for _ in range(rng.randrange(10, 40)):
        buoy = Buoy(id=rng.randrange(6), level=rng.random())
        updates.append(emitter.emit(buoy, rng.choice([CREATE, UPDATE, UPDATE, REMOVE])))
    cut = rng.randrange(1, len(updates))
    parts = [updates[:cut], updates[cut:]]
    if rng.random() < 0.5:
        parts.reverse()
    for part in parts:
        record(folder, part, Buoy)
    return [
        Said(
            key=update.key,
            operation=update.operation,
            present=update.present,
            values={1: Buoy.decode(update.payload).id, 2: Buoy.decode(update.payload).level},
            node=update.node,
            position=update.position,
            time_ns=update.time_ns,
        )
        for update in updates
    ]


def die(folder: Path, master: str, victim: str, step: int, name: str) -> list[str]:
    """Run a job that dies, unless it has fewer steps; what it said."""
    program = str(ROOT / "tests" / "spark" / "dying.py")
    places = [str(folder / "recordings"), str(folder / "lake")]
    source = str(Path(skerry.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, program, *places, master, victim, str(step), name],
        capture_output=True,
        text=True,
        timeout=TRIAL_S_MAX,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([source, str(ROOT)])},
    )
    return done.stdout.splitlines()


def differences(spark: Any, lake: Path, world: World) -> list[str]:
    tables = Tables(spark, lake)
    faults = []
    for kind, expected in (("history", world.history), ("latest", world.latest)):
        name = f"{kind}/Buoy"
        rows = tables.frame(name).collect() if name in tables.names() else []
        found = sorted((bytes(r.key), r.valid_from_ns, r.position, r.life, r.level) for r in rows)
        right = sorted(
            (s.key, s.valid_from_ns, s.position, s.life, s.values.get(2)) for s in expected
        )
        if found != right:
            faults.append(f"{name} has {len(found)} rows that should be {len(right)}: {found}")
    return faults


def miscounted(spark: Any, lake: Path, right: int) -> list[str]:
    """Tables about the traffic that count other than each update once."""
    tables = Tables(spark, lake)
    counts = {
        name: tables.frame(name).selectExpr("sum(updates) n").collect()[0].n
        for name in ("rates", "links")
    }
    return [f"{name} has {n} updates, not {right}" for name, n in counts.items() if n != right]
