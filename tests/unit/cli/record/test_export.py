"""`skerry record export`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcap.reader import make_reader

Run = Callable[..., Any]


def test_lines_go_to_standard_output(run: Run, recording: Path) -> None:
    lines = run("record", "export", recording, "-", "--subjects", "/Vessel/1").out.splitlines()
    vessel = json.loads(lines[0])
    assert (vessel["name"], vessel["_subject"], vessel["_operation"]) == (
        "V1",
        "/Vessel/1",
        "create",
    )


def test_lines_go_to_a_file(run: Run, recording: Path, clean_place: Path) -> None:
    done = run("record", "export", recording, clean_place / "a.jsonl", "--json")
    row = json.loads(done.out)
    assert (row["format"], row["rows"]) == ("jsonl", 6)
    assert len((clean_place / "a.jsonl").read_text().splitlines()) == 6


def test_viewers_get_mcap(run: Run, recording: Path, clean_place: Path) -> None:
    done = run("record", "export", recording, clean_place / "a.mcap", "--channels", "subject")
    assert ": 6 rows" in done.out
    with (clean_place / "a.mcap").open("rb") as file:
        topics = {channel.topic for _, channel, _ in make_reader(file).iter_messages()}
    assert {"/Vessel/1", "/gaps"} <= topics


def test_an_unknown_suffix_needs_a_format(run: Run, recording: Path, clean_place: Path) -> None:
    assert run("record", "export", recording, clean_place / "a.txt").code == 2
    done = run("record", "export", recording, clean_place / "a.txt", "--format", "jsonl")
    assert done.code == 0


def test_mcap_is_not_written_to_stdout(run: Run, recording: Path) -> None:
    assert run("record", "export", recording, "-", "--format", "mcap").code == 2


def test_a_folder_is_not_an_export_file(run: Run, recording: Path, clean_place: Path) -> None:
    done = run("record", "export", recording, clean_place, "--format", "jsonl")
    assert done.code == 1
    assert "it is a folder" in done.err
    assert "hint:" in done.err
    done = run("record", "export", recording, clean_place / "nothing" / "a.jsonl")
    assert done.code == 1
    assert "hint:" in done.err


@pytest.mark.parametrize("target", ["s3a://b/day.jsonl", "S3://b/day.mcap", "file:///day.jsonl"])
def test_an_export_is_written_to_a_file(run: Run, recording: Path, target: str) -> None:
    done = run("record", "export", recording, target)
    assert done.code == 2
    assert "an export is written to a local file" in done.err
