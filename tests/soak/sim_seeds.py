"""Fresh seeds of every simulated scenario, for as long as there is time."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from skerry.testing import run_scenario
from skerry.testing.scenarios import SHIPPED

MINUTES = 10.0
VIOLATION_COUNT_MAX = 20
"""Failures reported in full; a protocol that is broken fails with every other seed."""


def run(minutes: float) -> dict[str, Any]:
    """All scenarios in turn, each with the next seed."""
    # Other seeds in each soak, and known from the report of the one that failed.
    first_seed = time.time_ns() // 1_000_000_000 * 1_000_000
    stop_s = time.monotonic() + minutes * 60
    result: dict[str, Any] = {
        "name": "sim_seeds",
        "seeds": 0,
        "faults": 0,
        "inputs": 0,
        "violations": [],
    }
    for seed in count(first_seed):
        for name in SHIPPED:
            outcome = run_scenario(name, seed)
            result["seeds"] += 1
            result["faults"] += outcome.fault_count
            result["inputs"] += outcome.input_count
            if outcome.error is not None:
                result["violations"].append(f"{outcome.error}; {outcome.error.hint}")
        if time.monotonic() >= stop_s or len(result["violations"]) >= VIOLATION_COUNT_MAX:
            break
    return result
