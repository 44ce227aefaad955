"""Fresh seeds of the link: FS-08, 16, 17 and 18 in random mixes, and links without membership.

Nodes of two types that send to all and to one, one of which may be included late, be slow, or
crash, under loss, duplication, reordering, drift, pauses and partitions.
"""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from tests.soak._seeds import first_seed, run_seeds

MINUTES = 15.0
SEED_COUNT_MIN = 2000
"""In `MINUTES`. Less time runs proportionally fewer seeds; more time runs as many as it allows."""


def run(minutes: float) -> dict[str, Any]:
    """Run consecutive seeds. Of four, one is without membership."""
    stop_s = time.monotonic() + minutes * 60
    seed_count = max(1, round(SEED_COUNT_MIN * min(minutes / MINUTES, 1.0)))
    return run_seeds(
        "link_seeds",
        (("link" if seed % 4 else "direct", seed) for seed in count(first_seed())),
        lambda begun: begun >= seed_count and time.monotonic() >= stop_s,
    )
