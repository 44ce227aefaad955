"""`skerry record import`, and what the pipeline makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.protocol.portal.identifiers import Scheme
from skerry.recording.goby.entries import GobyLogEntry
from skerry.runtime.goby_logs import new_goby_log
from tests.unit.protocol.portal.mapping.descriptors import fleet, message

Run = Callable[..., Any]
START_US = 1_763_215_387_000_000


@pytest.fixture
def goby_log(clean_place: Path) -> Path:
    """Reports of two vehicles, one each second, with a growing counter and position."""
    path = clean_place / "auv.goby"
    with new_goby_log(path, fleet().files_of) as log:
        for number in range(10):
            text = f'name: "{"ab"[number % 2]}" late: {number} position {{ lat: {number} lon: 4 }}'
            log.append(
                GobyLogEntry(
                    scheme=Scheme.PROTOBUF,
                    group="nav",
                    type_name="fleet.Report",
                    time_us=START_US + number * 1_000_000,
                    data=message("Report", text).SerializeToString(),
                )
            )
    return path


@pytest.mark.slow
def test_the_pipeline_knows_the_state_of_a_message_at_any_time(
    run: Run, spark: Any, goby_log: Path, clean_place: Path
) -> None:
    key = ("--key", "fleet.Report=name")
    done = run("record", "import", goby_log, "--to", clean_place / "rec" / "auv", *key, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["objects"] == 10
    lake = clean_place / "lake"
    done = run("pipeline", "run", "--recordings", clean_place / "rec", "--tables", lake)
    assert done.code == 0, done.err
    at = ("--type", "fleet_Report", "--at", "2025-11-15T14:03:12.5Z")
    done = run("pipeline", "asof", "--tables", lake, *at, "--json")
    assert done.code == 0, done.err
    found = {row["name"]: row for row in map(json.loads, done.out.splitlines())}
    assert {name: row["late"] for name, row in found.items()} == {"a": 4, "b": 5}
    assert found["a"]["position_"] == {"lat": 4.0, "lon": 4.0}, found["a"]


def test_the_rules_of_the_configuration_may_be_used(
    run: Run, goby_log: Path, clean_place: Path
) -> None:
    (clean_place / "skerry.toml").write_text(
        '[[portal.mapping.rules]]\nscheme = "PROTOBUF"\ntype = "fleet.Report"\nobject = "Report"\n'
        'key = ["name"]\n'
    )
    done = run("record", "import", goby_log, "--to", "rec", "--rules")
    assert done.code == 0, done.err
    assert done.out == "rec: 10 rows, 10 of them objects; 2 entries left out\n"
    info = run("record", "info", "rec", "--json")
    assert '"Report"' in info.out


def test_a_dots_record_is_exported_and_imported(
    run: Run, recording: Path, clean_place: Path
) -> None:
    done = run("record", "export", recording, "a.dots.rec")
    assert done.out == "a.dots.rec: 5 rows; 1 gaps and rows of unknown types are left out\n"
    done = run("record", "import", "a.dots.rec", "--to", "back")
    assert done.code == 0, done.err
    assert done.out.startswith("back: 5 rows, 5 of them objects")
    assert run("record", "export", recording, "-", "--format", "dots").code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("a.txt",),
        ("a.dots.rec", "--rules"),
        ("a.dots.rec", "--key", "a.B=c"),
        ("a.goby", "--key", "a.B"),
        ("a.goby", "--key", "a.*=b"),
    ],
)
def test_wrong_usage_is_reported(run: Run, clean_place: Path, arguments: tuple[str, ...]) -> None:
    (clean_place / arguments[0]).write_bytes(b"")
    assert run("record", "import", *arguments, "--to", "rec").code == 2


def test_a_log_is_not_imported_over_a_recording(run: Run, goby_log: Path, recording: Path) -> None:
    done = run("record", "import", goby_log, "--to", recording)
    assert done.code == 1
    assert "is a recording already" in done.err
