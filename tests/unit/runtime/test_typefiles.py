"""Type files on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.errors import SchemaSyntaxError
from skerry.runtime.typefiles import load_types, read_type_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fleet.dots").write_text(
        "import Position\nstruct Vessel { 1: [key] uint32 mmsi; 2: Position position; }\n"
    )
    (tmp_path / "Position.dots").write_text("struct Position { 1: float64 lat; }\n")
    return tmp_path


def test_a_file_is_loaded_with_what_it_imports(folder: Path) -> None:
    types = load_types(folder / "fleet.dots")
    assert list(types) == ["Vessel", "Position"]
    assert types.Vessel(position=types.Position(lat=1.0)).position.lat == 1.0


def test_paths_may_be_text_and_several(folder: Path) -> None:
    types = load_types(str(folder / "Position.dots"), folder / "fleet.dots")
    assert list(types) == ["Position", "Vessel"]
    assert load_types(folder / "fleet.dots").Vessel is types.Vessel


def test_faults_are_told_with_their_file(folder: Path) -> None:
    (folder / "bad.dots").write_text("struct {")
    with pytest.raises(SchemaSyntaxError) as caught:
        load_types(folder / "bad.dots", folder / "none.dots")
    said = str(caught.value)
    assert f"{folder / 'bad.dots'}:1:8: error:" in said
    assert f"{folder / 'none.dots'}:1:1: error: there is no such file" in said


def test_a_file_that_is_not_there_is_no_content(folder: Path) -> None:
    assert read_type_file(str(folder / "none.dots")) is None
    assert read_type_file(str(folder / "Position.dots")) == b"struct Position { 1: float64 lat; }\n"


def test_what_cannot_be_read_is_told_by_the_system(folder: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_type_file(str(folder))
