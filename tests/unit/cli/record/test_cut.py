"""`skerry record cut`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]


def test_a_time_is_cut_out(run: Run, recording: Path, clean_place: Path) -> None:
    span = ("--from", "2023-11-14T22:13:22Z", "--to", "2023-11-14T22:13:24Z")
    done = run("record", "cut", recording, clean_place / "part", *span, "--json")
    row = json.loads(done.out)
    assert (row["folder"], row["rows"], row["duplicates"]) == (str(clean_place / "part"), 3, 0)
    lines = run("record", "export", clean_place / "part", "-").out.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["mmsi"], row["_operation"]) for row in rows] == [
        (1, "snapshot"),
        (2, "create"),
        (3, "create"),
    ]


def test_bare_omits_the_objects_at_the_start(run: Run, recording: Path, clean_place: Path) -> None:
    span = ("--from", "2023-11-14T22:13:22Z", "--to", "2023-11-14T22:13:24Z")
    assert ": 2 rows" in run("record", "cut", recording, clean_place / "part", *span, "--bare").out


def test_types_and_subjects_are_chosen(run: Run, recording: Path, clean_place: Path) -> None:
    arguments = ("--types", "Vessel", "--subjects", "/Vessel/4")
    assert ": 2 rows" in run("record", "cut", recording, clean_place / "part", *arguments).out


def test_a_folder_that_is_a_recording_is_not_written_to(run: Run, recording: Path) -> None:
    done = run("record", "cut", recording, recording)
    assert done.code == 1
    assert "is a recording already" in done.err


def test_invalid_times_are_rejected(run: Run, recording: Path) -> None:
    done = run("record", "cut", recording, "x", "--from", "yesterday")
    assert done.code == 2
    assert "yesterday" in done.err


def test_a_missing_type_is_reported(run: Run, recording: Path, clean_place: Path) -> None:
    done = run("record", "cut", recording, clean_place / "part", "--types", "Vesel")
    assert done.code == 0
    assert "the recording has no type Vesel; its types are: " in done.err
    assert "Vessel" in done.err


def test_invalid_patterns_are_rejected(run: Run, recording: Path, clean_place: Path) -> None:
    done = run("record", "cut", recording, clean_place / "part", "--subjects", "Vessel/1")
    assert done.code == 2
    assert "--subjects" in done.err
    assert not (clean_place / "part").exists()
