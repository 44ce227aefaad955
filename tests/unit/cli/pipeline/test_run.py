"""`skerry pipeline run`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
Run = Callable[..., Any]


def test_second_run_has_nothing_to_do(run: Run, lake: Path, recordings: Path) -> None:
    arguments = ("--recordings", recordings, "--tables", lake)
    done = run("pipeline", "run", *arguments, "--json")
    assert done.code == 0
    assert json.loads(done.out) == {"rows": 0, "batches": 0, "backlog": 0}


def test_folder_without_recordings_is_an_error(run: Run, spark: Any, tmp_path: Path) -> None:
    done = run("pipeline", "run", "--recordings", tmp_path / "none", "--tables", tmp_path / "lake")
    assert done.code == 1
    assert "error:" in done.err
    assert "Traceback" not in done.err
