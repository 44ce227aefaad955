"""`skerry record verify`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]


def damage(recording: Path) -> None:
    (segment,) = recording.glob("*.arrow")
    content = bytearray(segment.read_bytes())
    content[-200] ^= 0xFF
    segment.write_bytes(content)


def test_a_sound_one_passes(run: Run, recording: Path) -> None:
    done = run("record", "verify", recording, "--strict")
    assert done.code == 0
    assert "sound; 7 rows" in done.out


def test_damage_is_reported_and_fails_only_with_strict(run: Run, recording: Path) -> None:
    damage(recording)
    done = run("record", "verify", recording)
    assert done.code == 0
    assert "fault: " in done.out
    assert "6 rows are lost" in done.out
    done = run("record", "verify", recording, "--strict")
    assert done.code == 1
    assert "the recording has losses or damage" in done.err


def test_programs_get_the_findings(run: Run, recording: Path) -> None:
    damage(recording)
    row = json.loads(run("record", "verify", recording, "--json").out)
    assert row["is_sound"] is False
    assert row["findings"][0]["is_fault"] is True
    assert row["lost_row_count"] == 6


def test_more_findings_than_are_shown_are_counted(
    run: Run, recording: Path, monkeypatch: Any
) -> None:
    damage(recording)
    monkeypatch.setattr("skerry.runtime.recordings.verify.RECORDING_FINDING_COUNT_MAX", 0)
    assert "and 1 more" in run("record", "verify", recording).out
