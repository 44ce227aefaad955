"""`skerry record` on a real node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.cli.record.run import progress_text
from skerry.observe.number_metrics import RecorderStatistics

Run = Callable[..., Any]


def test_existing_objects_are_recorded(run: Run, node: Any, types: Path) -> None:
    known = skerry.load_types(types)
    with skerry.connect(node.place, types=known) as space:
        space.publish(known.Vessel(mmsi=1, name="Maren"))
        space.flush()
        done = run("record", "--to", "rec", "--types", "Vessel", "--count", "1", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["updates"] == 1
    (line,) = run("record", "export", "rec", "-").out.splitlines()
    assert json.loads(line)["name"] == "Maren"


def test_a_recorder_writes_to_a_disk(run: Run, clean_place: Path) -> None:
    for place in ("s3a://bucket/rec", "file:///rec"):
        done = run("record", "--to", place)
        assert done.code == 2
        assert "skerry record copy" in done.err
    assert not (clean_place / "s3a:").exists()


@pytest.mark.slow
def test_it_ends_after_a_time_with_a_summary(run: Run, node: Any) -> None:
    done = run("record", "--to", "rec", "--seconds", "0.3", "--space", "harbour")
    assert done.code == 0, done.err
    assert "recording to rec" in done.err
    assert "0 gaps" in done.out
    assert json.loads(run("record", "info", "rec", "--json").out)["space"] == "harbour"
    again = run("record", "--to", "rec", "--seconds", "0.1")
    assert again.code == 1
    assert "harbour" in again.err


@pytest.mark.slow
def test_updates_without_a_recorder_are_a_gap(run: Run, node: Any, types: Path) -> None:
    known = skerry.load_types(types)
    with skerry.connect(node.place, types=known) as space:
        # The node publishes its status each second.
        run("record", "--to", "rec", "--seconds", "1.5")
        for number in range(5):
            space.publish(known.Vessel(mmsi=number))
        space.flush()
        run("record", "--to", "rec", "--seconds", "1.5")
    rows = [json.loads(line) for line in run("record", "export", "rec", "-").out.splitlines()]
    (gap,) = [row for row in rows if row["_operation"] == "gap"]
    assert gap["_reason"] == "the recorder was not running"
    assert gap["_count"] == gap["_stop"] - gap["_first"] >= 5
    live = [row for row in rows if row["_operation"] in ("create", "update", "remove")]
    live = [row for row in live if row["_type"] != "SkerryLink"]
    seen = sorted(row["_position"] for row in live)
    missing = set(range(gap["_first"], gap["_stop"]))
    assert {*seen, *missing} == set(range(seen[0], seen[-1] + 1)), "each is a row or is missing"
    assert missing.isdisjoint(seen)


def test_configuration_and_flags_go_together(run: Run, node: Any, clean_place: Path) -> None:
    (clean_place / "skerry.toml").write_text('[recorder]\nspace = "quay"\nbatch_ms = 20\n')
    arguments = ("--keep-age", "7d", "--keep-size", "1G", "--durability", "batch")
    done = run("record", "--to", "rec", *arguments, "--seconds", "0.05")
    assert done.code == 0, done.err
    assert json.loads(run("record", "info", "rec", "--json").out)["space"] == "quay"


def test_it_needs_a_folder_or_a_command(run: Run) -> None:
    done = run("record")
    assert done.code == 2
    assert "--to DIR" in done.err


@pytest.mark.parametrize(
    ("option", "value"), [("--subjects", "bad"), ("--subjects", "/.../x"), ("--multicast", "x:y")]
)
def test_a_value_that_cannot_be_used_is_refused(
    run: Run, clean_place: Path, option: str, value: str
) -> None:
    done = run("record", "--to", clean_place / "new", option, value)
    assert done.code == 2
    assert option in done.err
    assert not (clean_place / "new").exists()


def test_a_group_of_bytes_has_no_types(run: Run) -> None:
    done = run("record", "--to", "rec", "--multicast", "239.1.1.1:4711", "--types", "Vessel")
    assert done.code == 2
    assert "--kind objects" in done.err


def test_an_unsealed_segment_is_repaired_with_a_warning(
    run: Run, node: Any, clean_place: Path
) -> None:
    run("record", "--to", "rec", "--seconds", "0.05")
    folder = clean_place / "rec"
    name = json.loads((folder / "recording.json").read_text())["id"][:8]
    (folder / f"{name}-0000000099.arrow.open").write_bytes(b"half a batch")
    done = run("record", "--to", "rec", "--seconds", "0.05")
    assert "0000000099.arrow.open was not sealed" in done.err


def test_the_progress_line_has_rows_rate_and_gaps() -> None:
    now = RecorderStatistics(rows=1200, bytes=2048, gaps=1, queued_bytes=5, trouble="no room")
    assert progress_text(now, 350.0) == (
        "1,200 rows, 350 rows/s, 2.0 KiB, 1 gaps, 5 B queued, error: no room"
    )


def test_on_a_terminal_the_line_is_shown(
    run: Run, node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.cli.record.run._SHOW_S", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    done = run("record", "--to", "rec", "--seconds", "0.2")
    assert done.code == 0
