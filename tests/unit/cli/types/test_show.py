"""`skerry types show`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import skerry
from skerry.schema.fingerprint import fingerprint

Run = Callable[..., Any]


def digits(path: Path, name: str) -> str:
    return f"{fingerprint(skerry.load_types(path)[name].descriptor) % 2**64:016x}"


def test_types_are_shown_with_all_that_is_known(run: Run, fleet: Path) -> None:
    done = run("types", "show", "fleet.dots")
    assert (done.code, done.err) == (0, "")
    assert [line.rstrip() for line in done.out.splitlines()] == [
        "enum Purpose  fleet.dots:2",
        "  What a vessel is for.",
        f"  fingerprint {digits(fleet, 'Purpose')}",
        "  tag  name    value  documentation",
        "  1    cargo   0",
        "  2    tanker  1      Liquids.",
        "",
        "struct Vessel  fleet.dots:8",
        "  A ship.",
        "  cached, persistent, scope site, key mmsi, owner=harbour, fingerprint "
        + digits(fleet, "Vessel"),
        "  tag  name     type     options               documentation",
        "  1    mmsi     uint32   key",
        '  2    name     string   ctor, default="Anna"  As painted.',
        "  3    purpose  Purpose",
        "  4    draught  float32  removed",
    ]


def test_one_type_can_be_chosen(run: Run, fleet: Path) -> None:
    done = run("types", "show", "fleet.dots", "--type", "Purpose")
    assert done.out.startswith("enum Purpose")
    assert "Vessel" not in done.out


def test_type_that_is_not_there_is_guessed(run: Run, fleet: Path) -> None:
    done = run("types", "show", "fleet.dots", "-t", "vesel")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "error: the files do not define a type vesel\nhint:  did you mean Vessel?\n"
    )
    done = run("types", "show", "fleet.dots", "-t", "Quay")
    assert done.err.splitlines()[1] == "hint:  they define Purpose, Vessel"


def test_json_has_one_type_a_line(run: Run, fleet: Path) -> None:
    done = run("types", "show", "--json", "fleet.dots")
    purpose, vessel = (json.loads(line) for line in done.out.splitlines())
    assert purpose == {
        "kind": "enum",
        "name": "Purpose",
        "fingerprint": digits(fleet, "Purpose"),
        "elements": [
            {"tag": 1, "name": "cargo", "value": 0, "documentation": ""},
            {"tag": 2, "name": "tanker", "value": 1, "documentation": "Liquids."},
        ],
        "options": {},
        "documentation": "What a vessel is for.",
        "_file": "fleet.dots",
        "_line": 2,
    }
    assert vessel["flags"]["persistent"] is True
    assert vessel["scope"] == "site"
    assert vessel["options"] == {"owner": "harbour"}
    assert vessel["fields"][1] == {
        "tag": 2,
        "name": "name",
        "type": "string",
        "key": False,
        "deprecated": False,
        "ctor": True,
        "default": '"Anna"',
        "options": {},
        "documentation": "As painted.",
    }
    assert vessel["removed"] == [
        {"tag": 4, "name": "draught", "type": "float32", "documentation": ""}
    ]


def test_long_documentation_is_whole_above_and_short_in_the_table(
    run: Run, clean_place: Path
) -> None:
    Path("a.dots").write_text(
        "/// One.\n///\n/// Two.\nstruct A [deprecated, cached=false] {\n"
        "    /// First.\n    /// Second.\n    1: [deprecated] bool b;\n}\n"
    )
    lines = [line.rstrip() for line in run("types", "show", "a.dots").out.splitlines()]
    assert lines[1:4] == ["  One.", "", "  Two."]
    assert lines[4].startswith("  not cached, deprecated, scope site, no key, ")
    assert lines[6].endswith("deprecated  First. ...")


def test_imported_types_are_shown_at_the_end(run: Run, clean_place: Path) -> None:
    Path("a.dots").write_text("import Place\nstruct A { 1: Place place; }\n")
    Path("Place.dots").write_text("struct Place { 1: bool b; }\n")
    rows = [json.loads(line) for line in run("types", "show", "--json", "a.dots").out.splitlines()]
    assert [(row["name"], row["_file"]) for row in rows] == [
        ("A", "a.dots"),
        ("Place", "Place.dots"),
    ]


def test_faulty_files_are_not_shown(run: Run, clean_place: Path) -> None:
    Path("bad.dots").write_text("struct A { 1: nothing b; }")
    done = run("types", "show", "bad.dots")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("bad.dots:1:15: error: type `nothing` is unknown")
    assert done.err.endswith("error: 1 error in the types\n")


def test_control_characters_of_the_files_are_shown_by_escapes(run: Run, clean_place: Path) -> None:
    Path("a.dots").write_text(
        '/// One\x1b[2J.\x0cTwo.\nstruct A [owner="\\u001b[2J"] {\n'
        "    1: bool b; //< \x1b]0;x\x07\n}\n"
    )
    lines = [line.rstrip() for line in run("types", "show", "a.dots").out.splitlines()]
    assert lines[1] == "  One\\x1b[2J.\\x0cTwo."
    assert "owner=\\x1b[2J, " in lines[2]
    assert lines[4].endswith("\\x1b]0;x\\x07")
