"""`skerry.lake.open`: questions to small tables."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc
import pytest

import skerry.lake
from skerry.errors import PipelineError
from skerry.lake.reader import Range, instant_text
from skerry.spark.lake.store import TableStore
from tests.unit.lake.lakes import START_NS, VESSEL, S, fleet, held, put, write_plan

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> skerry.lake.OpenLake:
    # A blank and a percent sign: names of files are quoted in logs, and those of folders are not.
    return skerry.lake.open(fleet(tmp_path_factory.mktemp("a") / "my lake 100%"))


def at(second: float) -> int:
    return START_NS + round(second * S)


def test_an_age_may_be_many_years(lake: skerry.lake.OpenLake) -> None:
    years = 20 * 365 * 86_400
    ages = [row["age_s"] for row in lake.asof("Vessel", at(years)).to_pylist()]
    assert ages
    assert all(years - 3600 < age <= years for age in ages)


def test_objects_are_as_they_were_at_an_instant(lake: skerry.lake.OpenLake) -> None:
    rows = sorted(lake.asof("Vessel", at(2.5)).to_pylist(), key=lambda row: row["mmsi"])
    assert [(r["mmsi"], r["name"], r["age_s"], r["life"]) for r in rows] == [
        (1, "Maren", 0.0, 1),
        (2, "Wren", 0.5, 1),
    ]
    assert rows[0]["speed"] == 3.0
    assert math.isnan(rows[1]["speed"])
    assert [row["mmsi"] for row in lake.asof("Vessel", at(3.5)).to_pylist()] == [1]
    assert lake.asof("Vessel", at(3.5)).notes == ()


def test_a_condition_is_one_of_the_columns(lake: skerry.lake.OpenLake) -> None:
    found = lake.asof("Vessel", at(9), where=pc.field("speed") > 4).to_pylist()
    assert [(row["mmsi"], row["place"]) for row in found] == [(1, {"lat": 1.0, "lon": None})]
    assert lake.latest("Vessel", where=pc.field("name") == "Wren").to_arrow().num_rows == 1


def test_instants_outside_of_the_recorded_range_are_noted(
    lake: skerry.lake.OpenLake,
) -> None:
    assert lake.recorded("Vessel") == Range(first_ns=at(1), last_ns=at(5))
    assert lake.recorded() == Range(first_ns=at(1), last_ns=at(6))
    early, late = lake.asof("Vessel", at(0)), lake.asof("Vessel", at(7))
    assert (early.to_pylist(), late.to_arrow().num_rows) == ([], 2)
    (note,) = early.notes
    assert note == (
        "2026-11-15T14:00:00Z is before the recorded range:"
        " 2026-11-15T14:00:01Z to 2026-11-15T14:00:06Z"
    )
    assert "is after the recorded range" in late.notes[0]
    assert lake.asof("Vessel", at(5.5)).notes == (), "others were recorded then"


def test_whole_space_has_objects_as_json(lake: skerry.lake.OpenLake) -> None:
    rows = lake.asof(None, at(2.5)).to_pylist()
    objects = {row["subject"]: json.loads(row["object"]) for row in rows}
    assert {row["type"] for row in rows} == {"Vessel"}
    assert objects == {
        "/Vessel/1": {"mmsi": 1, "name": "Maren", "speed": 3.0},
        "/Vessel/2": {"mmsi": 2, "name": "Wren", "speed": "NaN"},
    }


def test_updates_are_in_order_and_the_end_is_exclusive(lake: skerry.lake.OpenLake) -> None:
    rows = lake.between("Vessel", at(2), at(4)).to_pylist()
    assert [(row["change"], row["mmsi"]) for row in rows] == [
        ("create", 2),
        ("update", 1),
        ("remove", 2),
    ]
    assert len(lake.between("Vessel").to_pylist()) == 6
    assert [row["text"] for row in lake.between("Hail").to_pylist()] == ["ahoy"]


def test_states_of_a_range_are_those_that_held_in_it(lake: skerry.lake.OpenLake) -> None:
    def held_in(first: float | None, stop: float | None) -> list[tuple[int, int]]:
        bounds = [None if second is None else at(second) for second in (first, stop)]
        rows = lake.history("Vessel", *bounds).to_pylist()
        return sorted((row["mmsi"], (row["valid_from_ns"] - START_NS) // S) for row in rows)

    assert held_in(None, None) == [(1, 1), (1, 2), (1, 5), (2, 2), (2, 4)]
    assert held_in(3, 4) == [(1, 2)]
    assert held_in(5, None) == [(1, 5), (2, 4)]


def test_differences_name_the_changed_fields(lake: skerry.lake.OpenLake) -> None:
    (row,) = lake.diff("Vessel", at(1), at(2.5)).to_pylist()[:1]
    assert (row["change"], row["changed"]) == ("changed", ["speed"])
    assert (row["before"]["speed"], row["after"]["speed"]) == (1.0, 3.0)
    changes = [(r["change"], r["changed"]) for r in lake.diff("Vessel", at(2.5), at(9)).to_pylist()]
    assert changes == [("changed", ["speed", "place"]), ("replaced", ["speed", "marks"])]
    gone = lake.diff("Vessel", at(2.5), at(3.5)).to_pylist()
    assert [(r["change"], r["after"], r["changed"]) for r in gone] == [("removed", None, [])]
    added = lake.diff("Vessel", at(0), at(1)).to_pylist()
    assert [(r["change"], r["before"], r["after"]["name"]) for r in added] == [
        ("added", None, "Maren")
    ]
    assert lake.diff("Vessel", at(2), at(2)).to_pylist() == []


def test_missing_names_are_reported(lake: skerry.lake.OpenLake, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no folder"):
        skerry.lake.open(tmp_path / "none")
    with pytest.raises(PipelineError, match="there is no type Vesel") as caught:
        lake.asof("Vesel", 0)
    assert caught.value.hint == "did you mean Vessel?"
    with pytest.raises(PipelineError, match="Hail is a message type"):
        lake.asof("Hail", 0)
    with pytest.raises(PipelineError, match="there is no table latest/Vesel"):
        lake.table("latest/Vesel")
    with pytest.raises(PipelineError, match="is not an instant"):
        lake.asof("Vessel", "noon")
    with pytest.raises(PipelineError, match="the lake has no objects"):
        skerry.lake.open(tmp_path).asof(None, 0)


def test_a_type_without_tables_yet_has_no_rows(tmp_path: Path) -> None:
    write_plan(tmp_path, VESSEL)
    empty = skerry.lake.open(tmp_path)
    for answer in (
        empty.asof("Vessel", 0),
        empty.between("Vessel"),
        empty.history("Vessel"),
        empty.diff("Vessel", 0, 1),
        empty.series("Vessel", "speed"),
    ):
        assert (answer.to_pylist(), answer.notes) == ([], ())
        assert len(answer.schema) > 4


def test_a_snapshot_replaces_old_states(tmp_path: Path) -> None:
    write_plan(tmp_path, VESSEL)
    # Of a state that began before the edge only the snapshot tells: history is not asked.
    put(tmp_path, "history", VESSEL, [held(1, 20, 1, name="from history")])
    put(tmp_path, "history", VESSEL, [held(12, 15, 2, name="after the edge")])
    edge = {"edge_ns": str(at(10)), "until_ns": str(at(30))}
    put(tmp_path, "snapshots", VESSEL, [held(1, 20, 1, name="from snapshot")], edge)
    lake = skerry.lake.open(tmp_path)
    names = {second: lake.asof("Vessel", at(second)).to_pylist() for second in (5, 13, 16, 25)}
    assert {second: sorted(r["name"] for r in rows) for second, rows in names.items()} == {
        5: ["from history"],
        13: ["after the edge", "from snapshot"],
        16: ["from snapshot"],
        25: [],
    }


def test_tables_and_types_are_listed(lake: skerry.lake.OpenLake) -> None:
    assert lake.types() == ["Hail", "Vessel"]
    sizes = {info.name: (info.rows, info.files) for info in lake.tables()}
    assert sizes == {
        "history/Vessel": (3, 1),
        "latest/Vessel": (2, 1),
        "updates/Hail": (1, 1),
        "updates/Vessel": (6, 2),
    }
    assert lake.table("latest/Vessel").to_arrow().num_rows == 2


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (START_NS, "2026-11-15T14:00:00Z"),
        (START_NS + 1, "2026-11-15T14:00:00.000000001Z"),
        (START_NS + 2000, "2026-11-15T14:00:00.000002Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (-(2**63), "1677-09-21T00:12:43.145224192Z"),
    ],
)
def test_instants_are_written_as_iso_times(ns: int, text: str) -> None:
    assert instant_text(ns) == text


def test_neither_spark_nor_a_jvm_is_needed(lake: skerry.lake.OpenLake) -> None:
    script = (
        "import sys, skerry.lake\n"
        "lake = skerry.lake.open(sys.argv[1])\n"
        f"assert lake.asof('Vessel', {at(2.5)}).to_arrow().num_rows == 2\n"
        "found = {'pyspark', 'py4j', 'duckdb', 'polars'} & set(sys.modules)\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", script, lake.store.root], check=True)


def test_remote_tables_can_be_queried(tmp_path: Path, bucket: str) -> None:
    from pyarrow.fs import LocalFileSystem, copy_files

    here = skerry.lake.open(fleet(tmp_path))
    place = f"{bucket.replace('s3:', 's3a:')}/my lake"
    store = TableStore(place)
    copy_files(str(tmp_path), store.arrow_path(""), LocalFileSystem(), store.files)
    there = skerry.lake.open(place)
    assert there.types() == here.types()
    for lake in (here, there):
        assert lake.asof("Vessel", at(3.5)).to_pylist()[0]["speed"] == 3.0
    # As text: NaN is not even equal to itself.
    assert repr(there.between("Vessel").to_pylist()) == repr(here.between("Vessel").to_pylist())
    assert there.sql("SELECT count(*) AS n FROM states.Vessel").to_pylist() == [{"n": 5}]
    with pytest.raises(PipelineError, match="there is no folder"):
        skerry.lake.open(f"{bucket}/none")
