"""Fresh seeds of whole systems of nodes: nine thousand small ones, a thousand larger ones."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from tests.soak._seeds import first_seed, run_seeds

MINUTES = 45.0
SEED_COUNT_MIN = 10_000
"""In `MINUTES`. Less time runs proportionally fewer seeds; more time runs as many as it allows."""


def run(minutes: float) -> dict[str, Any]:
    """Run consecutive seeds. Of ten, one has 6 to 12 nodes and the others have 2 to 5."""
    stop_s = time.monotonic() + minutes * 60
    seed_count = max(1, round(SEED_COUNT_MIN * min(minutes / MINUTES, 1.0)))
    return run_seeds(
        "system_seeds",
        (("system", seed, node_count(seed)) for seed in count(first_seed())),
        lambda begun: begun >= seed_count and time.monotonic() >= stop_s,
    )


def node_count(seed: int) -> int:
    """The number of nodes of the system with this seed."""
    return 6 + seed // 10 % 7 if seed % 10 == 0 else 2 + seed % 4
