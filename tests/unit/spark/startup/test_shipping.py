"""The package as a zip file."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from skerry.spark.startup.session import package_zip


def test_the_zip_has_the_sources_and_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = package_zip(tmp_path / "a.zip"), package_zip(tmp_path / "b.zip")
    assert first.read_bytes() == second.read_bytes()
    names = zipfile.ZipFile(first).namelist()
    assert "skerry/spark/source/data_source.py" in names
    assert not [name for name in names if name.endswith((".so", ".pyc", ".pyx"))]


@pytest.mark.slow
def test_python_imports_the_source_from_the_zip(tmp_path: Path) -> None:
    target = package_zip(tmp_path / "skerry.zip")
    program = "import skerry.spark.source.data_source as s; print(s.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(target)},
    )
    assert done.stdout.startswith(str(target))
