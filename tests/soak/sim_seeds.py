"""Fresh seeds of every simulated scenario, for as long as there is time."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from skerry.testing.scenarios import known_scenarios
from tests.soak._seeds import first_seed, run_seeds

MINUTES = 10.0


def run(minutes: float) -> dict[str, Any]:
    """All scenarios in turn, each with the next seed."""
    stop_s = time.monotonic() + minutes * 60
    names = list(known_scenarios())
    return run_seeds(
        "sim_seeds",
        ((name, seed) for seed in count(first_seed()) for name in names),
        lambda begun: begun >= len(names) and time.monotonic() >= stop_s,
    )
