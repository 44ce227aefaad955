"""Fresh seeds of the simulated multicast group: ten thousand, and more if there is time."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from tests.soak._seeds import first_seed, run_seeds

MINUTES = 20.0
SEED_COUNT_MIN = 10_000
"""In the usual time. Who gives it less time gets so many less, and who gives it more gets more."""


SHORT_LIVES = "skerry.testing.machines.distributor:distributor_short_lives"


def run(minutes: float) -> dict[str, Any]:
    """One seed after another, each fifth with publishers that come and go."""
    stop_s = time.monotonic() + minutes * 60
    seed_count = max(1, round(SEED_COUNT_MIN * min(minutes / MINUTES, 1.0)))
    return run_seeds(
        "distributor_seeds",
        ((SHORT_LIVES if seed % 5 == 0 else "distributor", seed) for seed in count(first_seed())),
        lambda begun: begun >= seed_count and time.monotonic() >= stop_s,
    )
