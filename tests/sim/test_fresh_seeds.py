"""Some seeds of every scenario; `make soak` runs as many as there is time for."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.testing import run_scenario
from skerry.testing.scenarios import known_scenarios

NAMES = list(known_scenarios(Path(__file__).parents[2]))

SEED_COUNTS = {"moves": 12, "node": 24, "requests": 8, "slow": 16, "system": 16}
"""Of those that take longer; 40 of the others."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_first_seeds_hold(name: str) -> None:
    for seed in range(SEED_COUNTS.get(name, 40)):
        outcome = run_scenario(name, seed)
        if outcome.error is not None:
            raise outcome.error
