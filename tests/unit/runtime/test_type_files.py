"""Reading type files from disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.errors import SchemaError, SchemaSyntaxError
from skerry.runtime.type_files import load_types, read_type_file


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


def test_faults_are_reported_with_their_file(folder: Path) -> None:
    (folder / "bad.dots").write_text("struct {")
    with pytest.raises(SchemaSyntaxError) as caught:
        load_types(folder / "bad.dots", folder / "none.dots")
    said = str(caught.value)
    assert f"{folder / 'bad.dots'}:1:8: error:" in said
    assert f"{folder / 'none.dots'}:1:1: error: there is no such file" in said


def test_missing_file_has_no_content(folder: Path) -> None:
    assert read_type_file(str(folder / "none.dots")) is None
    assert read_type_file(str(folder / "Position.dots")) == b"struct Position { 1: float64 lat; }\n"


@pytest.mark.parametrize("name", [".", "a.dots"])
def test_a_folder_is_a_problem_that_names_it(folder: Path, name: str) -> None:
    path = folder / name
    path.mkdir(exist_ok=True)
    with pytest.raises(SchemaSyntaxError) as caught:
        load_types(path)
    (problem,) = caught.value.problems
    assert str(problem) == f"{path}:1:1: error: this is a folder, not a type file"


def test_an_import_that_leads_to_a_folder_is_a_problem_too(folder: Path) -> None:
    (folder / "Position.dots").unlink()
    (folder / "Position.dots").mkdir()
    with pytest.raises(SchemaSyntaxError, match=r"Position\.dots:1:1: error: this is a folder"):
        load_types(folder / "fleet.dots")


def test_unreadable_file_is_a_problem_with_a_reason(folder: Path) -> None:
    loop = folder / "loop.dots"
    loop.symlink_to(loop)
    with pytest.raises(SchemaSyntaxError) as caught:
        read_type_file(str(loop))
    assert str(caught.value) == (
        f"{loop}:1:1: error: it cannot be read: Too many levels of symbolic links"
    )


def test_a_file_is_needed(folder: Path) -> None:
    with pytest.raises(SchemaError, match="no type file was given"):
        load_types(*folder.glob("*.types"))


def test_one_file_under_several_names_is_loaded_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "link.dots").symlink_to("fleet.dots")
    (folder / "sub").mkdir()
    types = load_types("fleet.dots", folder / "fleet.dots", "link.dots", "sub/../fleet.dots")
    assert list(types) == ["Vessel", "Position"]


def test_problems_name_a_file_as_it_was_given_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    Path("bad.dots").write_text("struct {")
    Path("link.dots").symlink_to("bad.dots")
    with pytest.raises(SchemaSyntaxError) as caught:
        load_types("link.dots", "bad.dots")
    assert [problem.file for problem in caught.value.problems] == ["link.dots"]
