"""A type that changes while it is recorded: real processes, then tables with all of its fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.runtime.clock import wall_ns
from skerry.spark.jobs.loop import run_all
from skerry.spark.lake.lake import Lake
from tests.apps.test_recorder import Site, ended, wait_for
from tests.spark.lakes import BARE, BothTables

pytestmark = pytest.mark.slow

OLD: Any = skerry.define_types("""
enum Kind { 1: ferry }
struct Motor { 1: int32 power; }
struct Vessel { 1: [key] uint32 mmsi; 2: int16 speed; 4: Kind kind; 5: vector<Motor> motors; }
""")
NEW: Any = skerry.define_types("""
enum Kind { 1: ferry, 2: tug }
struct Motor { 1: int64 power; 2: string fuel; }
struct Vessel {
    1: [key] uint32 mmsi; 2: int32 speed; 3: string name; 4: Kind kind; 5: vector<Motor> motors;
}
""")


def publish(site: Site, types: Any, *objects: Any) -> int:
    """Let a program of its own connection publish; the time after it."""
    with skerry.connect(site.place(), types=types) as space:
        for obj in objects:
            space.publish(obj)
        space.flush()
    return wall_ns()


def rows(frame: Any) -> list[tuple[Any, ...]]:
    names = ("mmsi", "speed", "name", "kind", "motors")
    found = frame.select(*names).orderBy("mmsi").collect()
    return [(*row[:4], row[4] and [tuple(motor) for motor in row[4]]) for row in found]


def test_old_and_new_programs_in_turn_are_in_one_table(spark: Any, tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.node() as node, site.recorder("recording", "--types", "Vessel") as process:
        # A subscriber with the old definition keeps it in use.
        with skerry.connect(site.place(), types=OLD) as reader:
            seen = reader.container(OLD.Vessel)
            motors = [OLD.Motor(power=7)]
            first_ns = publish(
                site, OLD, OLD.Vessel(mmsi=1, speed=5, kind=OLD.Kind.ferry, motors=motors)
            )
            second_ns = publish(
                site,
                NEW,
                NEW.Vessel(mmsi=1, name="one"),
                NEW.Vessel(
                    mmsi=2,
                    speed=70_000,
                    name="two",
                    kind=NEW.Kind.tug,
                    motors=[NEW.Motor(power=2**40, fuel="wind")],
                ),
            )
            publish(site, OLD, OLD.Vessel(mmsi=1, speed=6), OLD.Vessel(mmsi=3, speed=1))
            reader.flush()
            assert set(seen) == {1, 2, 3}
        wait_for(lambda: site.written() == 5)
        ended(process)
        with site.node("other"):
            words = ("--node", site.place("other"), "--fast", "--json")
            played = json.loads(site.run("replay", "recording", *words))
            ours = site.run("get", "Vessel", "--json", "--node", site.place("other"))
            assert played["played"] == 5
        node.kill()
        node.wait()
    lines = site.run("record", "export", "recording", "-", "--types", "Vessel").splitlines()
    exported = [json.loads(line) for line in lines]
    assert [row.get("name") for row in exported] == [None, "one", "two", None, None]
    assert exported[2]["kind"] == "tug"
    assert [json.loads(line).get("name") for line in ours.splitlines()] == ["one", "two", None]

    run_all(Lake(spark, tmp_path / "lake", BARE), site.folder / "recording")
    tables = BothTables(spark, tmp_path / "lake")
    one = (1, 5, None, "ferry", [(7, None)])
    two = (2, 70_000, "two", "tug", [(2**40, "wind")])
    assert rows(tables.asof("Vessel", first_ns)) == [one]
    assert rows(tables.asof("Vessel", second_ns)) == [(1, 5, "one", *one[3:]), two]
    latest = [(1, 6, "one", *one[3:]), two, (3, 1, None, None, None)]
    assert rows(tables.frame("latest/Vessel")) == latest
