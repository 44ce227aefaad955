"""`skerry pipeline vacuum`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

pytestmark = pytest.mark.slow
Run = Callable[..., Any]


def test_old_files_of_killed_jobs_are_deleted(run: Run, lake: Path, tmp_path: Path) -> None:
    copy = copytree(lake, tmp_path / "lake")
    orphan = copy / "rates" / "b99999999-dead" / "part-0.parquet"
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"half a file")
    assert run("pipeline", "vacuum", "--tables", copy).code == 0
    assert orphan.exists(), "it is not old enough"
    dry = run("pipeline", "vacuum", "--tables", copy, "--older-than", "0", "--dry-run", "--json")
    assert json.loads(dry.out)["is_dry_run"] is True
    assert orphan.exists()
    before = json.loads(run("pipeline", "tables", "--tables", copy, "--json").out.splitlines()[0])
    done = run("pipeline", "vacuum", "--tables", copy, "--older-than", "0")
    assert "deleted" in done.out
    assert not orphan.exists()
    after = json.loads(run("pipeline", "tables", "--tables", copy, "--json").out.splitlines()[0])
    assert after == before
