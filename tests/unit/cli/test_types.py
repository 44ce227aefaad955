"""`skerry types` as a program: real processes, real pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

TYPES = "struct   A{1:bool b;}\n"


def skerry(folder: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "skerry", "types", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(folder)},
        input=text,
        capture_output=True,
        text=True,
    )


def test_group_lists_its_commands(run: Run) -> None:
    done = run("types", "--help")
    assert done.code == 0
    listed = done.out.split("Commands:\n")[1].splitlines()
    names = [line.split()[0] for line in listed]
    assert names == ["check", "diff", "format", "generate", "list", "show"]


def test_group_alone_shows_its_help_and_is_an_error(run: Run) -> None:
    done = run("types")
    assert (done.code, done.out) == (2, "")
    assert "Commands:" in done.err


@pytest.mark.slow
def test_types_go_through_pipes(tmp_path: Path) -> None:
    done = skerry(tmp_path, "format", "-", text=TYPES)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "struct A {\n    1: bool b;\n}\n"
    shown = skerry(tmp_path, "show", "--json", "-", text=done.stdout)
    assert '"name": "A"' in shown.stdout


@pytest.mark.slow
def test_generated_module_runs_in_a_program_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.dots").write_text(TYPES)
    assert skerry(tmp_path, "generate", "a.dots", "-o", "a_types.py").returncode == 0
    (tmp_path / "a.dots").unlink()
    program = "import a_types; print(a_types.A.decode(a_types.A(b=True).encode()))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "A{ .b = true }\n"


@pytest.mark.slow
def test_exit_codes_reach_the_shell(tmp_path: Path) -> None:
    (tmp_path / "bad.dots").write_text("struct {")
    assert skerry(tmp_path, "check", "bad.dots").returncode == 1
    assert skerry(tmp_path, "check").returncode == 2
    assert skerry(tmp_path, "check", "-", text=TYPES).returncode == 0


@pytest.mark.slow
def test_help_does_not_import_schema_and_objects(tmp_path: Path) -> None:
    program = (
        "import sys, skerry.cli.types;"
        "print(sorted(m for m in sys.modules if m.startswith(('skerry.schema', 'skerry.objects'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[]\n"
