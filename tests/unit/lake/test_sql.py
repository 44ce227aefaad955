from __future__ import annotations

from pathlib import Path

import pytest

import skerry.lake
from skerry.errors import PipelineError
from skerry.lake.sql import filtered, view_names
from tests.unit.lake.lakes import START_NS, S, fleet

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> skerry.lake.OpenLake:
    return skerry.lake.open(fleet(tmp_path_factory.mktemp("a") / "my lake"))


def test_types_are_views(lake: skerry.lake.OpenLake) -> None:
    def count(view: str) -> int:
        (row,) = lake.sql(f"SELECT count(*) AS n FROM {view}").to_pylist()
        return int(row["n"])

    assert {view: count(view) for view in ("Vessel", "latest.vessel", "history.Vessel")} == {
        "Vessel": 2,
        "latest.vessel": 2,
        "history.Vessel": 3,
    }
    assert (count("states.Vessel"), count("updates.Vessel"), count("Hail")) == (5, 6, 1)
    assert view_names(lake) == [
        "Hail",
        "Vessel",
        "history.Vessel",
        "latest.Vessel",
        "states.Vessel",
        "updates.Hail",
        "updates.Vessel",
    ]
    shown = lake.sql("SHOW ALL TABLES").to_pylist()
    assert {("states", "Vessel"), ("main", "Hail")} <= {(r["schema"], r["name"]) for r in shown}


def test_rows_can_be_requested_twice_and_times_are_utc(lake: skerry.lake.OpenLake) -> None:
    answer = lake.sql("SELECT mmsi, make_timestamptz(0) AS t FROM Vessel ORDER BY mmsi")
    assert answer.to_pylist() == answer.to_pylist()
    assert [row["mmsi"] for row in answer.to_pylist()] == [1, 2]
    assert str(answer.schema.field("t").type) == "timestamp[us, tz=UTC]"


def test_a_statement_is_carried_out_once(lake: skerry.lake.OpenLake, tmp_path: Path) -> None:
    place = tmp_path / "x.csv"
    answer = lake.sql(f"COPY (SELECT mmsi FROM Vessel ORDER BY 1) TO '{place}'")
    place.write_text(place.read_text() + "more\n")
    answer.to_arrow()
    assert place.read_text().split() == ["mmsi", "1", "2", "more"]
    assert lake.sql("CREATE TABLE x (a INT)").to_pylist() == []


@pytest.mark.parametrize(
    ("query", "words", "hint"),
    [
        ("SELECT * FROM Vesel", "Vesel does not exist", "did you mean Vessel?"),
        ("SELECT * FROM zebra", "zebra does not exist", "known tables: Hail, Vessel"),
        ("SELEC 1", "syntax error", "LINE 1"),
        ("SELECT nothing FROM Vessel", "nothing", ""),
    ],
)
def test_errors_of_duckdb_have_one_line(
    lake: skerry.lake.OpenLake, query: str, words: str, hint: str
) -> None:
    with pytest.raises(PipelineError, match=words) as caught:
        lake.sql(query)
    assert "\n" not in str(caught.value)
    assert hint in str(caught.value.hint)


def test_errors_while_rows_are_read_are_reported(lake: skerry.lake.OpenLake) -> None:
    answer = lake.sql("SELECT CAST(name AS INT) FROM Vessel")
    with pytest.raises(PipelineError, match="Conversion"):
        answer.to_arrow()


def test_answers_can_be_filtered(lake: skerry.lake.OpenLake) -> None:
    answer = lake.asof("Vessel", START_NS + 99 * S)
    some = filtered(answer, "speed > 4 or marks is not null and mmsi = 7")
    assert some.schema == answer.schema
    assert [row["mmsi"] for row in some.to_pylist()] == [1]
    assert some.notes == answer.notes != ()
    with pytest.raises(PipelineError, match="nothing"):
        filtered(answer, "nothing > 1")
