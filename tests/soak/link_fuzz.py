"""A million random, cut and changed datagrams on links (FS-54), each to be repeated by its seed."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from random import Random
from typing import Any

from tests.link_fire import LinkUnderFire

MINUTES = 4.0
CASES_PER_SEED = 10_000
CASE_COUNT_MIN = 1_000_000
"""In `MINUTES`. Less time sends proportionally fewer; more time as many as it allows."""
VIOLATIONS_MAX = 20


def run(minutes: float) -> dict[str, Any]:
    """Seeds until the time is over and enough were sent."""
    stop_s = time.monotonic() + minutes * 60
    seed_count_min = max(1, round(CASE_COUNT_MIN / CASES_PER_SEED * min(minutes / MINUTES, 1.0)))
    first_seed = time.time_ns() % 1_000_000_000
    violations: list[str] = []
    drops: Counter[str] = Counter()
    seeds = 0
    while len(violations) < VIOLATIONS_MAX:
        if seeds >= seed_count_min and time.monotonic() >= stop_s:
            break
        fire = LinkUnderFire(Random(first_seed + seeds))
        try:
            for _ in range(CASES_PER_SEED):
                fire.shoot()
        except Exception:
            violations.append(f"seed {first_seed + seeds}: {traceback.format_exc()}")
        drops.update(fire.drop_counts)
        seeds += 1
    return {
        "name": "link_fuzz",
        "seeds": seeds,
        "inputs": seeds * CASES_PER_SEED,
        "violations": violations,
        "notes": {"drops": dict(drops)},
    }
