"""`skerry sql`."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.lake.lakes import fleet

pytestmark = pytest.mark.slow
Run = Callable[..., Any]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fleet(tmp_path_factory.mktemp("a") / "my lake")


QUERY = "SELECT mmsi, name, marks, make_timestamptz(1500000) AS t FROM Vessel ORDER BY mmsi"


def test_rows_are_printed_as_table_json_and_csv(run: Run, lake: Path) -> None:
    done = run("sql", QUERY, "--tables", lake)
    assert done.out.splitlines()[0].split() == ["mmsi", "name", "marks", "t"]
    assert done.out.splitlines()[2].split() == ["2", "Wren", "[1]", "1970-01-01T00:00:01.5Z"]
    rows = [
        json.loads(line)
        for line in run("sql", QUERY, "--tables", lake, "--json").out.split("\n")[:2]
    ]
    assert rows[0] == {"mmsi": 1, "name": "Maren", "t": 1.5}
    assert rows[1]["marks"] == [1]
    text = run("sql", QUERY, "--tables", lake, "--csv").out
    assert list(csv.reader(text.splitlines())) == [
        ["mmsi", "name", "marks", "t"],
        ["1", "Maren", "", "1970-01-01T00:00:01.5Z"],
        ["2", "Wren", "[1]", "1970-01-01T00:00:01.5Z"],
    ]


def test_rows_are_limited(run: Run, lake: Path) -> None:
    for form in ("--json", "--csv"):
        done = run("sql", QUERY, "--tables", lake, form, "--limit", "1")
        assert len(done.out.splitlines()) == (1 if form == "--json" else 2)
    shown = run("sql", QUERY, "--tables", lake, "--limit", "1")
    assert (len(shown.out.splitlines()), "the first 1 rows" in shown.err) == (2, True)


def test_empty_results_and_errors_are_reported(run: Run, lake: Path, tmp_path: Path) -> None:
    empty = run("sql", "SELECT mmsi FROM Vessel WHERE mmsi < 0", "--tables", lake)
    assert (empty.code, empty.out, empty.err) == (0, "", "no rows; the columns are mmsi\n")
    wrong = run("sql", "SELECT * FROM Vesel", "--tables", lake)
    assert (wrong.code, "did you mean Vessel" in wrong.err) == (1, True)
    both = run("sql", "SELECT 1", "--tables", lake, "--json", "--csv")
    assert (both.code, "exclude" in both.err) == (2, True)
    nowhere = run("sql", "SELECT 1", "--tables", tmp_path / "none")
    assert (nowhere.code, "there is no folder" in nowhere.err) == (1, True)
