"""The scenario of requests and claims: it holds, and it is as hard as it claims to be."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from skerry.testing import run_scenario


@pytest.mark.slow
@pytest.mark.parametrize("node_count", [2, 9])
def test_the_scenario_holds_with_few_and_many_programs(node_count: int) -> None:
    outcome = run_scenario("requests", 1, node_count=node_count)
    assert outcome.error is None, outcome.error
    assert outcome.fault_count > 10


@pytest.mark.slow
def test_the_scenario_meets_all_that_can_become_of_requests_and_claims() -> None:
    seen: Counter[tuple[str, str]] = Counter()

    def note(line: str) -> None:
        event = json.loads(line)
        kind = event["event"]
        what = event.get(
            {
                "RequestEnded": "outcome",
                "RequestCompleted": "outcome",
                "ClaimStateChanged": "state",
            }.get(kind, "")
        )
        seen[kind, what or event.get("what") or event.get("reason") or event.get("kind") or ""] += 1

    for seed in range(4):
        run_scenario("requests", seed, sink=note)
    ends = ("answered", "failed", "lost", "not_registered", "overflow", "timed_out")
    states = ("asked", "closed", "held", "lost", "refused", "standby")
    refused = ("claim", "publish", "remove")
    wanted = [
        *[("RequestEnded", outcome) for outcome in ends],
        *[("RequestCompleted", outcome) for outcome in ends if outcome not in ("lost", "overflow")],
        *[("ClaimStateChanged", state) for state in states],
        *[("HolderChanged", kind) for kind in ("objects", "requests")],
        *[("ClientRefused", what) for what in refused],
        *[("ClientDisconnected", reason) for reason in ("goodbye", "lost", "refused")],
        *[(event, "") for event in ("crash", "pause", "UpdateAccepted", "RequestServed")],
    ]
    assert [each for each in wanted if not seen[each]] == []
