"""The names applications use: all there, each imported when it is first used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import skerry
from skerry import build_info


def imports_for_type_checkers() -> dict[str, tuple[str, str]]:
    path = Path(skerry.__file__ or "")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_exports_homes_and_imports_for_type_checkers_agree() -> None:
    assert imports_for_type_checkers() == skerry._HOMES
    assert set(skerry.__all__) == {*skerry._HOMES, "__version__"}
    assert len(set(skerry.__all__)) == len(skerry.__all__)


@pytest.mark.parametrize("name", skerry.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(skerry, name) is not None
    assert name in dir(skerry)


def test_the_version_is_that_of_the_build() -> None:
    assert skerry.__version__ == build_info.version()


def test_a_name_that_is_not_there() -> None:
    name = "nothing"
    with pytest.raises(AttributeError, match="module 'skerry' has no attribute 'nothing'"):
        getattr(skerry, name)


def test_importing_skerry_imports_little() -> None:
    program = "import skerry, sys; print([n for n in sys.modules if n.startswith('skerry.')])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_two_ways_of_the_docstring(tmp_path: Path) -> None:
    file = tmp_path / "fleet.dots"
    file.write_text("struct Vessel { 1: [key] uint32 mmsi; 2: float64 lat; }")
    types = skerry.load_types(file)
    vessel = types.Vessel(mmsi=244660000, lat=52.1)

    @skerry.struct
    class Vessel(skerry.Struct):
        mmsi: skerry.uint32 | None = skerry.key(1)
        lat: float | None = skerry.field(2)

    assert Vessel(mmsi=244660000, lat=52.1) == vessel
    assert Vessel.decode(vessel.encode()) == vessel
    assert Vessel.descriptor == types.Vessel.descriptor
