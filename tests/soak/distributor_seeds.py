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
STARTS = "skerry.testing.machines.distributor_starts:distributor_starts"
_OTHERS = {0: SHORT_LIVES, 1: STARTS, 2: STARTS}


def run(minutes: float) -> dict[str, Any]:
    """One seed after another; of five, one with publishers that come and go, and two with receivers
    that join a little before or after."""
    stop_s = time.monotonic() + minutes * 60
    seed_count = max(1, round(SEED_COUNT_MIN * min(minutes / MINUTES, 1.0)))
    return run_seeds(
        "distributor_seeds",
        ((_OTHERS.get(seed % 5, "distributor"), seed) for seed in count(first_seed())),
        lambda begun: begun >= seed_count and time.monotonic() >= stop_s,
    )
