"""`skerry types check`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.limits import PROBLEM_COUNT_MAX

Run = Callable[..., Any]

BAD = """\
struct Vessel {
    1: [key] uint32 mmsi;
    2: strin name;
    2: float64 lat;
}
"""

QUESTIONABLE = "struct A [cached=false, cleanup] { 1: bool b; }\n"


def test_file_in_order_is_counted_and_gives_no_data(run: Run, fleet: Path) -> None:
    done = run("types", "check", "fleet.dots")
    assert (done.code, done.out) == (0, "")
    assert done.err == "1 file, 2 types: no problems\n"


def test_every_error_is_shown_with_file_and_line(run: Run, clean_place: Path) -> None:
    Path("bad.dots").write_text(BAD)
    done = run("types", "check", "bad.dots")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "bad.dots:3:8: error: type `strin` is unknown\n"
        "3 |     2: strin name;\n"
        "  |        ^^^^^\n"
        "hint: did you mean `string`?\n"
        "bad.dots:4:5: error: tag 2 is taken by `name` of line 3\n"
        "4 |     2: float64 lat;\n"
        "  |     ^\n"
        "1 file: 2 errors\n"
    )


def test_problems_of_all_files_are_shown(run: Run, fleet: Path) -> None:
    Path("a.dots").write_text("struct {")
    Path("b.dots").write_text("enum A { }")
    done = run("types", "check", "a.dots", fleet, "b.dots")
    assert done.code == 1
    assert "a.dots:1:" in done.err
    assert "b.dots:1:" in done.err
    assert done.err.endswith("3 files: 2 errors\n")


def test_warnings_fail_only_when_strict(run: Run, clean_place: Path) -> None:
    Path("a.dots").write_text(QUESTIONABLE)
    done = run("types", "check", "a.dots")
    assert done.code == 0
    assert "a.dots:1:25: warning: option `cleanup` has no effect" in done.err
    assert done.err.endswith("1 file, 1 type: 1 warning\n")
    assert run("types", "check", "--strict", "a.dots").code == 1


def test_json_prints_each_problem_and_nothing_else(run: Run, clean_place: Path) -> None:
    Path("bad.dots").write_text(BAD)
    done = run("types", "check", "--json", "bad.dots")
    assert (done.code, done.err) == (1, "")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert rows[0] == {
        "file": "bad.dots",
        "line": 3,
        "column": 8,
        "severity": "error",
        "message": "type `strin` is unknown",
        "text": "strin",
        "hint": "did you mean `string`?",
    }
    assert [row["line"] for row in rows] == [3, 4]


def test_json_of_files_in_order_is_empty(run: Run, fleet: Path) -> None:
    done = run("types", "check", "--json", fleet)
    assert (done.code, done.out, done.err) == (0, "", "")


def test_imported_files_are_checked_and_counted_too(run: Run, clean_place: Path) -> None:
    Path("a.dots").write_text("import Place\nstruct A { 1: Place place; }\n")
    Path("Place.dots").write_text("struct Place { 1: float65 lat; }\n")
    done = run("types", "check", "a.dots")
    assert done.code == 1
    assert "Place.dots:1:19: error: type `float65` is unknown" in done.err
    assert done.err.endswith("2 files: 1 error\n")


def test_hidden_problems_are_mentioned(run: Run, clean_place: Path) -> None:
    fields = "".join(f"struct S{n} {{ 1: nothing x; }}\n" for n in range(PROBLEM_COUNT_MAX + 1))
    Path("a.dots").write_text(fields)
    done = run("types", "check", "a.dots")
    assert done.err.count(": error: ") == PROBLEM_COUNT_MAX
    assert done.err.splitlines()[-1] == "only the first 50 problems are shown"


def test_problems_are_coloured_on_request(run: Run, clean_place: Path) -> None:
    Path("bad.dots").write_text(BAD)
    assert (
        "\x1b[31m\x1b[1m error: \x1b[0m"
        in run("--color", "always", "types", "check", "bad.dots").err
    )


@pytest.mark.parametrize("name", ["check", "diff", "format", "generate", "show"])
def test_help_of_each_command_teaches_with_examples(run: Run, name: str) -> None:
    done = run("types", name, "--help")
    assert done.code == 0
    assert f"skerry types {name} " in done.out.split("Examples:")[1]
