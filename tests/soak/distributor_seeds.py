"""Fresh seeds of the simulated multicast group: ten thousand, and more if there is time."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from skerry.testing import run_scenario

MINUTES = 20.0
SEED_COUNT_MIN = 10_000
"""In the usual time. Who gives it less time gets so many less, and who gives it more gets more."""
VIOLATION_COUNT_MAX = 20
"""Failures reported in full; a protocol that is broken fails with every other seed."""


def run(minutes: float) -> dict[str, Any]:
    """One scenario with one seed after another."""
    # Other seeds in each soak, and known from the report of the one that failed.
    first_seed = time.time_ns() // 1_000_000_000 * 1_000_000
    stop_s = time.monotonic() + minutes * 60
    seed_count = max(1, round(SEED_COUNT_MIN * min(minutes / MINUTES, 1.0)))
    faults = inputs = 0
    violations: list[str] = []
    for index in count():
        if index >= seed_count and time.monotonic() >= stop_s:
            break
        outcome = run_scenario("distributor", first_seed + index)
        faults += outcome.fault_count
        inputs += outcome.input_count
        if outcome.error is not None:
            violations.append(f"{outcome.error}; {outcome.error.hint}")
            if len(violations) >= VIOLATION_COUNT_MAX:
                break
    return {
        "name": "distributor_seeds",
        "seeds": index,
        "faults": faults,
        "inputs": inputs,
        "violations": violations,
    }
