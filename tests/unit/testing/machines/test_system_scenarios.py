"""The scenario of a system of nodes: it holds for few and many nodes, and has all faults."""

from __future__ import annotations

import re

import pytest

from skerry.testing import run_scenario

EVENT = re.compile('"event":"([^"]+)"')

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("node_count", [2, 6])
def test_the_scenario_holds_with_few_and_many_nodes(node_count: int) -> None:
    outcome = run_scenario("system", 11, node_count=node_count)
    assert outcome.error is None
    assert outcome.node_count == node_count


def test_the_scenario_meets_every_fault_and_what_follows_from_it() -> None:
    seen: set[str] = set()
    faults = {"stopped", "partition", "clog", "pause", "crash", "interface lost", "drift", "jump"}
    events = {"RecordsReceived", "PictureChanged", "SystemLeft", "Rejoining"}
    for seed in range(30):
        run_scenario("system", seed, sink=lambda line: seen.update(EVENT.findall(line)))
        if faults | events <= seen:
            break
    assert faults | events <= seen
