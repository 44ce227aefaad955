"""`skerry pipeline asof`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.cli.pipeline.answers import Fields
from skerry.cli.pipeline.queries import object_cells

pytestmark = pytest.mark.slow
Run = Callable[..., Any]
ASOF = ("pipeline", "asof", "--tables")


@pytest.fixture(params=["lake", "spark"])
def run(request: pytest.FixtureRequest, run: Run) -> Run:
    """Each test is run with both engines."""
    return lambda *words: run(*words, "--engine", request.param)


def test_objects_are_as_they_were(run: Run, lake: Path) -> None:
    done = run(*ASOF, lake, "--type", "Vessel", "--at", "2026-11-15T14:00:02.5Z", "--json")
    assert done.code == 0
    maren, wren = map(json.loads, done.out.splitlines())
    assert maren == {
        "mmsi": 1,
        "name": "Maren",
        "lat": 52.0,
        "_type": "Vessel",
        "_key": 1,
        "_subject": "/Vessel/1",
        "_sender": 3,
        "_age_s": 1.5,
        "_life": 1,
        "_space": "bay",
    }
    assert (wren["name"], wren["_age_s"]) == ("Wren", 0.5)


def test_removed_objects_are_gone_and_times_are_seconds(run: Run, lake: Path) -> None:
    done = run(*ASOF, lake, "--type", "Vessel", "--at", "2026-11-15T14:00:09Z", "--json")
    (maren,) = map(json.loads, done.out.splitlines())
    assert (maren["lat"], maren["seen"], maren["name"]) == (52.5, 1_794_751_203.5, "Maren")


def test_before_the_recording_there_are_no_objects(run: Run, lake: Path) -> None:
    done = run(*ASOF, lake, "--type", "Vessel", "--at", "2026-11-15T13:00:00Z", "--json")
    assert (done.code, done.out) == (0, "")
    assert done.err == (
        "2026-11-15T13:00:00Z is before the recorded range:"
        " 2026-11-15T14:00:01Z to 2026-11-15T14:00:05Z\n"
    )


def test_objects_are_printed_as_a_table(run: Run, lake: Path) -> None:
    at = ("--at", "2026-11-15T14:00:02.5Z")
    done = run(*ASOF, lake, "--type", "Vessel", *at, "--where", "lat > 50")
    assert done.code == 0
    head, row = done.out.splitlines()
    assert head.split() == ["mmsi", "name", "lat", "seen", "age"]
    assert row.split() == ["1", "Maren", "52", "1.500", "s"]
    limited = run(*ASOF, lake, "--type", "Vessel", *at, "--limit", "1")
    assert len(limited.out.splitlines()) == 2
    assert "the first 1 rows" in limited.err


def test_whole_space_is_shown_without_a_type(run: Run, lake: Path) -> None:
    done = run(*ASOF, lake, "--at", "2026-11-15T14:00:02.5Z", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [(row["_type"], row["name"]) for row in rows] == [
        ("Vessel", "Maren"),
        ("Vessel", "Wren"),
    ]


def test_an_object_is_shown_alike_with_and_without_a_type(run: Run, lake: Path) -> None:
    at = ("--at", "2026-11-15T14:00:09Z", "--json")
    assert run(*ASOF, lake, *at).out == run(*ASOF, lake, "--type", "Vessel", *at).out != ""


def test_a_field_that_is_called_age_is_shown_beside_the_age() -> None:
    row = {"age": 7, "age_s": 1.5}
    assert object_cells(row, Fields({"age": "age"}, [])) == {"age": 7, "_age": "1.500 s"}


def test_unknown_types_and_message_types_are_errors(run: Run, lake: Path) -> None:
    at = ("--at", "2026-11-15T14:00:02Z")
    misspelled = run(*ASOF, lake, "--type", "Vesel", *at)
    assert (misspelled.code, "did you mean Vessel" in misspelled.err) == (1, True)
    message = run(*ASOF, lake, "--type", "Hail", *at)
    assert (message.code, "message type" in message.err) == (1, True)
    wrong = run(*ASOF, lake, "--type", "Vessel", *at, "--where", "nothing = 1")
    assert (wrong.code, "nothing" in wrong.err) == (1, True)
    assert wrong.err.startswith("error: "), "the engine itself says nothing before"


def test_instant_has_a_time_zone(run: Run) -> None:
    done = run(*ASOF, "lake", "--type", "Vessel", "--at", "2026-11-15T14:00:02")
    assert (done.code, "time zone" in done.err) == (2, True)
