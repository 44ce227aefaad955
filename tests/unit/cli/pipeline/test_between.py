"""`skerry pipeline between`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.cli.pipeline.answers import Fields
from skerry.cli.pipeline.queries import update_cells

pytestmark = pytest.mark.slow
Run = Callable[..., Any]
ALL_OF_IT = ("--from", "2026-11-15T14:00Z", "--to", "2026-11-15T15:00Z")


@pytest.fixture(params=["lake", "spark"])
def run(request: pytest.FixtureRequest, run: Run) -> Run:
    """Each test is run with both engines."""
    return lambda *words: run(*words, "--engine", request.param)


def test_updates_are_in_order_with_their_fields(run: Run, lake: Path) -> None:
    done = run("pipeline", "between", "--tables", lake, "--type", "Vessel", *ALL_OF_IT, "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["_operation"] for row in rows] == ["create", "create", "update", "remove"]
    assert rows[2] == {
        "mmsi": 1,
        "lat": 52.5,
        "seen": 1_794_751_203.5,
        "_operation": "update",
        "_time": 1_794_751_203.0,
        "_type": "Vessel",
        "_key": 1,
        "_subject": "/Vessel/1",
        "_sender": 3,
        "_space": "bay",
    }


def test_the_end_is_exclusive_and_messages_are_shown(run: Run, lake: Path) -> None:
    times = ("--from", "2026-11-15T14:00:01Z", "--to", "2026-11-15T14:00:03Z")
    done = run("pipeline", "between", "--tables", lake, "--type", "Vessel", *times)
    assert [line.split()[1] for line in done.out.splitlines()[1:]] == ["create", "create"]
    said = run("pipeline", "between", "--tables", lake, "--type", "Hail", *ALL_OF_IT, "--json")
    assert json.loads(said.out)["text"] == "ahoy"


def test_end_before_the_beginning_is_a_mistake(run: Run) -> None:
    times = ("--from", "2026-11-15T15:00Z", "--to", "2026-11-15T14:00Z")
    done = run("pipeline", "between", "--tables", "lake", "--type", "Vessel", *times)
    assert (done.code, "--to is before --from" in done.err) == (2, True)


def test_fields_that_are_called_like_facts_are_shown_beside_them() -> None:
    row = {"order_ns": 1_794_751_201_000_002_999, "change": "update", "sender": 7, "time": "noon"}
    assert update_cells(row, Fields({"time": "time"}, [])) == {
        "_time": "2026-11-15T14:00:01.000002999Z",
        "change": "update",
        "sender": 7,
        "time": "noon",
    }


def test_times_in_tables_are_in_iso_8601(run: Run, lake: Path) -> None:
    done = run("pipeline", "between", "--tables", lake, "--type", "Vessel", *ALL_OF_IT)
    row = done.out.splitlines()[3].split()
    assert (row[0], row[-1]) == ("2026-11-15T14:00:03Z", "2026-11-15T14:00:03.5Z")


def test_a_range_outside_of_the_recording_is_noted(run: Run, lake: Path) -> None:
    times = ("--from", "2026-11-15T14:00:01Z", "--to", "2026-11-15T15:00Z")
    done = run("pipeline", "between", "--tables", lake, "--type", "Vessel", *times, "--json")
    assert len(done.out.splitlines()) == 4
    assert done.err == (
        "2026-11-15T15:00:00Z is after the recorded range:"
        " 2026-11-15T14:00:01Z to 2026-11-15T14:00:05Z\n"
    )
