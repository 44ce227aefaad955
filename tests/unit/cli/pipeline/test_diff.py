"""`skerry pipeline diff`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
Run = Callable[..., Any]
DIFF = ("pipeline", "diff", "--type", "Vessel", "--tables")


@pytest.fixture(params=["lake", "spark"])
def run(request: pytest.FixtureRequest, run: Run) -> Run:
    """Each test is run with both engines."""
    return lambda *words: run(*words, "--engine", request.param)


def test_changes_are_named_with_both_states(run: Run, lake: Path) -> None:
    times = ("--from", "2026-11-15T14:00:02Z", "--to", "2026-11-15T14:00:09Z")
    rows = [json.loads(line) for line in run(*DIFF, lake, *times, "--json").out.splitlines()]
    maren, wren = sorted(rows, key=lambda row: row["_key"])
    assert (maren["_change"], maren["_changed"]) == ("changed", ["lat", "seen"])
    assert (maren["_before"]["lat"], maren["_after"]["lat"]) == (52.0, 52.5)
    assert (wren["_change"], wren["_after"], wren["_key"]) == ("removed", None, 2)
    assert wren["_before"] == {"mmsi": 2, "name": "Wren"}


def test_changes_are_printed_as_old_and_new_values(run: Run, lake: Path) -> None:
    times = ("--from", "2026-11-15T14:00:00Z", "--to", "2026-11-15T14:00:01Z")
    added = run(*DIFF, lake, *times)
    assert added.out.splitlines()[1].split() == ["/Vessel/1", "added"]
    times = ("--from", "2026-11-15T14:00:01Z", "--to", "2026-11-15T14:00:09Z")
    assert "lat: 52.0 -> 52.5" in run(*DIFF, lake, *times).out


def test_same_instant_has_no_difference(run: Run, lake: Path) -> None:
    times = ("--from", "2026-11-15T14:00:02Z", "--to", "2026-11-15T14:00:02Z")
    done = run(*DIFF, lake, *times, "--json")
    assert (done.code, done.out) == (0, "")
