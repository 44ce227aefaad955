"""`skerry pipeline retain`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skerry.cli.pipeline.maintenance import ages_of
from skerry.errors import PipelineError
from tests.unit.lake.test_retention import tables

pytestmark = pytest.mark.slow
Run = Callable[..., Any]
S = 10**9


def test_rows_are_dropped_by_their_age(run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    root = tables(tmp_path / "lake")
    # They are of a certain day, and by now that is long ago or still to come.
    monkeypatch.setattr("skerry.runtime.clock.wall_ns", lambda: (1_794_751_200 + 3 * 3600) * S)
    command = ("pipeline", "retain", "--tables", root, "--keep", "2h")
    planned = run(*command, "--dry-run", "--json")
    row = json.loads(planned.out)
    assert (row["type_name"], row["updates"], row["is_dry_run"]) == ("Vessel", 3, True)
    kept = run(*command, "--type", "Vessel=")
    assert (kept.code, kept.out, kept.err) == (0, "", "no maximum age is given: see --keep\n")
    done = run(*command)
    assert done.out.splitlines()[1].split() == ["Vessel", "2026-11-15T15:00:00Z", "3", "3", "3"]
    assert run(*command).err == "no rows are old enough\n"
    refused = run(
        "pipeline", "asof", "--tables", root, "--type", "Vessel", "--at", "2026-11-15T14:30Z"
    )
    assert (refused.code, "are kept only from 2026-11-15T15:00:00Z" in refused.err) == (1, True)


def test_ages_can_be_configured(run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    root = tables(tmp_path / "lake")
    monkeypatch.setattr("skerry.runtime.clock.wall_ns", lambda: (1_794_751_200 + 3 * 3600) * S)
    monkeypatch.setenv("SKERRY_PIPELINE__KEEP", "2h")
    done = run("pipeline", "retain", "--tables", root, "--dry-run", "--json")
    assert json.loads(done.out)["updates"] == 3
    wrong = run("pipeline", "retain", "--tables", root, "--keep", "soon")
    assert (wrong.code, "is not a duration" in wrong.err) == (2, True)


def test_single_types_may_have_other_ages() -> None:
    ages = ages_of(["a", "b", "c"], "1d", ["b=2h"], ["c=", "a=3s"])
    assert ages == {"a": 3 * S, "b": 7200 * S}
    assert ages_of(["a"], "") == {}
    for text, words in (("a", "has no age"), ("z=1d", "there is no type z")):
        with pytest.raises(PipelineError, match=words):
            ages_of(["a"], "", [text])
