"""kill -9 at any step: nothing is lost and nothing is there twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

import skerry
from skerry.spark.jobs.loop import run_all
from skerry.spark.lake.lake import Lake
from tests.spark.lakes import BARE, BothTables, Emitter, Pipeline, record

TYPES = skerry.define_types("struct Buoy { 1: [key] uint32 id; 2: float64 level; }")
Buoy: Any = TYPES.Buoy
OBJECT_COUNT = 5
UPDATE_COUNT = 4
ROOT = Path(__file__).resolve().parents[2]


class Killed(BaseException):
    """Ends a batch as a signal would: no code catches it."""


def recorded(folder: Path) -> Path:
    """Two segments: objects are made, changed, and some removed and created again."""
    emitter = Emitter()
    first = [emitter.create(Buoy(id=n, level=0.0)) for n in range(OBJECT_COUNT)]
    second = [emitter.update(Buoy(id=n, level=1.0 + n)) for n in range(OBJECT_COUNT)]
    second += [emitter.remove(Buoy(id=0)), emitter.create(Buoy(id=1, level=9.0))]
    record(folder, first, Buoy)
    return record(folder, second, Buoy)


def rows(spark: Any, lake: Path) -> dict[str, list[Any]]:
    tables = BothTables(spark, lake)
    columns = {
        "updates": ("position", "order_ns", "operation", "level"),
        "history": ("key", "valid_from_ns", "valid_to_ns", "life", "level"),
        "latest": ("key", "valid_from_ns", "life", "level"),
        "gone": ("key", "removed_ns", "life"),
    }
    return {
        kind: sorted(tuple(row) for row in tables.frame(f"{kind}/Buoy").select(*names).collect())
        for kind, names in columns.items()
    }


def expected() -> dict[str, int]:
    return {
        "updates": 2 * OBJECT_COUNT + 2,
        "history": OBJECT_COUNT + 2,
        "latest": OBJECT_COUNT - 1,
        "gone": 1,
    }


@pytest.mark.slow
def test_a_batch_that_ends_at_any_step_is_whole_after_the_next_try(
    spark: Any, tmp_path: Path
) -> None:
    folder = recorded(tmp_path / "recordings")
    steps: list[str] = []
    whole = Pipeline(spark, folder, tmp_path / "whole", BARE)
    whole.lake.trace = steps.append
    whole.run()
    right = rows(spark, tmp_path / "whole")
    assert {kind: len(found) for kind, found in right.items()} == expected()
    # One end before the plan, one amid the commits.
    for number in (1, steps.index("plan") + 2):
        broken = Pipeline(spark, folder, tmp_path / f"broken{number}", BARE)
        seen: list[str] = []

        def die(step: str, seen: list[str] = seen, last: int = number) -> None:
            seen.append(step)
            if len(seen) > last:
                raise Killed

        broken.lake.trace = die
        with pytest.raises(Killed):
            broken.run()
        assert seen == steps[: number + 1]
        broken.lake.trace = steps.append
        broken.run()
        assert rows(spark, tmp_path / f"broken{number}") == right


@pytest.mark.slow
def test_the_next_driver_completes_the_batch_of_a_killed_one(spark: Any, tmp_path: Path) -> None:
    folder = recorded(tmp_path / "recordings")
    # Where it dies is another place each time the test is changed, and the same until then.
    step = Random(Path(__file__).read_bytes()).randrange(2, 12)
    done = dying(folder, tmp_path / "lake", "local[2]", "driver", step)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    run_all(Lake(spark, tmp_path / "lake", BARE), folder)
    found = rows(spark, tmp_path / "lake")
    assert {kind: len(of_kind) for kind, of_kind in found.items()} == expected()


@pytest.mark.slow
def test_killed_executor_is_replaced_and_its_work_done_once(spark: Any, tmp_path: Path) -> None:
    folder = recorded(tmp_path / "recordings")
    done = dying(folder, tmp_path / "lake", "local-cluster[1,1,1024]", "executor", 1)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "end"
    found = rows(spark, tmp_path / "lake")
    assert {kind: len(of_kind) for kind, of_kind in found.items()} == expected()


def dying(
    recordings: Path, lake: Path, master: str, victim: str, step: int
) -> subprocess.CompletedProcess[str]:
    program = Path(__file__).with_name("dying.py")
    command = [sys.executable, str(program), str(recordings), str(lake), master, victim, str(step)]
    source = str(Path(skerry.__file__).parent.parent)
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([source, str(ROOT)])},
    )
