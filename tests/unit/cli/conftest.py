"""Command lines run in this process, away from the configuration of whoever runs the tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from skerry.cli.main import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


@pytest.fixture
def clean_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with no configuration around."""
    for name in list(os.environ):
        if name.startswith("SKERRY_") and name != "SKERRY_TEST_MODE":
            monkeypatch.delenv(name)
    for name in ("NO_COLOR", "FORCE_COLOR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(clean_place: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs `skerry` with the arguments given."""

    def run_command(*arguments: str | Path) -> Done:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(code=code, out=captured.out, err=captured.err)

    return run_command
