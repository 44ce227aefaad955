"""`skerry hz`, `bw` and `delay`, on a real node."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import skerry
from skerry.cli.bw import bw
from skerry.cli.delay import delay
from skerry.cli.hz import hz
from skerry.cli.measuring import NumberSummary, size_text, span_text

Run = Callable[..., Any]

VESSEL = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; 2: string name; }").Vessel


@contextmanager
def published(place: str, act: Callable[[Any, int], object]) -> Iterator[None]:
    """A program that publishes without end."""

    def publish() -> None:
        number = 0
        while not ending.wait(0.002):
            number += 1
            act(space, number)

    ending = threading.Event()
    with skerry.connect(place, types=[VESSEL]) as space:
        act(space, 0)
        space.flush()
        thread = threading.Thread(target=publish)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()


def vessel(space: Any, number: int) -> None:
    space.publish(VESSEL(mmsi=1, name="x" * (number % 10)))


def price(space: Any, _number: int) -> None:
    space.publish("/prices/X", b"12345678")


def test_all_three_have_the_same_options() -> None:
    options = [
        [name for part in command.params for name in part.opts] for command in (hz, bw, delay)
    ]
    assert options[0] == options[1] == options[2]
    assert {"-i", "-c", "-t", "-n", "-j"} < {*options[0]}


def test_numbers_are_summed_up_without_keeping_them() -> None:
    summary = NumberSummary()
    for number in (2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0):
        summary.add(number)
    assert (summary.count, summary.total, summary.least, summary.greatest) == (8, 40.0, 2.0, 9.0)
    assert (summary.mean, summary.deviation) == (5.0, 2.0)
    assert NumberSummary().deviation == 0.0


def test_figures_have_the_unit_that_people_read() -> None:
    assert [size_text(size) for size in (12, 1500, 2.5e6, 7e9)] == [
        "12 B",
        "1.5 kB",
        "2.5 MB",
        "7.0 GB",
    ]
    assert [span_text(span) for span in (5e-5, 0.0123, 2.5, -0.002)] == [
        "50 us",
        "12.3 ms",
        "2.50 s",
        "-2.0 ms",
    ]


@pytest.mark.slow
def test_rate_and_gaps(run: Run, node: Any) -> None:
    with published(node.place, vessel):
        done = run("hz", "Vessel", "--count", "2", "--interval", "0.2", "--json")
        text = run("hz", "Vessel", "-c", "1", "-i", "0.2").out
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert len(rows) == 2
    for row in rows:
        assert row["rate"] == pytest.approx(row["count"] / row["seconds"])
        assert 0 < row["gap_s_min"] <= row["gap_s_mean"] <= row["gap_s_max"]
    assert re.fullmatch(
        r"[\d.,]+ updates/s, gap [\d.]+ \w+ to [\d.]+ \w+, mean [\d.]+ \w+,"
        r" deviation [\d.]+ \w+\n",
        text,
    )


@pytest.mark.slow
def test_bandwidth_is_of_what_is_encoded(run: Run, node: Any) -> None:
    with published(node.place, price):
        done = run("bw", "/prices/*", "--count", "1", "--interval", "0.2", "--json")
        text = run("bw", "/prices/X", "-c", "1", "-i", "0.2").out
    row = json.loads(done.out)
    assert (row["size_min"], row["size_max"], row["size_mean"]) == (8, 8, 8.0)
    assert row["bytes_per_s"] == pytest.approx(row["rate"] * 8)
    assert "updates/s of 8 B to 8 B, mean 8 B" in text


@pytest.mark.slow
def test_delay_is_the_age_at_arrival(run: Run, node: Any) -> None:
    with published(node.place, vessel):
        done = run("delay", "Vessel", "-c", "1", "-i", "0.2", "-j", "--where", "mmsi = 1")
        text = run("delay", "Vessel", "-c", "1", "-i", "0.2").out
    row = json.loads(done.out)
    # One clock stamps and measures.
    assert 0 <= row["delay_s_min"] <= row["delay_s_mean"] <= row["delay_s_max"] < math.inf
    assert " mean " in text


@pytest.mark.parametrize("command", ["hz", "bw", "delay"])
def test_silence_is_stated(run: Run, node: Any, command: str) -> None:
    with skerry.connect(node.place) as space:
        space.publish(VESSEL(mmsi=1))
        space.flush()
        done = run(command, "Vessel", "-c", "1", "-i", "0.1")
        assert re.fullmatch(r"no updates in 0\.\d s\n", done.out), "existing objects do not count"
        row = json.loads(run(command, "/x", "-c", "1", "-i", "0.1", "-j").out)
        assert row["count"] == 0
        assert all(math.isfinite(value) for value in row.values())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("/x", "--where", "a = 1"), "--where and --fields need a type"),
        (("x/y",), "did you mean '/x/y'?"),
        (("DotsClient", "--where", "idd = 1"), "DotsClient has no field idd"),
        (("DotsClient", "--interval", "0"), "'--interval'"),
    ],
)
def test_mistakes_are_usage_errors(
    run: Run, node: Any, arguments: tuple[str, ...], complaint: str
) -> None:
    done = run("hz", *arguments)
    assert complaint in done.err
    assert done.code == 2
