"""Reading the files a command was given, however strange they are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.limits import SOURCE_BYTES_MAX

Run = Callable[..., Any]
Feed = Callable[[bytes], None]


def test_missing_file_has_a_suggestion(run: Run, fleet: Path) -> None:
    done = run("types", "check", "flet.dots")
    assert (done.code, done.out) == (1, "")
    assert done.err == "error: flet.dots: no such file\nhint:  did you mean fleet.dots?\n"


def test_missing_folder_is_reported(run: Run, fleet: Path) -> None:
    done = run("types", "check", "nowhere/fleet.dots")
    assert done.err.splitlines()[1] == "hint:  the folder nowhere does not exist either"


def test_all_files_that_cannot_be_read_are_named(run: Run, fleet: Path) -> None:
    done = run("types", "check", "one.xyz", fleet, "two.xyz")
    assert done.code == 1
    assert [line for line in done.err.splitlines() if line.startswith("error:")] == [
        "error: one.xyz: no such file",
        "error: two.xyz: no such file",
    ]


def test_folder_is_not_a_file(run: Run, clean_place: Path) -> None:
    Path("types").mkdir()
    done = run("types", "check", "types")
    assert done.code == 1
    assert done.err == "error: types is a folder\nhint:  give its files: types/*.dots\n"


def test_unreadable_file_is_reported_with_the_reason(run: Run, clean_place: Path) -> None:
    # The first page of a process is never there; permissions would not stop root.
    assert run("types", "check", "/proc/self/mem").err == (
        "error: /proc/self/mem: cannot be read: Input/output error\n"
    )


def test_loop_of_links_is_reported(run: Run, clean_place: Path) -> None:
    Path("a.dots").symlink_to("b.dots")
    Path("b.dots").symlink_to("a.dots")
    done = run("types", "check", "a.dots")
    assert done.code == 1
    assert done.err == "error: a.dots: cannot be read: Too many levels of symbolic links\n"


def test_import_of_a_loop_of_links_is_a_problem_of_that_file(run: Run, clean_place: Path) -> None:
    Path("a.dots").write_text("import Place\nstruct A { 1: Place place; }\n")
    Path("Place.dots").symlink_to("Place.dots")
    done = run("types", "check", "a.dots")
    assert done.code == 1
    assert "Place.dots:1:1: error: cannot be read: Too many levels" in done.err


def test_largest_file_is_read_and_a_larger_one_refused(run: Run, clean_place: Path) -> None:
    types = b"struct A { 1: bool b; }\n//"
    Path("a.dots").write_bytes(types.ljust(SOURCE_BYTES_MAX, b"x"))
    assert run("types", "check", "a.dots").code == 0
    Path("a.dots").write_bytes(types.ljust(SOURCE_BYTES_MAX + 1, b"x"))
    done = run("types", "check", "a.dots")
    assert done.code == 1
    limit = SOURCE_BYTES_MAX
    assert done.err.startswith(
        f"error: size of a.dots in bytes is {limit + 1}, the limit is {limit}\n"
    )


def test_five_megabytes_are_refused_by_their_size(run: Run, clean_place: Path) -> None:
    with Path("big.dots").open("wb") as file:
        file.truncate(5 * 1024 * 1024)
    assert f"is 5242880, the limit is {SOURCE_BYTES_MAX}" in run("types", "format", "big.dots").err


def test_device_that_never_ends_is_refused(run: Run, clean_place: Path) -> None:
    done = run("types", "check", "/dev/zero")
    assert done.code == 1
    assert f"size of /dev/zero in bytes is {SOURCE_BYTES_MAX + 1}" in done.err


def test_empty_file_has_no_types_and_no_problems(run: Run, clean_place: Path) -> None:
    Path("a.dots").write_bytes(b"")
    assert run("types", "check", "a.dots").err == "1 file, 0 types: no problems\n"
    done = run("types", "show", "a.dots")
    assert (done.code, done.out, done.err) == (0, "", "the files define no types\n")


def test_invalid_utf_8_is_a_problem_with_line_and_column(run: Run, clean_place: Path) -> None:
    Path("a.dots").write_bytes(b"struct A {\n\x00\xff\xfe\x80" + bytes(range(256)))
    done = run("types", "check", "a.dots")
    assert done.code == 1
    assert "a.dots:2:2: error: not UTF-8" in done.err
    assert done.err.endswith("1 file: 1 error\n")


def test_byte_order_mark_and_crlf_are_accepted(run: Run, clean_place: Path) -> None:
    text = "\ufeffstruct A {\r\n    1: bool b;\r\n    2: nothing c;\r\n}\r\n"
    Path("a.dots").write_bytes(text.encode())
    done = run("types", "check", "a.dots")
    assert done.err.splitlines()[:3] == [
        "a.dots:3:8: error: type `nothing` is unknown",
        "3 |     2: nothing c;",
        "  |        ^^^^^^^",
    ]


def test_standard_input_is_a_file_too(run: Run, clean_place: Path, stdin: Feed) -> None:
    Path("Place.dots").write_text("struct Place { 1: bool b; }")
    stdin(b"import Place struct A { 1: Place p; }")
    assert run("types", "check", "-").err == "2 files, 2 types: no problems\n"
    stdin(b"struct A { 1: nothing p; }")
    assert run("types", "check", "-").err.startswith("<stdin>:1:15: error: type `nothing`")


def test_standard_input_is_read_once_only(run: Run, clean_place: Path, stdin: Feed) -> None:
    stdin(b"struct A { 1: bool b; }")
    done = run("types", "check", "-", "-")
    assert done.code == 2
    assert "can be read only once" in done.err


def test_standard_input_has_the_same_bound(run: Run, clean_place: Path, stdin: Feed) -> None:
    stdin(b" " * SOURCE_BYTES_MAX)
    assert run("types", "check", "-").code == 0
    stdin(b" " * (SOURCE_BYTES_MAX + 1))
    done = run("types", "check", "-")
    assert done.code == 1
    assert f"size of standard input in bytes is {SOURCE_BYTES_MAX + 1}" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", "format", "show"])
def test_closed_standard_input_is_reported(clean_place: Path, command: str) -> None:
    script = f'exec "$0" -m skerry types {command} - <&-'
    done = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: <stdin>: cannot be read: standard input is closed\n"


def test_without_files_the_command_line_is_wrong(run: Run, clean_place: Path) -> None:
    for name in ("check", "format", "show"):
        done = run("types", name)
        assert done.code == 2
        assert done.err == (
            f"error: Missing argument 'FILE...'.\nhint:  see `skerry types {name} --help`\n"
        )


def test_file_given_twice_counts_once(run: Run, fleet: Path) -> None:
    Path("link.dots").symlink_to("fleet.dots")
    for other in ("./fleet.dots", fleet.absolute(), "link.dots"):
        assert run("types", "check", "fleet.dots", other).err.startswith("1 file, ")


def test_file_name_that_is_not_utf_8_does_not_disturb(run: Run, clean_place: Path) -> None:
    name = os.fsdecode(b"\xff.dots")
    Path(name).write_text("struct A { 1: nothing b; }")
    done = run("types", "check", "--json", name)
    assert done.code == 1
    assert '"file": "\ufffd.dots"' in done.out
