"""Tables from recordings: what is late, doubled, cleared, changed, and who else can read them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

import skerry
from skerry.codec.envelope import DISTRIBUTOR, UPDATE
from skerry.errors import PipelineError
from skerry.runtime.recordings.reader import open_recordings
from skerry.spark.jobs.maintenance import make_snapshots
from skerry.spark.lake.lake import Lake, LakeConfig
from skerry.spark.tables import Tables
from tests.spark.lakes import (
    HOUR_NS,
    KEPT,
    SECOND_NS,
    START_NS,
    BothTables,
    Emitter,
    Pipeline,
    found,
    record,
)

TYPES = skerry.define_types("""
struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: uint64 big; }
struct Mode { 1: string text; 2: timepoint time; }
struct Shout [cached=false] { 1: [key] uint32 id; 2: string text; }
""")
Vessel: Any = TYPES.Vessel
Mode: Any = TYPES.Mode
Shout: Any = TYPES.Shout
CLEARS_NAME = 0b110


def values(tables: Tables, name: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = tables.frame(name).select(*columns).collect()
    return sorted((tuple(row) for row in rows), key=str)


@pytest.mark.slow
def test_one_batch_holds_all_that_can_happen_to_objects(spark: Any, tmp_path: Path) -> None:
    emitter = Emitter()
    updates = [
        emitter.update(Vessel(mmsi=1, lat=1.0)),  # recording began late
        emitter.create(Vessel(mmsi=2, name="b", lat=2.0)),
        emitter.update(Vessel(mmsi=2), present=CLEARS_NAME),
        emitter.remove(Vessel(mmsi=2)),
        emitter.create(Vessel(mmsi=2, lat=3.0)),
        emitter.emit(Mode(text="night", time=1.000002), UPDATE),  # a type without key
        emitter.emit(Shout(id=1, text="ahoy"), UPDATE),
    ]
    # The clock goes back an hour, and the client comes back with its count at the beginning.
    emitter.now_ns -= HOUR_NS
    emitter.sender, emitter.sequence = 4, 0
    updates.append(emitter.update(Vessel(mmsi=1, lat=4.0, big=2**64 - 1)))
    record(tmp_path / "recordings", updates, Vessel, Mode, Shout)
    pipeline = Pipeline(spark, tmp_path / "recordings", tmp_path / "lake")
    assert pipeline.run().row_count == len(updates)

    tables = BothTables(spark, tmp_path / "lake")
    assert "history/Shout" not in tables.names()
    assert values(tables, "updates/Shout", "id", "text") == [(1, "ahoy")]
    assert values(tables, "latest/Mode", "life", "text") == [(0, "night")]
    at = [START_NS + n * SECOND_NS for n in range(9)]
    assert values(tables, "history/Vessel", "mmsi", "life", "name", "lat", "valid_to_ns") == [
        (1, 0, None, 1.0, at[5]),
        (2, 1, "b", 2.0, at[3]),
        (2, 1, None, 2.0, at[4]),
    ]
    latest = values(tables, "latest/Vessel", "mmsi", "life", "name", "lat", "sender")
    assert latest == [(1, 0, None, 4.0, 4), (2, 2, None, 3.0, 3)]
    live = tables.asof("Vessel", at[2]).select("mmsi", "age_s").collect()
    assert sorted(tuple(row) for row in live) == [(1, 1.0), (2, 0.0)]
    with pytest.raises(PipelineError, match="message type"):
        tables.asof("Shout", at[2])
    with pytest.raises(PipelineError, match="there is no type Vesel"):
        tables.asof("Vesel", at[2])
    changes = tables.between("Vessel", at[3], at[5]).orderBy("position").collect()
    assert [(row.change, row.mmsi) for row in changes] == [("update", 2), ("remove", 2)]
    differing = {row.subject: row for row in tables.diff("Vessel", at[2], at[5]).collect()}
    (row,) = differing.values()
    assert (row.change, sorted(row.changed)) == ("replaced", ["lat", "name"])
    everything = tables.asof(None, at[8]).collect()
    assert sorted(row.type for row in everything) == ["Mode", "Vessel", "Vessel"]
    (mode,) = (row.object for row in everything if row.type == "Mode")
    assert ":01.000002" in mode, "times have all digits"
    (notified,) = tables.between("Mode", at[0], at[8]).collect()
    assert (notified.time.microsecond, notified.order_time.microsecond) == (2, 0)
    others_read_the_same(tables, tmp_path / "lake")


def others_read_the_same(tables: Tables, lake: Path) -> None:
    for name in tables.names():
        ours = tables.frame(name).drop("unknown")
        columns = ours.columns
        expected = sorted((plain(row) for row in ours.collect()), key=str)
        theirs = pl.read_delta(str(lake / name)).select(columns).rows()
        assert sorted((plain(row) for row in theirs), key=str) == expected
        rows = duckdb.from_arrow(DeltaTable(lake / name).to_pyarrow_dataset())
        assert sorted((plain(row) for row in rows.select(*columns).fetchall()), key=str) == expected


def plain(row: Any) -> tuple[Any, ...]:
    def one(value: Any) -> Any:
        if isinstance(value, bytearray):
            return bytes(value)
        return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value

    return tuple(one(value) for value in row)


@pytest.mark.slow
def test_updates_of_two_recorders_are_merged_once(spark: Any, tmp_path: Path) -> None:
    emitter = Emitter()
    said = [emitter.create(Vessel(mmsi=n, lat=1.0)) for n in range(3)]
    cast = [
        emitter.emit(Shout(id=n, text="x"), UPDATE, source=DISTRIBUTOR, sender=99, position=0)
        for n in range(3)
    ]
    later = [update.replace(time_ns=update.time_ns + 1000, node=8) for update in cast]
    record(tmp_path / "recordings" / "a", [*said, *cast[:2]], Vessel, Shout)
    record(tmp_path / "recordings" / "b", [found(said[0]), *said[1:], *later], Vessel, Shout)
    pipeline = Pipeline(spark, tmp_path / "recordings", tmp_path / "lake")
    assert pipeline.run().row_count == 6
    # The same again, from a third: nothing is new.
    record(tmp_path / "recordings" / "c", [*said, found(said[1]), *cast], Vessel, Shout)
    assert pipeline.run().row_count == 0
    tables = BothTables(spark, tmp_path / "lake")
    assert tables.frame("updates/Vessel").where("operation = 1").count() == 3
    assert tables.frame("latest/Vessel").count() == 3


@pytest.mark.slow
def test_a_segment_that_is_read_twice_is_merged_once(spark: Any, tmp_path: Path) -> None:
    """Copied beside itself under another name, and into the folder of another recording."""
    emitter = Emitter()
    pipeline = Pipeline(spark, tmp_path / "recordings", tmp_path / "lake")
    folder = pipeline.recordings / "a"
    said = [emitter.create(Vessel(mmsi=n, lat=1.0)) for n in range(3)]
    # What no node counts is known by all that it says.
    said.append(emitter.emit(Shout(id=1, text="x"), UPDATE, position=0, sequence=0, node=0))
    record(folder, said, Vessel, Shout)
    assert pipeline.run().row_count == 4
    record(pipeline.recordings / "b", [], Vessel)
    (segment,) = open_recordings(folder)[0].segments()
    for copy in (folder / f"copied-{segment.name}", pipeline.recordings / "b" / segment.name):
        shutil.copy(segment.path, copy)
    assert sum(len(found.segments()) for found in open_recordings(pipeline.recordings)) == 3
    assert pipeline.run().row_count == 0
    tables = BothTables(spark, tmp_path / "lake")
    assert [tables.frame(f"updates/{name}").count() for name in ("Vessel", "Shout")] == [3, 1]


@pytest.mark.slow
def test_a_late_segment_changes_later_states(spark: Any, tmp_path: Path) -> None:
    emitter = Emitter()
    made = [
        emitter.create(Vessel(mmsi=1, name="a", lat=1.0)),
        emitter.update(Vessel(mmsi=1, name="late")),
        emitter.update(Vessel(mmsi=1, lat=2.0)),
        emitter.create(Vessel(mmsi=2)),
    ]
    pipeline = Pipeline(
        spark,
        tmp_path / "recordings",
        tmp_path / "lake",
        LakeConfig(derived=(), snapshot_rows=1, bucket_s=60),
    )
    record(pipeline.recordings, [made[0], *made[2:]], Vessel)
    pipeline.run()
    tables = BothTables(spark, tmp_path / "lake")
    assert [row.name for row in tables.frame("latest/Vessel").where("mmsi = 1").collect()] == ["a"]
    record(pipeline.recordings, [made[1]], Vessel)
    pipeline.run()
    history = values(tables, "history/Vessel", "valid_from_ns", "name", "lat")
    assert history == [
        (START_NS + SECOND_NS, "a", 1.0),
        (START_NS + 2 * SECOND_NS, "late", 1.0),
    ]
    latest = values(tables, "latest/Vessel", "mmsi", "name", "lat")
    assert latest == [(1, "late", 2.0), (2, None, None)]


@pytest.mark.slow
def test_queries_with_snapshots_equal_those_over_all_states(spark: Any, tmp_path: Path) -> None:
    config = LakeConfig(derived=(), snapshot_rows=8, bucket_s=60)
    emitter = Emitter()
    updates = [emitter.create(Vessel(mmsi=n, lat=0.0)) for n in range(3)]
    for minute in range(6):
        emitter.now_ns = START_NS + minute * 60 * SECOND_NS
        updates += [emitter.update(Vessel(mmsi=n, lat=float(minute))) for n in (0, 1)]
        if minute == 3:
            updates.append(emitter.remove(Vessel(mmsi=2)))
    record(tmp_path / "recordings", updates, Vessel)
    without = LakeConfig(derived=(), bucket_s=60)
    pipeline = Pipeline(spark, tmp_path / "recordings", tmp_path / "lake", without)
    plan = pipeline.run()
    tables = BothTables(spark, tmp_path / "lake", config)
    instants = [START_NS + seconds * SECOND_NS for seconds in (90, 185, 241)]
    before = [answers(tables, at) for at in instants]
    small = Lake(spark, tmp_path / "lake", config)
    assert make_snapshots(small, plan.types["Vessel"]) > 0
    assert make_snapshots(small, plan.types["Vessel"]) == 0, "they are there by now"
    assert [answers(tables, at) for at in instants] == before
    assert [len(answer) for answer in before] == [3, 2, 2]
    files = pipeline.lake.table("snapshots/Vessel").files()
    edges = {file.parts["edge_ns"] for file in files}
    assert len(files) == len(edges), "each is one file"
    assert answers(tables, START_NS - 1) == [], "no table has a part in it"


@pytest.mark.slow
def test_late_rows_are_visible_in_spite_of_snapshots(spark: Any, tmp_path: Path) -> None:
    """Late for the snapshots alone: of these objects nothing later is known."""
    emitter = Emitter()
    updates = [emitter.create(Vessel(mmsi=n, lat=0.0)) for n in (0, 1)]
    for minute in range(1, 8):
        emitter.now_ns = START_NS + minute * 60 * SECOND_NS
        updates += [emitter.update(Vessel(mmsi=1, lat=float(minute))) for _ in range(2)]
    pipeline = Pipeline(spark, tmp_path / "recordings", tmp_path / "lake", KEPT)
    record(pipeline.recordings, updates, Vessel)
    pipeline.run()
    snapshots = pipeline.lake.table("snapshots/Vessel")
    before = {file.parts["edge_ns"] for file in snapshots.files()}
    assert before
    other = Emitter(node=9, now_ns=START_NS + 30 * SECOND_NS)
    late = [other.update(Vessel(mmsi=0, lat=9.0)), other.create(Vessel(mmsi=7, lat=9.0))]
    record(pipeline.recordings, late, Vessel)
    pipeline.run()
    tables = BothTables(spark, tmp_path / "lake", KEPT)
    found = [(mmsi, lat) for mmsi, lat, *_ in answers(tables, START_NS + 250 * SECOND_NS)]
    assert found == [(0, 9.0), (1, 4.0), (7, 9.0)]
    assert snapshots.files(), "they are written again"


def answers(tables: Tables, at_ns: int) -> list[tuple[Any, ...]]:
    rows = tables.asof("Vessel", at_ns).select("mmsi", "lat", "life", "age_s").collect()
    return sorted(tuple(row) for row in rows)


@pytest.mark.slow
def test_columns_follow_tags_when_definitions_change(spark: Any, tmp_path: Path) -> None:
    first: Any = skerry.define_types(
        "struct Tank { 1: [key] uint32 id; 2: int16 level; 3: string life; }"
    ).Tank
    renamed: Any = skerry.define_types(
        "struct Tank { 1: [key] uint32 id; 2: int32 depth; 4: string note; }"
    ).Tank
    other: Any = skerry.define_types("struct Tank { 1: [key] uint32 id; 2: string level; }").Tank
    emitter = Emitter()
    pipeline = Pipeline(spark, tmp_path / "recordings", tmp_path / "lake")
    record(pipeline.recordings, [emitter.create(first(id=1, level=5, life="x"))], first)
    pipeline.run()
    changes = [
        emitter.update(renamed(id=1, depth=70_000, note="deep")),
        emitter.create(other(id=7, level="high")),
    ]
    record(pipeline.recordings, changes, renamed, other)
    plan = pipeline.run()
    assert len(plan.notices) == 1
    assert "Tank@2 is a separate table" in plan.notices[0]
    tables = BothTables(spark, tmp_path / "lake")
    latest = tables.frame("latest/Tank")
    assert dict(latest.dtypes)["level"] == "int"
    assert values(tables, "latest/Tank", "id", "level", "life_", "note", "life") == [
        (1, 70_000, "x", "deep", 1)
    ]
    assert values(tables, "updates/Tank", "level") == [(5,), (70_000,)]
    assert values(tables, "latest/Tank@2", "id", "level") == [(7, "high")]
    others_read_the_same(tables, tmp_path / "lake")


@pytest.mark.slow
def test_gaps_and_types_without_a_definition_are_in_raw(spark: Any, tmp_path: Path) -> None:
    emitter = Emitter()
    folder = tmp_path / "recordings"
    deep = "/" + "/".join(["level"] * 1000)
    record(folder, [emitter.create(Mode(text="x"), subject=deep)])
    record(folder, [emitter.create(Vessel(mmsi=n, name="x" * 100)) for n in range(5)], Vessel)
    record(folder, [emitter.create(Vessel(mmsi=8, name="y" * 10_000_000))], Vessel)
    damage(folder)
    pipeline = Pipeline(spark, folder, tmp_path / "lake")
    pipeline.run()
    tables = BothTables(spark, tmp_path / "lake")
    raw = {row.operation: row for row in tables.frame("raw").collect()}
    assert sorted(raw) == [1, 4]
    assert raw[1].subject == deep
    assert raw[1].type == "Mode"
    assert raw[4].type is None
    (row,) = tables.frame("latest/Vessel").collect()
    assert len(row.name) == 10_000_000


def damage(folder: Path) -> None:
    """Change a byte in the middle of the second segment."""
    (recording,) = open_recordings(folder)
    segment = recording.segments()[1]
    data = bytearray(segment.path.read_bytes())
    place = segment.batches[-1].offset + segment.batches[-1].size // 2
    data[place] ^= 0xFF
    segment.path.write_bytes(data)
