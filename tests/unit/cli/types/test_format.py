"""`skerry types format`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Feed = Callable[[bytes], None]

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
