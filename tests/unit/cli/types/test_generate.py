"""`skerry types generate`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.objects.generate import generate_module, generate_stub

Run = Callable[..., Any]
Feed = Callable[[bytes], None]


def test_module_and_stub_are_written(run: Run, fleet: Path) -> None:
    done = run("types", "generate", "fleet.dots", "-o", "types_of_fleet.py")
    assert (done.code, done.out) == (0, "")
    assert done.err == "wrote types_of_fleet.py\nwrote types_of_fleet.pyi\n"
    types = skerry.load_types(fleet).values()
    module, stub = Path("types_of_fleet.py").read_text(), Path("types_of_fleet.pyi").read_text()
    assert module == generate_module(types, source="fleet.dots")
    assert stub == generate_stub(types, source="fleet.dots")


def test_source_in_the_header_has_no_folders(run: Run, fleet: Path) -> None:
    Path("out").mkdir()
    assert run("types", "generate", fleet, "-o", "out/fleet.py").code == 0
    assert "from fleet.dots;" in Path("out/fleet.py").read_text().splitlines()[0]


def test_stub_can_be_left_out(run: Run, fleet: Path) -> None:
    assert run("types", "generate", "fleet.dots", "-o", "a.py", "--no-stub").code == 0
    assert not Path("a.pyi").exists()


def test_several_files_make_one_module(run: Run, fleet: Path) -> None:
    Path("quay.dots").write_text("import Vessel\nstruct Quay { 1: Vessel vessel; }\n")
    assert run("types", "generate", "fleet.dots", "quay.dots", "-o", "a.py").code == 0
    text = Path("a.py").read_text()
    assert "from fleet.dots, quay.dots;" in text
    assert text.index("class Vessel(") < text.index("class Quay(")


def test_dash_prints_the_module_and_writes_nothing(run: Run, fleet: Path) -> None:
    done = run("types", "generate", "fleet.dots", "-o", "-")
    assert (done.code, done.err) == (0, "")
    assert done.out == generate_module(skerry.load_types(fleet).values(), source="fleet.dots")
    assert [path.name for path in Path().iterdir()] == ["fleet.dots"]


def test_check_tells_missing_and_old_files_from_new_ones(run: Run, fleet: Path) -> None:
    command = ("types", "generate", "fleet.dots", "-o", "a.py")
    done = run(*command, "--check")
    assert done.code == 1
    assert done.err.splitlines() == [
        "a.py is missing",
        "a.pyi is missing",
        "error: generate the files again",
        "hint:  run this command without --check",
    ]
    assert not Path("a.py").exists()
    run(*command)
    done = run(*command, "--check")
    assert (done.code, done.err) == (0, "a.py is up to date\na.pyi is up to date\n")
    Path("a.pyi").write_text("")
    done = run(*command, "--check")
    assert done.code == 1
    assert done.err.splitlines()[:2] == ["a.py is up to date", "a.pyi is out of date"]
    assert run(*command, "--check", "--no-stub").code == 0


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("a.txt", "a.txt is no name of a Python module: it ends with .py"),
        ("a-b.py", "no program could import a-b.py: 'a-b' is no name in Python"),
        ("class.py", "no program could import class.py: 'class' is no name in Python"),
    ],
)
def test_file_that_no_program_could_import_is_refused(
    run: Run, fleet: Path, target: str, message: str
) -> None:
    done = run("types", "generate", "fleet.dots", "-o", target)
    assert done.code == 2
    assert done.err.splitlines()[0] == f"error: {message}"
    assert not Path(target).exists()


def test_output_must_be_named(run: Run, fleet: Path) -> None:
    done = run("types", "generate", "fleet.dots")
    assert done.code == 2
    assert "Missing option '-o'" in done.err


def test_check_of_printed_text_makes_no_sense(run: Run, fleet: Path) -> None:
    assert run("types", "generate", "fleet.dots", "-o", "-", "--check").code == 2


def test_files_with_errors_leave_the_old_module_alone(run: Run, fleet: Path) -> None:
    Path("a.py").write_text("old")
    Path("bad.dots").write_text("struct A { 1: nothing b; }")
    done = run("types", "generate", "bad.dots", "-o", "a.py")
    assert done.code == 1
    assert "bad.dots:1:15: error: " in done.err
    assert Path("a.py").read_text() == "old"


def test_files_without_types_are_refused(run: Run, clean_place: Path) -> None:
    Path("a.dots").write_text("// nothing\n")
    done = run("types", "generate", "a.dots", "-o", "a.py")
    assert (done.code, done.err) == (1, "error: there are no types in a.dots\n")
    assert not Path("a.py").exists()


def test_folder_that_is_not_there_is_named(run: Run, fleet: Path) -> None:
    done = run("types", "generate", "fleet.dots", "-o", "nowhere/a.py")
    assert (done.code, done.err) == (1, "error: nowhere/a.py: No such file or directory\n")


def test_stub_that_cannot_be_written_leaves_the_module_alone(run: Run, fleet: Path) -> None:
    Path("a.py").write_text("old")
    Path("a.pyi").mkdir()
    done = run("types", "generate", "fleet.dots", "-o", "a.py")
    assert (done.code, done.err) == (1, "error: a.pyi: Is a directory\n")
    assert Path("a.py").read_text() == "old"
    assert sorted(path.name for path in Path().iterdir()) == ["a.py", "a.pyi", "fleet.dots"]


def test_types_may_come_from_standard_input(run: Run, clean_place: Path, stdin: Feed) -> None:
    stdin(b"enum A { 1: x }")
    done = run("types", "generate", "-", "-o", "-")
    assert done.code == 0
    assert done.out.startswith("# Generated by `skerry types generate` from standard input;")


def test_text_beyond_ascii_is_written_as_utf_8(
    run: Run, clean_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.dots").write_bytes("/// Füße\nenum A { 1: x }".encode())
    monkeypatch.setitem(os.environ, "LC_ALL", "C")
    assert run("types", "generate", "a.dots", "-o", "a.py").code == 0
    assert '"""Füße"""'.encode() in Path("a.py").read_bytes()
