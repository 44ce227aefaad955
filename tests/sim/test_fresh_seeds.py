"""Some seeds of every scenario; `make soak` runs as many as there is time for."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.testing import run_scenario
from skerry.testing.scenarios import known_scenarios

NAMES = list(known_scenarios(Path(__file__).parents[2]))

SEED_COUNTS = {"node": 16, "slow": 12, "system": 10, "echo": 40, "heartbeat": 40, "stream-echo": 40}
"""Of those that take much or little time; 8 of the others."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_first_seeds_hold(name: str) -> None:
    for seed in range(SEED_COUNTS.get(name, 8)):
        outcome = run_scenario(name, seed)
        if outcome.error is not None:
            raise outcome.error
