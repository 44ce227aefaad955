"""Which build this is."""

from __future__ import annotations

import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from skerry import build_info
from skerry.codec import frame


def test_mode_is_that_of_the_module_that_is_really_loaded() -> None:
    is_extension = str(frame.__file__).endswith(tuple(EXTENSION_SUFFIXES))
    assert build_info.mode() == ("compiled" if is_extension else "plain")


def test_compiled_modules_are_named_in_the_compiled_build_only() -> None:
    names = build_info.compiled_modules()
    assert names == sorted(names)
    assert ("skerry.codec.frame" in names) == (build_info.mode() == "compiled")
    assert bool(names) == (build_info.mode() == "compiled")


def test_version_is_that_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    pyproject = Path(__file__).resolve().parents[2] / "pyproject.toml"
    assert build_info.version() == build_info._version_of_tree(pyproject)
    assert re.fullmatch(r"\d+\.\d+\.\d+", build_info.version())
