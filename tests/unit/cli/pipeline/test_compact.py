"""`skerry pipeline compact`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

pytestmark = pytest.mark.slow
Run = Callable[..., Any]


def test_without_small_files_a_note_is_printed(
    run: Run, spark: Any, lake: Path, tmp_path: Path
) -> None:
    copy = copytree(lake, tmp_path / "lake")
    first = run("pipeline", "compact", "--tables", copy)
    assert first.code == 0
    again = run("pipeline", "compact", "--tables", copy)
    assert (again.code, again.out) == (0, "")
    assert "no small files to compact" in again.err
