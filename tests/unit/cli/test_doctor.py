"""`skerry doctor`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]


def test_each_check_is_a_line_and_the_counts_are_printed(run: Run, node: Any) -> None:
    done = run("doctor")
    assert done.code == 0
    assert done.out.splitlines()[0].startswith("ok    python            ")
    assert "harbour at uds:" in done.out
    assert done.err.endswith(" warnings, 0 failed\n")


def test_check_that_failed_is_exit_code_one(run: Run, clean_place: Path) -> None:
    done = run("doctor", "--node", f"uds:{clean_place}/none.sock", "--json")
    rows = {row["check"]: row for row in map(json.loads, done.out.splitlines())}
    assert done.code == 1
    assert rows["node"]["verdict"] == "fail"
    assert "skerry node run" in rows["node"]["advice"]
    assert rows["python"] == {**rows["python"], "verdict": "ok", "advice": None}


def test_verdicts_are_coloured_if_asked(run: Run, node: Any) -> None:
    assert run("--color", "always", "doctor").out.startswith("\x1b[32m\x1b[1mok")
    assert "\x1b" not in run("doctor").out
