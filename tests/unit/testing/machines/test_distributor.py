"""The scenarios of the distributor: they hold, and they are as hard as they claim to be."""

from __future__ import annotations

import json

import pytest

from skerry.testing import run_scenario
from skerry.testing.machines import distributor

SCENARIO = f"{distributor.__name__}:distributor"
STORM = f"{distributor.__name__}:distributor_storm"
SHORT_LIVES = f"{distributor.__name__}:distributor_short_lives"


@pytest.mark.parametrize("node_count", [2, 4])
def test_the_scenario_holds_with_few_nodes(node_count: int) -> None:
    outcome = run_scenario(SCENARIO, 1, node_count=node_count)
    assert outcome.error is None
    assert outcome.fault_count > 20


def test_the_storm_is_one_and_few_receivers_weather_it() -> None:
    outcome = run_scenario(STORM, 1, node_count=4)
    assert outcome.error is None
    assert outcome.fault_count == 300


def test_short_lives_lose_much_and_nothing_in_silence() -> None:
    outcome = run_scenario(SHORT_LIVES, 1, node_count=6)
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
