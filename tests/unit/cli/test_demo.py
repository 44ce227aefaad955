"""`skerry demo`. The whole tour is played by the tests of programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.apps.demo.tour import Check
from skerry.cli import demo as module
from skerry.cli.output import Output

Run = Callable[..., Any]


def test_demo_rejects_invalid_options(run: Run) -> None:
    for seconds in ("-1", "nan", "inf"):
        assert run("demo", "--seconds", seconds).code == 2
    assert run("demo", "--vessels", "0").code == 2


def test_types_are_shown_first(capsys: pytest.CaptureFixture[str]) -> None:
    module._introduce(Output())
    assert "struct Vessel [cleanup]" in capsys.readouterr().err


def test_guarantees_are_a_table_or_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    checks = [Check(promise="it works", holds=True, facts="3 vessels")]
    module._report(checks, Output(), as_json=True)
    row = json.loads(capsys.readouterr().out)
    assert row == {"promise": "it works", "holds": True, "facts": "3 vessels"}
    module._report(checks, Output(), as_json=False)
    assert "kept  it works   3 vessels" in " ".join(capsys.readouterr().out.split(" "))


def test_paths_of_what_is_kept_are_printed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_play", lambda *_words, **_options: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept" / "recording").mkdir(parents=True)
    (tmp_path / "kept" / "report.html").touch()
    done = run("demo", "--headless", "--keep", "kept")
    assert "report:    kept/report.html\nrecording: kept/recording\n" in done.err
    assert "the tour took 0" in done.err
    assert "With --keep DIR" in run("demo", "--headless").err


def test_broken_guarantee_is_exit_code_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def play(tour: Any, *_words: Any, **_options: Any) -> None:
        tour.checks.append(Check(promise="it works", holds=False, facts="it does not"))

    monkeypatch.setattr(module, "_play", play)
    done = run("demo", "--headless")
    assert done.code == 1
    assert "BROKEN  it works" in done.out
    assert "a guarantee was broken" in done.err
