"""Time in equal steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from skerry.spark.report.findings import Line, TimeSteps, lines_of, steps_for

NOON = datetime(2026, 9, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        (timedelta(0), 1),
        (timedelta(seconds=299), 1),
        (timedelta(seconds=300), 2),
        (timedelta(hours=4), 60),
        (timedelta(days=7), 3600),
        (timedelta(days=3650), 7 * 86_400),
    ],
)
def test_steps_are_as_small_as_a_plot_shows(time: timedelta, seconds: int) -> None:
    steps = steps_for(NOON, NOON + time)
    assert steps.seconds == seconds
    assert steps.instants[0] <= NOON
    assert steps.instants[-1] <= NOON + time < steps.instants[-1] + timedelta(seconds=seconds)
    assert len(steps.instants) == steps.count


def test_values_find_their_step() -> None:
    steps = TimeSteps(first=10, count=3, seconds=5)
    rows = [(10, "a", 1), (12, "a", 2), (12, "a", 3), (9, "a", 100), (13, "a", 100)]
    assert lines_of(rows, steps) == (Line(name="a", values=(1, 0, 5)),)


def test_small_lines_are_one() -> None:
    steps = TimeSteps(first=0, count=2, seconds=1)
    rows = [(0, f"type {n}", 100 - n) for n in range(12)] + [(1, "type 11", 1)]
    lines = list(lines_of(rows, steps))
    assert [line.name for line in lines[:2]] == ["type 0", "type 1"]
    assert len(lines) == 8
    assert lines[-1].name == "5 other types"
    assert list(lines[-1].values) == [93 + 92 + 91 + 90 + 89, 1]
    (*_, last) = lines_of(rows[:8], steps)
    assert last.name == "type 7", "eight colours are enough for eight"
