"""`skerry pipeline report`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import captures

pytestmark = pytest.mark.slow
Run = Callable[..., Any]


def test_figures_and_page_show_the_traffic(run: Run, lake: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = run("pipeline", "report", "--tables", lake, "--to", page)
    assert done.code == 0
    captures.compare("report", done.out)
    assert "bay" in done.out
    assert "Vessel" in done.out
    assert str(page) in done.err
    text = page.read_text(encoding="utf-8")
    assert "What happened in bay" in text
    assert "/Vessel/1" in text


def test_programs_get_the_figures_as_json(run: Run, lake: Path) -> None:
    done = run("pipeline", "report", "--tables", lake, "--json")
    summary, delay, *alarms = map(json.loads, done.out.splitlines())
    assert summary["_kind"] == "summary"
    assert (summary["updates"], summary["objects"], summary["types"]) == (5, 1, 2)
    assert summary["updates_by_type"] == {"Vessel": 4, "Hail": 1}
    assert summary["latency_ms"] == pytest.approx(2.0)
    assert (summary["lost"], alarms) == (0, [])
    assert (delay["_kind"], delay["who"], delay["slow_minutes"]) == ("delay", "client 3", 0)


def test_the_bound_of_slow_programs_can_be_given(run: Run, lake: Path, monkeypatch: Any) -> None:
    done = run("pipeline", "report", "--tables", lake, "--slow-ms", "1.5", "--all")
    assert "1 of 1" in next(line for line in done.out.splitlines() if "client 3" in line)
    monkeypatch.setenv("SKERRY_PIPELINE__SLOW_MS", "1.5")
    done = run("pipeline", "report", "--tables", lake, "--json")
    assert json.loads(done.out.splitlines()[1])["slow_minutes"] == 1


def test_the_folder_of_the_page_must_exist(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "none" / "report.html"
    done = run("pipeline", "report", "--tables", "lake", "--to", page)
    assert (done.code, "there is no folder" in done.err) == (2, True)


def test_an_empty_folder_is_noted_and_is_not_an_error(run: Run, spark: Any, tmp_path: Path) -> None:
    done = run("pipeline", "report", "--tables", tmp_path)
    assert (done.code, done.out) == (0, "")
    assert "no updates" in done.err
