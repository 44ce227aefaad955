"""Examples are programs that run to their end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_example_runs(example: Path, tmp_path: Path) -> None:
    # In a copy, so that what an example writes does not stay in the tree.
    folder = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__"))
    copy = folder / example.relative_to(ROOT / "examples")
    done = subprocess.run(
        [sys.executable, "-W", "error", copy],
        cwd=copy.parent,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "SKERRY_STATE_DIR": str(tmp_path / "state")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
