"""The scenario of a node and its clients: it holds, and its faults occur."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from skerry.testing import run_scenario
from skerry.testing.machines.program import TYPES


@pytest.mark.slow
@pytest.mark.parametrize("node_count", [2, 8])
def test_the_scenario_holds_with_few_and_many_programs(node_count: int) -> None:
    outcome = run_scenario("node", 1, node_count=node_count)
    assert outcome.error is None, outcome.error
    assert outcome.fault_count > 10


@pytest.mark.slow
def test_the_scenario_meets_every_fault_it_is_made_of() -> None:
    seen: set[str] = set()
    for seed in range(4):
        run_scenario("node", seed, sink=lambda line: seen.add(json.loads(line)["event"]))
    assert {"crash", "closed", "refuse", "partition", "clog", "pause", "jump", "drift"} <= seen
    assert {"Seen", "Flushed", "Doubted", "StateChanged"} <= seen
    assert {"ClientConnected", "ClientDisconnected"} <= seen


@pytest.mark.slow
def test_programs_of_all_kinds_see_objects_of_all_types() -> None:
    seen: Counter[tuple[str, str, str]] = Counter()

    def note(line: str) -> None:
        event = json.loads(line)
        if event["event"] == "Seen":
            kind = "old" if event["_node"].startswith("old-") else "new"
            seen[kind, event["type_name"], event["operation"]] += 1

    for seed in range(6):
        run_scenario("node", seed, sink=note)
    for kind in ("old", "new"):
        for name in TYPES:
            operations = ("create",) if name == "Call" else ("create", "update", "remove")
            assert all(seen[kind, name, operation] for operation in operations), (kind, name)
