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
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BASICS = ROOT / "examples" / "basics"
"""Programs that use the node of the computer, as the one of a reader would be."""


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


@pytest.mark.slow
def test_the_basic_examples_run_with_one_node(tmp_path: Path) -> None:
    place = f"uds:{tmp_path}/node.sock"
    settings = {"SKERRY_ENDPOINT": place, "SKERRY_STATE_DIR": str(tmp_path / "state")}
    environ = {**os.environ, **settings, "PYTHONDONTWRITEBYTECODE": "1"}
    python = [sys.executable, "-W", "error"]
    names = [path.stem for path in sorted(BASICS.glob("*.py"))]
    words = (BASICS / "README.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}.py`" not in words] == ["fleet"]
    node = [sys.executable, "-m", "skerry", "node", "run", "--listen", place, "--metrics", "off"]
    with subprocess.Popen(node, env=environ, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr is not None
            assert "listens at" in running.stderr.readline()
            # One program follows while the others publish.
            with subprocess.Popen(
                [*python, "subscribe.py"],
                cwd=BASICS,
                env=environ,
                stdout=subprocess.PIPE,
                text=True,
            ) as following:
                assert following.stdout is not None
                assert following.stdout.readline() == "waiting for vessels\n"
                outputs = {
                    name: subprocess.run(
                        [*python, f"{name}.py"],
                        cwd=BASICS,
                        env=environ,
                        capture_output=True,
                        text=True,
                        timeout=120,
                    )
                    for name in names
                    if name != "subscribe"
                }
                seen = following.communicate(timeout=120)[0]
        finally:
            running.terminate()
    for name, done in outputs.items():
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    assert seen.count("Maren") >= 11
    assert outputs["request"].stdout == "Marstrand - the sound - Skagen\n"
    assert "it is owned by client" in outputs["own_and_stand_by"].stdout
    assert "the mate steers Vessel{ .mmsi = 219000002u" in outputs["own_and_stand_by"].stdout
    assert "northernmost:" in outputs["container_to_dataframe"].stdout
