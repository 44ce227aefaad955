"""What mypy makes of generated classes: it takes what is right and finds what is wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skerry.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
RIGHT = ("reading.py", "making.py", "matching.py", "clients.py")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this folder, and a cache of mypy that the tests share."""
    folder = tmp_path_factory.mktemp("place")
    shutil.copytree(HERE, folder / "tests" / "typing", ignore=shutil.ignore_patterns("test_*"))
    return folder


def mypy(place: Path, *files: str) -> list[str]:
    """The errors, as `file:line: code`."""
    options = ("--strict", "--warn-unreachable", "--explicit-package-bases")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *(f"tests/typing/{file}" for file in files)],
        cwd=place,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if ": error: " in line]
    return [re.sub(r"^.*/(\w+\.pyi?:\d+): error: .*\[(.*)\]$", r"\1: \2", line) for line in lines]


def test_generated_files_are_what_the_generator_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    assert main(["types", "generate", "fleet.dots", "-o", "fleet.py", "--check"]) == 0


def test_stub_type_checks(place: Path) -> None:
    assert mypy(place, "fleet.pyi") == []


def test_module_type_checks_without_its_stub(place: Path) -> None:
    shutil.copy(place / "tests/typing/fleet.py", place / "tests/typing/alone.py")
    assert mypy(place, "alone.py") == []


def test_programs_that_use_the_classes_rightly_type_check(place: Path) -> None:
    assert mypy(place, *RIGHT) == []


def test_each_mistake_is_found(place: Path) -> None:
    text = (HERE / "mistakes.py").read_text(encoding="utf-8")
    expected = [
        f"unmarked.py:{number}: {code}"
        for number, line in enumerate(text.splitlines(), 1)
        for codes in re.findall(r"# type: ignore\[(.*)\]", line)
        for code in codes.split(",")
    ]
    assert len(expected) > 15
    unmarked = place / "tests/typing/unmarked.py"
    unmarked.write_text(re.sub(r"  # type: ignore.*", "", text), encoding="utf-8")
    assert sorted(mypy(place, "unmarked.py")) == sorted(expected)
