"""`skerry pipeline tables`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.slow
def test_tables_are_listed_with_their_sizes(run: Run, lake: Path) -> None:
    done = run("pipeline", "tables", "--tables", lake, "--json")
    rows = {row["name"]: row for row in map(json.loads, done.out.splitlines())}
    assert {"updates/Vessel", "history/Vessel", "latest/Vessel", "updates/Hail"} <= set(rows)
    assert {"rates", "links", "sessions", "alarms"} <= set(rows)
    assert rows["updates/Vessel"]["rows"] == 4
    assert rows["latest/Vessel"]["rows"] == 1
    assert rows["updates/Vessel"]["bytes"] > 0
    shown = run("pipeline", "tables", "--tables", lake).out.splitlines()
    assert shown[0].split() == ["table", "rows", "files", "size"]
    assert len(shown) == len(rows) + 1


def test_empty_folder_says_how_to_make_tables(run: Run, tmp_path: Path) -> None:
    done = run("pipeline", "tables", "--tables", tmp_path)
    assert (done.code, done.out) == (0, "")
    assert "skerry pipeline run" in done.err
