"""`skerry record info`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skerry.recording.gaps import Gap
from skerry.runtime.recordings.writer import RecordingWriter

Run = Callable[..., Any]


def test_summary_is_printed(run: Run, recording: Path) -> None:
    out = run("record", "info", recording).out
    assert "Vessel                5" in out
    assert "2023-11-14T22:13:25Z" in out
    assert "3 updates missing" in out
    assert "of the space local" in out


def test_programs_get_all_of_it(run: Run, recording: Path) -> None:
    row = json.loads(run("record", "info", recording, "--json").out)
    assert row["row_count"] == 7
    assert row["types"]["Vessel"] == 5
    assert row["time_max"] == "2023-11-14T22:13:25Z"
    assert row["gaps"][0]["count"] == 3
    assert row["folder"] == str(recording)


def test_a_folder_of_recordings_has_a_line_for_each(run: Run, made: Any, clean_place: Path) -> None:
    made("all/a")
    made("all/b")
    lines = run("record", "info", clean_place / "all", "--json").out.splitlines()
    assert [Path(json.loads(line)["folder"]).name for line in lines] == ["a", "b"]


def test_repairs_and_dropped_segments_are_printed(run: Run, recording: Path) -> None:
    with (recording / "manifest.jsonl").open("a") as file:
        repair = {"name": "x.arrow", "kept_batches": 1, "kept_rows": 2, "lost_bytes": 9}
        file.write(json.dumps({"repaired": repair}) + "\n")
        for number in range(3):
            dropped = {"name": f"old{number}.arrow", "reason": "age"}
            file.write(json.dumps({"dropped": dropped}) + "\n")
    out = run("record", "info", recording).out
    assert "x.arrow: 9 bytes truncated" in out
    assert "3 segments by their age" in out
    assert "old1" not in out


def test_no_recording_is_an_error(run: Run, clean_place: Path) -> None:
    done = run("record", "info", clean_place / "nothing")
    assert done.code == 1
    assert "there is no folder" in done.err


def test_only_the_first_gaps_are_shown(run: Run, clean_place: Path) -> None:
    with RecordingWriter(clean_place / "gaps", space="local") as writer:
        for number in range(1, 51):
            writer.append_gap(Gap(count=1000 + number, first_ns=number, last_ns=number))
    out = run("record", "info", clean_place / "gaps").out
    assert "1,020 updates missing" in out
    assert "1,021 updates missing" not in out
    assert "and 30 more" in out
    assert len(json.loads(run("record", "info", clean_place / "gaps", "--json").out)["gaps"]) == 50
