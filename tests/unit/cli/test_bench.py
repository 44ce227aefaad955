"""`skerry bench`, on a real node."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import skerry
from skerry.apps.node_bench import bench_node

Run = Callable[..., Any]


@pytest.mark.slow
def test_the_result_is_one_line(run: Run, node: Any) -> None:
    done = run("bench", "--seconds", "0.05", "--size", "100")
    assert done.code == 0, done.err
    assert re.fullmatch(
        r"harbour: [\d,]+ updates/s of 100 B; round trip median [\d.]+ \w+, p99 [\d.]+ \w+;"
        r" [\d.]+ us CPU of the clients per update\n",
        done.out,
    )
    row = json.loads(run("bench", "--seconds", "0.05", "--json").out)
    assert row["size"] == 56
    assert row["count"] > 0
    assert row["trip_s_median"] <= row["trip_s_p99"]


def test_all_updates_arrive_whatever_their_size(live_node: Any) -> None:
    def connect(name: str) -> skerry.Space:
        return skerry.connect(live_node.place, name=name)

    result = bench_node(connect, seconds=0.05, size=100_000)
    assert result.count % 64 == 0
    assert result.count > 0
    stopped = bench_node(connect, seconds=60, size=0, is_stopped=lambda: True)
    assert (stopped.count, stopped.trip_count) == (0, 1)


def test_options_have_bounds(run: Run) -> None:
    assert run("bench", "--seconds", "0").code == 2
    assert run("bench", "--size", "-1").code == 2
