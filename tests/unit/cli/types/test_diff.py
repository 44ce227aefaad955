"""`skerry types diff`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]
Feed = Callable[[bytes], None]


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
