"""The scenarios of the small machines: they hold, and they are as hard as they claim to be."""

from __future__ import annotations

import json

import pytest

from skerry.testing import run_scenario


@pytest.mark.parametrize("name", ["echo", "heartbeat", "stream-echo"])
@pytest.mark.parametrize("node_count", [2, 7])
def test_a_scenario_holds_with_few_and_many_nodes(name: str, node_count: int) -> None:
    outcome = run_scenario(name, 1, node_count=node_count)
    assert outcome.error is None
    assert outcome.fault_count > 50


@pytest.mark.parametrize(
    ("name", "events"),
    [
        (
            "echo",
            {"receive", "stopped", "pause", "crash", "partition", "clog", "Answered", "Served"},
        ),
        (
            "heartbeat",
            {"receive", "pause", "crash", "jump", "drift", "Suspected", "Restored", "Restarted"},
        ),
        ("stream-echo", {"accept", "refuse", "piece", "closed", "crash", "pause", "Answered"}),
    ],
)
def test_a_scenario_meets_every_fault_it_is_made_of(name: str, events: set[str]) -> None:
    seen: set[str] = set()
    for seed in range(4):
        run_scenario(name, seed, sink=lambda line: seen.add(json.loads(line)["event"]))
    assert events <= seen
