"""Examples are programs that run to their end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_notebook_runs_from_top_to_bottom(notebook: Path, tmp_path: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert sources
    # Plots are drawn, and saved at the end to see that there is something in them.
    end = (
        "for number in plt.get_fignums():\n"
        "    plt.figure(number).savefig(f'plot-{number}.png')\n"
        "    assert plt.figure(number).axes[0].lines\n"
    )
    program = tmp_path / "notebook.py"
    program.write_text("\n\n".join([*sources, end]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "MPLBACKEND": "Agg", "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("plot-*.png"))) == 2
    assert not [cell for cell in cells if cell.get("outputs")], "outputs stay out of git"


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
