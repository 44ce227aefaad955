"""`skerry types check`, `format` and `diff`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.limits import PROBLEM_COUNT_MAX

Run = Callable[..., Any]
Feed = Callable[[bytes], None]

# -- `skerry types check`

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


# -- `skerry types format`

UNTIDY = "struct   A{1:bool b;}\n"
TIDY = "struct A {\n    1: bool b;\n}\n"


@pytest.fixture
def untidy(clean_place: Path) -> Path:
    path = clean_place / "untidy.dots"
    path.write_text(UNTIDY)
    return path


def test_files_are_rewritten_in_place(run: Run, untidy: Path, fleet: Path) -> None:
    before = fleet.stat().st_mtime_ns
    done = run("types", "format", "untidy.dots", "fleet.dots")
    assert (done.code, done.out) == (0, "")
    assert done.err == "formatted untidy.dots\n2 files, 1 formatted\n"
    assert untidy.read_text() == TIDY
    assert fleet.stat().st_mtime_ns == before, "a tidy file is not touched"
    assert run("types", "format", "untidy.dots").err == "1 file, 0 formatted\n"


def test_check_lists_files_that_would_change_and_changes_nothing(
    run: Run, untidy: Path, fleet: Path
) -> None:
    done = run("types", "format", "--check", "untidy.dots", "fleet.dots")
    assert (done.code, done.out) == (1, "")
    assert done.err == "untidy.dots would change\n2 files, 1 would change\n"
    assert untidy.read_text() == UNTIDY
    assert run("types", "format", "--check", "fleet.dots").code == 0


def test_diff_prints_the_changes_and_changes_nothing(run: Run, untidy: Path) -> None:
    done = run("types", "format", "--diff", "untidy.dots")
    assert done.code == 0
    assert done.out == (
        "--- untidy.dots\n"
        "+++ untidy.dots (formatted)\n"
        "@@ -1 +1,3 @@\n"
        "-struct   A{1:bool b;}\n"
        "+struct A {\n"
        "+    1: bool b;\n"
        "+}\n"
    )
    assert untidy.read_text() == UNTIDY
    assert run("types", "format", "--check", "--diff", "untidy.dots").code == 1


def test_standard_input_is_printed(run: Run, clean_place: Path, stdin: Feed) -> None:
    stdin(UNTIDY.encode())
    done = run("types", "format", "-")
    assert (done.code, done.out, done.err) == (0, TIDY, "")


def test_file_that_does_not_parse_is_left_alone_and_the_others_are_not(
    run: Run, untidy: Path
) -> None:
    Path("bad.dots").write_text("struct A {")
    done = run("types", "format", "bad.dots", "untidy.dots")
    assert done.code == 1
    assert "bad.dots:1:11: error: " in done.err
    assert Path("bad.dots").read_text() == "struct A {"
    assert untidy.read_text() == TIDY


def test_crlf_line_ends_are_kept(run: Run, untidy: Path) -> None:
    untidy.write_bytes(b"struct   A{\r\n1:bool b;}\r\n")
    assert run("types", "format", untidy).code == 0
    assert untidy.read_bytes() == TIDY.replace("\n", "\r\n").encode()
    assert run("types", "format", "--check", untidy).code == 0


def test_mark_of_utf_8_goes(run: Run, untidy: Path) -> None:
    untidy.write_bytes(b"\xef\xbb\xbf" + TIDY.encode())
    assert run("types", "format", untidy).code == 0
    assert untidy.read_bytes() == TIDY.encode()


def test_permissions_and_links_are_kept(run: Run, untidy: Path) -> None:
    untidy.chmod(0o640)
    Path("link.dots").symlink_to("untidy.dots")
    assert run("types", "format", "link.dots").code == 0
    assert Path("link.dots").is_symlink()
    assert untidy.read_text() == TIDY
    assert untidy.stat().st_mode & 0o777 == 0o640


def test_unused_imports_do_not_matter_to_the_layout(run: Run, untidy: Path) -> None:
    untidy.write_text("import   Nowhere\n")
    assert run("types", "format", untidy).code == 0
    assert untidy.read_text() == "import Nowhere\n"


def test_empty_file_stays_empty(run: Run, untidy: Path) -> None:
    untidy.write_bytes(b"")
    assert run("types", "format", "--check", untidy).code == 0


# -- `skerry types diff`


def next_fleet(fleet: Path, *changes: tuple[str, str]) -> Path:
    text = fleet.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = fleet.with_name("next.dots")
    path.write_text(text, encoding="utf-8")
    return path


def test_equal_files_have_no_changes(run: Run, fleet: Path) -> None:
    done = run("types", "diff", fleet, fleet)
    assert (done.code, done.out, done.err) == (0, "compatible: no changes\n", "")


def test_changes_that_all_survive_give_0(run: Run, fleet: Path) -> None:
    new = next_fleet(fleet, ("    3: Purpose", "    5: float64 lat;\n    3: Purpose"))
    done = run("types", "diff", fleet, new)
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()] == [
        ["where", "change", "detail", "old", "readers", "new", "readers", "stored"],
        ["Vessel.lat", "field", "added", "5:", "float64", "lat", "fine", "fine", "fine"],
        [],
        ["compatible:", "1", "change"],
    ]


def test_changes_that_break_come_first_with_their_reason(run: Run, fleet: Path) -> None:
    new = next_fleet(
        fleet, ("As painted.", "On the bow."), ("    2: tanker", "    3: tug,\n    2: tanker")
    )
    done = run("types", "diff", fleet, new)
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[1].startswith("Purpose.tug")
    assert lines[2].startswith("Vessel.name")
    why = "an unknown tag makes the whole object unreadable for an old reader"
    assert lines[4:] == [f"Purpose.tug: element added: {why}", "old readers break: 2 changes"]


def test_lost_values_are_reported_but_break_nothing(run: Run, fleet: Path) -> None:
    new = next_fleet(fleet, ("    3: Purpose purpose;\n", "    3: [removed] Purpose purpose;\n"))
    done = run("types", "diff", fleet, new)
    assert done.code == 0
    assert "Vessel.purpose: field removed: " in done.out


def test_json_has_one_change_a_line_and_the_verdict_last(run: Run, fleet: Path) -> None:
    new = next_fleet(fleet, ("uint32 mmsi", "uint64 mmsi"))
    done = run("types", "diff", "--json", fleet, new)
    assert done.code == 1
    change, verdict = (json.loads(line) for line in done.out.splitlines())
    assert change.pop("why")
    assert change == {
        "where": "Vessel.mmsi",
        "change": "type widened",
        "detail": "uint32 to uint64",
        "old_reader": "breaks",
        "new_reader": "fine",
        "stored": "fine",
    }
    assert verdict == {"_verdict": "old readers break", "_change_count": 1}


def test_either_side_may_be_standard_input(run: Run, fleet: Path, stdin: Feed) -> None:
    stdin(fleet.read_bytes())
    assert run("types", "diff", "-", fleet).code == 0
    stdin(fleet.read_bytes())
    assert run("types", "diff", fleet, "-").code == 0
    assert run("types", "diff", "-", "-").code == 2


def test_imports_of_each_side_are_its_own(run: Run, clean_place: Path) -> None:
    for folder, kind in (("old", "float32"), ("new", "float64")):
        Path(folder).mkdir()
        Path(folder, "A.dots").write_text("import Place\nstruct A { 1: Place p; }\n")
        Path(folder, "Place.dots").write_text(f"struct Place {{ 1: {kind} lat; }}\n")
    done = run("types", "diff", "old/A.dots", "new/A.dots")
    assert done.code == 1
    assert done.out.splitlines()[1].split()[0] == "Place.lat"


def test_faulty_file_is_an_error_whichever_it_is(run: Run, fleet: Path) -> None:
    Path("bad.dots").write_text("struct")
    for files in (("bad.dots", fleet), (fleet, "bad.dots")):
        done = run("types", "diff", *files)
        assert (done.code, done.out) == (1, "")
        assert "bad.dots:1:" in done.err


def test_one_file_is_not_enough(run: Run, fleet: Path) -> None:
    done = run("types", "diff", fleet)
    assert done.code == 2
    assert "Missing argument 'NEW'" in done.err


def test_renamed_struct_breaks_its_readers(run: Run, fleet: Path) -> None:
    done = run("types", "diff", fleet, next_fleet(fleet, ("struct Vessel", "struct Ship")))
    assert done.code == 1
    assert done.out.splitlines()[1].split()[:3] == ["Vessel", "type", "renamed"]
    assert done.out.splitlines()[-1] == "both break: 1 change"
