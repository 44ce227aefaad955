"""The scenario of the distributor holds, and its faults occur."""

from __future__ import annotations

import json

import pytest

from skerry.testing import run_scenario
from skerry.testing.machines import distributor

SCENARIO = f"{distributor.__name__}:distributor"


@pytest.mark.parametrize("node_count", [2, 4])
def test_the_scenario_holds_with_few_nodes(node_count: int) -> None:
    outcome = run_scenario(SCENARIO, 1, node_count=node_count)
    assert outcome.error is None
    assert outcome.fault_count > 20


@pytest.mark.slow
def test_the_scenario_meets_every_fault_it_is_made_of() -> None:
    seen: set[str] = set()
    reasons: set[str] = set()

    def look(line: str) -> None:
        row = json.loads(line)
        seen.add(row["event"])
        if row["event"] == "UpdatesLost":
            reasons.add(row["reason"])

    for seed in range(20):
        run_scenario(SCENARIO, seed, node_count=6, sink=look)
    assert {"stopped", "pause", "crash", "partition", "drift"} <= seen
    assert {"Delivered", "SenderFound", "SenderRemoved", "UpdatesLost"} <= seen
    assert {"nak", "overflow", "retries"} <= reasons
