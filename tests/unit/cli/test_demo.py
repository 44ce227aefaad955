"""`skerry demo`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.slow
def test_headless_demo_ends_by_itself_with_its_checks(run: Callable[..., Any]) -> None:
    done = run("demo", "--seconds", "0.4", "--headless", "--vessels", "5")
    assert done.code == 0
    assert "every update was delivered once" in done.out
    assert "BROKEN" not in done.out
    assert "struct Vessel" in done.err


@pytest.mark.slow
def test_demo_as_json_gives_one_check_per_line(run: Callable[..., Any]) -> None:
    done = run("demo", "--seconds", "0.2", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    assert len(rows) == 4
    assert all(row["holds"] for row in rows)


@pytest.mark.slow
def test_who_sees_no_table_hears_how_it_goes(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.cli.demo._NEWS_S", 0.1)
    done = run("demo", "--seconds", "0.5", "--vessels", "5")
    news = [line for line in done.err.splitlines() if line.endswith(" updates")]
    counts = [int(line.split()[-2]) for line in news]
    assert counts
    assert counts == sorted(set(counts))
    assert counts[0] > 0


def test_demo_refuses_what_makes_no_sense(run: Callable[..., Any]) -> None:
    for seconds in ("-1", "nan", "inf"):
        assert run("demo", "--seconds", seconds).code == 2
    assert run("demo", "--vessels", "0").code == 2


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_endless_demo_ends_orderly_on_a_signal(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "skerry", "demo", "--seconds", "0", "--headless"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stderr is not None
        # The types are shown just before the fleet sails.
        for line in process.stderr:
            if line.startswith("struct Hail"):
                break
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "stopping; once more to interrupt\n" in err
    assert "in the order in which they were published" in out
