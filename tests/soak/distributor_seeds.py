"""Fresh seeds of the simulated multicast group: ten thousand, and more if there is time."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from tests.soak._seeds import first_seed, run_seeds

MINUTES = 20.0
SEED_COUNT_MIN = 10_000
"""In `MINUTES`. Less time runs proportionally fewer seeds; more time runs as many as it allows."""
SHORT_LIVES = "tests.sim.group_storms:group_short_lives"
STARTS = "tests.sim.group_starts:group_starts"
_OTHERS = {0: SHORT_LIVES, 1: STARTS, 2: STARTS}


def run(minutes: float) -> dict[str, Any]:
    """Run consecutive seeds. Of five, one has short-lived publishers and two have receivers that
    join shortly before or after the publishers."""
    stop_s = time.monotonic() + minutes * 60
    seed_count = max(1, round(SEED_COUNT_MIN * min(minutes / MINUTES, 1.0)))
    return run_seeds(
        "distributor_seeds",
        ((_OTHERS.get(seed % 5, "distributor"), seed) for seed in count(first_seed())),
        lambda begun: begun >= seed_count and time.monotonic() >= stop_s,
    )
